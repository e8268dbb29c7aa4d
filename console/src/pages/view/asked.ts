// What is asked of a view's rows, as the address bar and the server both have it.
import type { Column } from '../../api/shapes'
import { listed } from '../../parts/wording'

export const OPERATORS = {
  eq: '=',
  neq: '≠',
  gt: '>',
  gte: '≥',
  lt: '<',
  lte: '≤',
  like: 'like',
  ilike: 'like, any case',
  in: 'in',
  is: 'is',
} as const
export type Operator = keyof typeof OPERATORS

export interface Filter {
  column: string
  operator: Operator
  value: string
}
export interface Order {
  column: string
  descending: boolean
}
export interface Asked {
  filters: Filter[]
  order: Order[]
  /** A commit, or a time as it was written. */
  at?: number | string
}

export function read(query: URLSearchParams, columns: Column[]): Asked {
  const names = new Set(columns.map((column) => column.name))
  const filters = [...query].flatMap(([column, text]) => {
    const [, operator, value] = /^([a-z]+)\.([^]*)$/.exec(text) ?? []
    return names.has(column) && operator in OPERATORS ? [{ column, operator: operator as Operator, value }] : []
  })
  const order = parts(query.get('order') ?? '').flatMap((by) => {
    const [, column, direction] = /^([^]*?)(?:\.(asc|desc))?$/.exec(by)!
    return names.has(column) ? [{ column, descending: direction === 'desc' }] : []
  })
  const at = query.get('at') || undefined
  return { filters, order, at: /^\d+$/.test(at ?? '') ? Number(at) : at }
}

export function pairs({ filters, order, at }: Asked): [string, string][] {
  return [
    ...filters.map(({ column, operator, value }): [string, string] => [column, `${operator}.${value}`]),
    ...(order.length > 0
      ? [
          ['order', order.map((by) => listed(by.column + (by.descending ? '.desc' : '.asc'))).join(',')] as [
            string,
            string,
          ],
        ]
      : []),
    ...(at === undefined ? [] : [['at', String(at)] as [string, string]]),
  ]
}

/** The parts of a list, as `listed` writes each. */
const parts = (text: string) =>
  Array.from(text.matchAll(/"((?:[^"]|"")*)"|[^,]+/g), ([whole, quoted]) => quoted?.replaceAll('""', '"') ?? whole)

/** The order after a click on a column: up, down, none. */
export function turned(order: Order[], column: string): Order[] {
  const now = order.find((by) => by.column === column)
  if (now === undefined) return [{ column, descending: false }]
  return now.descending ? [] : [{ column, descending: true }]
}
