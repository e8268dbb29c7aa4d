// One function a route; the names are those of the routes.
import { answered, ask, file, path, query } from './client'
import type {
  Alerts,
  Answer,
  AuditEntry,
  ErrorCode,
  Explained,
  Feed,
  Found,
  Kept,
  Letter,
  Lineage,
  LookedThrough,
  Matches,
  Me,
  NewToken,
  Notices,
  Status,
  StoredQuery,
  Token,
  Top,
  Transaction,
  Verdict,
  Version,
  View,
} from './shapes'

export const logIn = (token: string) => ask('session', { method: 'POST', body: { token } })
export const logOut = () => ask('session', { method: 'DELETE' })
/** Who has logged in; null: nobody. */
export const session = () => ask<{ me: Me | null }>('session')

export const errorCode = (code: string, signal?: AbortSignal) => ask<ErrorCode>(path('errors', code), { signal })

export const status = (signal?: AbortSignal) => ask<Status>('status', { signal })
export const top = (signal?: AbortSignal) => ask<Top>('top', { signal })
export const lineage = (signal?: AbortSignal) => ask<Lineage>('lineage', { signal })
export const columns = (signal?: AbortSignal) => ask<Lineage>('lineage?columns=true', { signal })

export const view = (name: string, signal?: AbortSignal) => ask<View>(path('views', name), { signal })
export const explain = (name: string, signal?: AbortSignal) =>
  ask<Explained>(path('views', name, 'explain'), { signal })
export const versions = (name: string, signal?: AbortSignal) =>
  ask<{ versions: Version[] }>(path('views', name, 'versions'), { signal })
export const rows = (name: string, asked: [string, string][], signal?: AbortSignal) =>
  ask<Answer>(path('views', name, 'rows') + query(asked), { signal })
export const rowsAsCsv = (name: string, asked: [string, string][]) =>
  file(path('views', name, 'rows') + query([...asked, ['format', 'csv']]))
export const search = (name: string, q: string, signal?: AbortSignal) =>
  ask<Found>(path('views', name, 'search') + query({ q }), { signal })

export const feeds = (signal?: AbortSignal) => ask<Feed[]>('feeds', { signal })
export const transactions = (
  name: string,
  asked: { before?: number; after?: number; at?: string; version?: number; limit: number },
  signal?: AbortSignal,
) => ask<Transaction[]>(path('feeds', name, 'transactions') + query(asked), { signal })
export const lookedThrough = (
  name: string,
  asked: { q: string; before?: number; at?: string; limit: number },
  signal?: AbortSignal,
) => ask<LookedThrough>(path('feeds', name, 'search') + query(asked), { signal })

export interface Question {
  sql: string
  limit: number
  /** A commit or a time. */
  at?: string
  engine: 'duckdb' | 'spark'
}
export const sql = (question: Question, signal?: AbortSignal) =>
  ask<Answer>('sql', { method: 'POST', body: question, signal })

export const quarantine = (signal?: AbortSignal) => answered<Kept[]>('quarantine', { signal })
export const replay = (id: string) => ask<unknown>(path('quarantine', id, 'replay'), { method: 'POST', body: {} })
/** `row`: its JSON. */
export const fix = (id: string, row: string) =>
  ask<unknown>(path('quarantine', id, 'fix'), { method: 'POST', written: `{"row": ${row}}` })
export const drop = (id: string) => ask<unknown>(path('quarantine', id), { method: 'DELETE' })

export const pause = (sink: string) => ask<unknown>(path('sinks', sink, 'pause'), { method: 'POST' })
export const resume = (sink: string) => ask<unknown>(path('sinks', sink, 'resume'), { method: 'POST' })

export const queries = (signal?: AbortSignal) => ask<StoredQuery[]>('queries', { signal })
export const addQuery = (name: string, view: string, words: string) =>
  ask<StoredQuery>('queries', { method: 'POST', body: { name, view, query: words } })
export const changeQuery = (name: string, view: string, words: string) =>
  ask<StoredQuery>(path('queries', name), { method: 'PUT', body: { view, query: words } })
export const removeQuery = (name: string) => ask<unknown>(path('queries', name), { method: 'DELETE' })
export const matches = (name: string, limit: number, signal?: AbortSignal) =>
  ask<Matches>(path('queries', name, 'matches') + query({ limit }), { signal })

export const notices = (after: number, signal?: AbortSignal) => ask<Notices>('notices' + query({ after }), { signal })

/** `sink`: the dead letters of that one alone. */
export const alerts = (sink?: string, signal?: AbortSignal) => answered<Alerts>('alerts' + query({ sink }), { signal })
export const letter = (sink: string, number: number, signal?: AbortSignal) =>
  ask<Letter>(path('alerts', sink, String(number)), { signal })
export const sendAgain = (sink: string, number: number) =>
  ask<unknown>(path('alerts', sink, String(number), 'replay'), { method: 'POST' })
export const dropLetter = (sink: string, number: number) =>
  ask<unknown>(path('alerts', sink, String(number)), { method: 'DELETE' })

export const tokens = (signal?: AbortSignal) => ask<Token[]>('tokens', { signal })
export const createToken = (wanted: {
  name: string
  role: string
  only: string[]
  grants: string[]
  seconds?: number
}) => ask<NewToken>('tokens', { method: 'POST', body: wanted })
export const revokeToken = (id: string) => ask<Token>(path('tokens', id), { method: 'DELETE' })

/** The last entries, oldest first. */
export const audit = (asked: Record<string, string | number | undefined>, signal?: AbortSignal) =>
  ask<AuditEntry[]>('audit' + query(asked), { signal })
export const verdict = (signal?: AbortSignal) => ask<Verdict>('audit/verdict', { signal })
