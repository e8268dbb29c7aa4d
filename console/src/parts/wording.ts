// How values are written.
import type { Cell, Column } from '../api/shapes'

const whole = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })

export const count = (value: number) => whole.format(value)

/** "1 row", "2 rows". */
export const counted = (value: number, noun: string, several = `${noun}s`) =>
  `${whole.format(value)} ${value === 1 ? noun : several}`

export function rate(value: number): string {
  return value >= 100 ? whole.format(Math.round(value)) : short.format(value)
}

export function bytes(value: number): string {
  let size = value
  for (const unit of ['bytes', 'KiB', 'MiB', 'GiB']) {
    if (size < 1024) return `${short.format(size)} ${unit}`
    size /= 1024
  }
  return `${short.format(size)} TiB`
}

/** A length of time: "0 s", "35 ms", "1.2 s", "4 min", "3 h". */
export function seconds(value: number): string {
  if (value === 0) return '0 s'
  if (value < 1) return `${Math.max(1, Math.round(value * 1000))} ms`
  if (value < 120) return `${short.format(value)} s`
  if (value < 7200) return `${Math.round(value / 60)} min`
  return value < 172800 ? `${Math.round(value / 3600)} h` : `${Math.round(value / 86400)} days`
}

/** A time of the API, "2026-03-01 08:00:00" in UTC; the whole of it is for a title. */
export const at = (time: string) => time.slice(0, 19).replace('T', ' ')

const NUMERIC = /^(tinyint|smallint|int|integer|bigint|hugeint|float|real|double|decimal|numeric|u\w*int|\w*int\d*)\b/i
const TIMED = /^(date|timestamp)/i

export const numeric = (column: Column) => NUMERIC.test(column.type)
export const timed = (column: Column) => TIMED.test(column.type)

/** A cell as one text: what is no text of its own is its JSON. */
export function text(cell: Cell): string {
  if (cell === null || cell === undefined) return ''
  if (typeof cell === 'string') return cell
  return typeof cell === 'object' ? JSON.stringify(cell) : String(cell)
}

const CONTROL = /[\x00-\x1f\x7f]/g
const PICTURES = 0x2400

/** Control characters as their pictures: nothing stands in a text unseen. `lines`: tabs and ends of lines stay. */
export const visible = (written: string, lines = false) =>
  written.replace(CONTROL, (mark) =>
    lines && (mark === '\n' || mark === '\t')
      ? mark
      : String.fromCharCode(PICTURES + (mark === '\x7f' ? 0x21 : mark.charCodeAt(0))),
  )

/** The beginning of a text that is longer, with a sign that it is cut. */
export const cut = (written: string, most: number) =>
  written.length > most ? written.slice(0, Math.max(1, most - 1)) + '…' : written

/** A part of a list of the API, between commas: one that has a comma in it stands in double quotes. */
export const listed = (part: string) => (/[",]/.test(part) ? `"${part.replaceAll('"', '""')}"` : part)

/** Rows as RFC 4180 has them; NULL is nothing between the commas, empty text is "". */
export function csv(columns: Column[], rows: Record<string, Cell>[]): string {
  const field = (cell: Cell) => {
    if (cell === null || cell === undefined) return ''
    const written = text(cell)
    return written === '' || /[",\r\n]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written
  }
  const lines = rows.map((row) => columns.map((column) => field(row[column.name])).join(','))
  return [columns.map((column) => field(column.name)).join(','), ...lines, ''].join('\r\n')
}
