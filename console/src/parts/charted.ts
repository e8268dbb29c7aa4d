// What a chart needs to know of rows, without drawing anything.
import type { Question } from '../api/routes'
import type { Cell, Column, Row } from '../api/shapes'
import { listed, numeric, text, timed } from './wording'

export type Kind = 'bar' | 'line' | 'number'
export interface Shown {
  kind: Kind
  /** The column along the horizontal axis; none for a number. */
  x: string
  y: string
}

/** In the place of a value's column: how many rows there are. */
export const ROWS = 'number of rows'
export const BARS_MOST = 40
export const POINTS_MOST = 1000 // as wide as a window; a larger page of rows is answered to few at once

/** The chart that most often fits: bars by the first text, a line along time or a number, one number for one row. */
export function guessed(columns: Column[], key: string[], rows: number): Shown | undefined {
  const measures = columns.filter((column) => numeric(column) && !key.includes(column.name))
  const y = (measures.at(-1) ?? columns.findLast(numeric))?.name
  if (y === undefined) return undefined
  const labels = columns.filter((column) => column.name !== y)
  const time = labels.find(timed)
  const x = time ?? labels.find((column) => key.includes(column.name)) ?? labels.find((c) => !numeric(c)) ?? labels[0]
  if (x === undefined || (rows <= 1 && time === undefined)) return { kind: 'number', x: x?.name ?? y, y }
  return { kind: time !== undefined || (numeric(x) && rows > BARS_MOST) ? 'line' : 'bar', x: x.name, y }
}

/** The chart of a view that has no number: how many rows there are of each, by the first column that is no key. */
export function counted(columns: Column[], key: string[]): Shown {
  const x = columns.find((column) => !key.includes(column.name))?.name
  return x === undefined ? { kind: 'number', x: ROWS, y: ROWS } : { kind: 'bar', x, y: ROWS }
}

const MOST = { bar: BARS_MOST, line: POINTS_MOST, number: 1 }

/** Whether the axis has an order of its own, so that the last along it are drawn; else they are the first rows. */
export const ordered = ({ x }: Shown, columns: Column[]) =>
  columns.some((column) => column.name === x && (timed(column) || numeric(column)))

/** What is asked of the view's rows for a chart; `turned` has what comes in the order to draw. */
export function asked(shown: Shown, columns: Column[]): [string, string][] {
  const last: [string, string][] = ordered(shown, columns)
    ? [
        [shown.x, 'is.not_null'],
        ['order', listed(`${shown.x}.desc`)],
      ]
    : []
  return [...last, ['limit', String(MOST[shown.kind])]]
}

/** What is asked where rows are counted: the largest numbers first, or along the axis the last. */
export function counting(view: string, shown: Shown, columns: Column[]): Question {
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
  const from = `count(*) AS ${quoted(ROWS)} FROM ${quoted(view)}`
  const along = ordered(shown, columns)
  const sql =
    shown.kind === 'number'
      ? `SELECT ${from}`
      : `SELECT ${quoted(shown.x)}, ${from}${along ? ` WHERE ${quoted(shown.x)} IS NOT NULL` : ''} GROUP BY 1 ORDER BY ${along ? '1 DESC' : '2 DESC, 1'}`
  return { sql, limit: MOST[shown.kind], engine: 'duckdb' }
}

export const turned = (shown: Shown, columns: Column[], rows: Row[]) =>
  ordered(shown, columns) ? rows.toReversed() : rows

export interface Point {
  label: string
  /** Where along a line: of time milliseconds, else the number, else the place in the order. */
  at: number
  value: number
}

/** The rows that have both values, for a line in the order of its axis. */
export function points(shown: Shown, columns: Column[], rows: Row[]): Point[] {
  const along = columns.find((column) => column.name === shown.x)
  const found = rows.flatMap((row, place) => {
    const value = amount(row[shown.y])
    if (value === undefined) return []
    const written = row[shown.x] === null ? 'null' : text(row[shown.x])
    const at = shown.kind === 'line' ? alongside(along, written, place) : place
    const label = along && timed(along) ? written.replace(/T00:00:00(\.0+)?Z?$/, '').replace('T', ' ') : written
    return Number.isFinite(at) ? [{ label, at, value }] : []
  })
  return shown.kind === 'line' ? found.sort((a, b) => a.at - b.at).slice(-POINTS_MOST) : found.slice(0, BARS_MOST)
}

/** Whether several of a line's points stand at one place: what joins them would be no course of anything. */
export const crowded = (found: Point[]) => found.some((point, place) => found[place + 1]?.at === point.at)

function alongside(along: Column | undefined, written: string, place: number): number {
  if (along && timed(along)) return Date.parse(written)
  return along && numeric(along) ? Number(written) : place
}

/** A cell as a number: decimals and large integers come as text. */
export function amount(cell: Cell): number | undefined {
  if (cell === null || cell === undefined || cell === '' || typeof cell === 'boolean') return undefined
  const value = Number(cell)
  return Number.isFinite(value) ? value : undefined
}

/** Round values from below the least to above the most, about `wanted` of them; zero is one where it is near. */
export function ticks(least: number, most: number, wanted = 4): number[] {
  const span = most - least || Math.abs(most) || 1
  const power = 10 ** Math.floor(Math.log10(span / wanted))
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => span / size <= wanted)!
  const first = Math.floor(least / step)
  const end = Math.ceil(most / step)
  return Array.from({ length: end - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)))
}
