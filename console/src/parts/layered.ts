// Where the nodes of a lineage stand: in layers from what comes in to what goes out, with few crossings.

export interface Edge {
  from: string
  to: string
}
export interface Place {
  layer: number
  /** The place within its layer, from the top. */
  rank: number
}

const SWEEPS = 8

/**
 * A layer for each node, one more than that of the last it reads, and ranks by the mean rank of the neighbours, swept
 * forth and back. Work: the edges times the sweeps. An edge that would close a circle is passed over.
 */
export function layered(nodes: string[], edges: Edge[]): Map<string, Place> {
  const known = new Set(nodes)
  const below = new Map<string, string[]>(nodes.map((node) => [node, []]))
  const above = new Map<string, string[]>(nodes.map((node) => [node, []]))
  for (const { from, to } of edges) {
    if (!known.has(from) || !known.has(to) || from === to) continue
    below.get(from)!.push(to)
    above.get(to)!.push(from)
  }
  const layers = inLayers(nodes, above)
  const rank = new Map<string, number>()
  for (const layer of layers) layer.forEach((node, at) => rank.set(node, at))
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forth = sweep % 2 === 0
    for (const layer of forth ? layers : layers.toReversed()) {
      const middle = new Map(
        layer.map((node) => [node, mean((forth ? above : below).get(node)!, rank, rank.get(node)!)]),
      )
      layer.sort((a, b) => middle.get(a)! - middle.get(b)!)
      layer.forEach((node, at) => rank.set(node, at))
    }
  }
  return new Map(
    layers.flatMap((layer, at) => layer.map((node) => [node, { layer: at, rank: rank.get(node)! }] as const)),
  )
}

function inLayers(nodes: string[], above: Map<string, string[]>): string[][] {
  const depth = new Map<string, number>()
  const under = new Set<string>()
  const find = (node: string): number => {
    const found = depth.get(node)
    if (found !== undefined) return found
    if (under.has(node)) return -1
    under.add(node)
    const deep = 1 + Math.max(-1, ...above.get(node)!.map(find))
    under.delete(node)
    depth.set(node, deep)
    return deep
  }
  const layers: string[][] = []
  for (const node of nodes) (layers[find(node)] ??= []).push(node)
  return Array.from(layers, (layer) => layer ?? [])
}

function mean(neighbours: string[], rank: Map<string, number>, otherwise: number): number {
  if (neighbours.length === 0) return otherwise
  return neighbours.reduce((sum, node) => sum + rank.get(node)!, 0) / neighbours.length
}

/** All that the node is made of, and all that is made of it, with itself. */
export function related(node: string, edges: Edge[]): Set<string> {
  const found = new Set([node])
  for (const [near, far] of [
    ['from', 'to'],
    ['to', 'from'],
  ] as const) {
    const waiting = [node]
    while (waiting.length > 0) {
      const at = waiting.pop()!
      for (const edge of edges) {
        if (edge[near] !== at || found.has(edge[far])) continue
        found.add(edge[far])
        waiting.push(edge[far])
      }
    }
  }
  return found
}
