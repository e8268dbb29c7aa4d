// One function a route; the names are those of the routes.
import { ask, path, query } from './client'
import type { Answer, Explained, Feed, Found, Kept, Lineage, Me, Status, Top, Transaction, View } from './shapes'

export const logIn = (token: string) => ask('session', { method: 'POST', body: { token } })
export const logOut = () => ask('session', { method: 'DELETE' })
export const me = (signal?: AbortSignal) => ask<Me>('me', { signal })

export const status = (signal?: AbortSignal) => ask<Status>('status', { signal })
export const top = (signal?: AbortSignal) => ask<Top>('top', { signal })
export const lineage = (signal?: AbortSignal) => ask<Lineage>('lineage', { signal })

export const view = (name: string, signal?: AbortSignal) => ask<View>(path('views', name), { signal })
export const explain = (name: string, signal?: AbortSignal) =>
  ask<Explained>(path('views', name, 'explain'), { signal })
export const rows = (name: string, asked: [string, string][], signal?: AbortSignal) =>
  ask<Answer>(path('views', name, 'rows') + query(asked), { signal })
export const search = (name: string, q: string, signal?: AbortSignal) =>
  ask<Found>(path('views', name, 'search') + query({ q }), { signal })

export const feeds = (signal?: AbortSignal) => ask<Feed[]>('feeds', { signal })
export const transactions = (
  name: string,
  asked: { before?: number; after?: number; limit: number },
  signal?: AbortSignal,
) => ask<Transaction[]>(path('feeds', name, 'transactions') + query(asked), { signal })

export interface Question {
  sql: string
  limit: number
  at?: number
  engine: 'duckdb' | 'spark'
}
export const sql = (question: Question, signal?: AbortSignal) =>
  ask<Answer>('sql', { method: 'POST', body: question, signal })

export const quarantine = (signal?: AbortSignal) => ask<Kept[]>('quarantine', { signal })
export const replay = (id: string) => ask<unknown>(path('quarantine', id, 'replay'), { method: 'POST', body: {} })
/** `row`: its JSON. */
export const fix = (id: string, row: string) =>
  ask<unknown>(path('quarantine', id, 'fix'), { method: 'POST', written: `{"row": ${row}}` })
export const drop = (id: string) => ask<unknown>(path('quarantine', id), { method: 'DELETE' })

export const pause = (sink: string) => ask<unknown>(path('sinks', sink, 'pause'), { method: 'POST' })
export const resume = (sink: string) => ask<unknown>(path('sinks', sink, 'resume'), { method: 'POST' })
