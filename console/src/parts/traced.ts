// What a column is made of and what is made of it, column by column, through all views.
import type { ColumnOf, Lineage, Traced } from '../api/shapes'
import type { Edge } from './layered'

/** How one column reaches another: its values are in it, or it only decides which rows are. */
export type By = 'value' | 'rows'
/** Column, as `key` names it, and how it is reached. */
export type Reached = Map<string, By>

export const key = ({ relation, column }: ColumnOf) => JSON.stringify([relation, column])

export function named(key: string): ColumnOf {
  const [relation, column] = JSON.parse(key) as [string, string]
  return { relation, column }
}

/** `from`: up to tables; `into`: down to the last views. Neither has the column itself. Work: the columns' own edges. */
export function traced(of: ColumnOf, columns: Traced[]): { from: Reached; into: Reached } {
  const above = new Map<string, [string, By][]>()
  const below = new Map<string, [string, By][]>()
  for (const column of columns) {
    const to = key(column)
    for (const by of ['value', 'rows'] as const) {
      for (const one of column[by]) {
        const from = key(one)
        above.set(to, [...(above.get(to) ?? []), [from, by]])
        below.set(from, [...(below.get(from) ?? []), [to, by]])
      }
    }
  }
  return { from: walked(key(of), above), into: walked(key(of), below) }
}

/** Once a column only decides about rows, so does all further along; a way that carries the value is the stronger. */
function walked(start: string, next: Map<string, [string, By][]>): Reached {
  const found: Reached = new Map([[start, 'value']])
  const waiting = [start]
  while (waiting.length > 0) {
    const at = waiting.shift()!
    for (const [near, by] of next.get(at) ?? []) {
      const now = found.get(at) === 'rows' ? 'rows' : by
      if (found.has(near) && (found.get(near) === now || now === 'rows')) continue
      found.set(near, now)
      waiting.push(near)
    }
  }
  found.delete(start)
  return found
}

/** The node of a table or view. */
export const idOf = (relation: string, nodes: Lineage['nodes']) =>
  nodes.find((node) => node.name === relation && (node.kind === 'view' || node.kind === 'table'))?.id

/** Node -> those of its columns that are reached, with the chosen one; sources and sinks at the ends have none. */
export function nodesOf(
  chosen: { id: string; column: string },
  reached: { from: Reached; into: Reached },
  nodes: Lineage['nodes'],
  edges: Edge[],
): Map<string, string[]> {
  const found = new Map([[chosen.id, [chosen.column]]])
  for (const [way, near, far, end] of [
    ['from', 'to', 'from', 'source:'],
    ['into', 'from', 'to', 'sink:'],
  ] as const) {
    const passed = new Set([chosen.id])
    for (const { relation, column } of [...reached[way].keys()].map(named)) {
      const id = idOf(relation, nodes)
      if (id === undefined) continue
      passed.add(id)
      found.set(id, [...(found.get(id) ?? []), column])
    }
    for (const edge of edges) if (passed.has(edge[near]) && edge[far].startsWith(end)) found.set(edge[far], [])
  }
  return found
}
