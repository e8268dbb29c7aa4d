import type { Shown } from '../parts/charted'

export interface Tile {
  view: string
  shown: Shown
}

const KEY = 'headrace.dashboard'

/** The tiles of the dashboard; kept in this browser. */
class Board {
  tiles = $state<Tile[]>(stored())

  add(tile: Tile) {
    this.#set([...this.tiles, tile])
  }

  change(at: number, shown: Shown) {
    this.#set(this.tiles.map((tile, place) => (place === at ? { ...tile, shown } : tile)))
  }

  remove(at: number) {
    this.#set(this.tiles.filter((_, place) => place !== at))
  }

  /** Exchanges it with the one before (-1) or after (1). */
  move(at: number, by: -1 | 1) {
    const tiles = [...this.tiles]
    const other = at + by
    if (other < 0 || other >= tiles.length) return
    ;[tiles[at], tiles[other]] = [tiles[other], tiles[at]]
    this.#set(tiles)
  }

  #set(tiles: Tile[]) {
    this.tiles = tiles
    localStorage.setItem(KEY, JSON.stringify(tiles))
  }
}

function stored(): Tile[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]')
    return Array.isArray(found) ? found.filter((tile) => typeof tile?.view === 'string' && tile.shown?.y) : []
  } catch {
    return []
  }
}

export const board = new Board()
