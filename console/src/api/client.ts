import { connection } from '../state/connection.svelte'

/** What the server refused, in its own words: code, what, where, why and the next thing to do. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly what: string,
    readonly where = '',
    readonly why = '',
    readonly next = '',
  ) {
    super(what)
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {}

export type Problem = Refused | Unreachable

interface Asked {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  body?: unknown
  /** The body as JSON already: what would lose digits as a value. */
  written?: string
  signal?: AbortSignal
}

/** One request below `/api`; gives the body's JSON. Raises `Refused`, or `Unreachable` and tells the connection. */
export async function ask<T>(path: string, asked: Asked = {}): Promise<T> {
  return (await answered<T>(path, asked)).value
}

/** The same of a list; `more`: whether there is more than was sent. */
export async function answered<T>(path: string, asked: Asked = {}): Promise<{ value: T; more: boolean }> {
  const response = await sent(path, asked)
  const text = await reached(response.text())
  const more = response.headers.get('X-Headrace-More') === 'true'
  return { value: (text === '' ? undefined : parsed(text)) as T, more }
}

/** The body as a file, of a route that has other formats than JSON. */
export async function file(path: string): Promise<Blob> {
  const response = await sent(path, {})
  return reached(response.blob())
}

async function sent(path: string, { method = 'GET', body, written, signal }: Asked): Promise<Response> {
  const content = written ?? (body === undefined ? undefined : JSON.stringify(body))
  const response = await reach(path, {
    method,
    signal,
    credentials: 'same-origin',
    // A page of another origin cannot set this header, so a cookie alone changes nothing. By its value the server answers a
    // refusal as asked, with the status beside it: the browser's console tells of no fault.
    headers: {
      Accept: 'application/json',
      'X-Headrace': 'page',
      ...(content === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    body: content,
  })
  if (statusOf(response) >= 400) throw refused(statusOf(response), await reached(response.text()))
  return response
}

async function reach(path: string, request: RequestInit): Promise<Response> {
  const response = await reached(fetch(`/api/${path}`, request))
  connection.answered()
  if (statusOf(response) === 401) connection.loggedOut()
  return response
}

/** What the server sends, which may go amid it. Raises `Unreachable` and tells the connection. */
async function reached<T>(coming: Promise<T>): Promise<T> {
  try {
    return await coming
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    connection.lost()
    throw new Unreachable('the server does not answer')
  }
}

const statusOf = (response: Response) => Number(response.headers.get('X-Headrace-Status') ?? response.status)

function refused(status: number, text: string): Refused {
  try {
    const told = JSON.parse(text)
    if (typeof told.code === 'string' && typeof told.what === 'string') {
      return new Refused(status, told.code, told.what, told.where ?? '', told.why ?? '', told.next ?? '')
    }
  } catch {
    // not JSON: below
  }
  return new Refused(status, `http.${status}`, `the server answered ${status}`, '', text.slice(0, 300))
}

/** JSON whose integers beyond 2^53 stay whole: they are kept as their text. */
export function parsed(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text)
  const exact = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '')
      ? context!.source
      : value
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown)
}

/** A path of names, each escaped. */
export function path(...names: string[]): string {
  return names.map(encodeURIComponent).join('/')
}

export function query(values: Record<string, string | number | undefined> | [string, string][]): string {
  const pairs = Array.isArray(values) ? values : Object.entries(values).filter(([, value]) => value !== undefined)
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? '' : `?${text}`
}
