import { Refused, Unreachable, type Problem } from '../api/client'

const PAGES = 4 // that are read by themselves of what came between two looks
const FURTHER = 1000 // that may come to what is kept, before the oldest of it go

/** Between these two others may lie that are not held. */
export interface Gap {
  above: number
  below: number
}

/** Some that follow each other, newest first; `ended`: nothing older is there. */
interface Run<T> {
  items: T[]
  ended: boolean
}

/**
 * A list that grows at its head, newest first, each known by a number that rises: its newest page, and after `keep` or
 * `below` all from there back to what was held. Where more has come than some pages have, it says where it may lie.
 */
export class Held<T> {
  items = $state.raw<T[]>([])
  gaps = $state.raw<Gap[]>([])
  /** Whether the server has answered. */
  told = $state(false)
  /** Whether the oldest that there is is held. */
  ended = $state(false)
  busy = $state(false)
  problem = $state.raw<Problem>()
  #most: number

  constructor(
    readonly page: number,
    readonly number: (item: T) => number,
    /** The newest page of those below a number, or of all. */
    readonly read: (before?: number, signal?: AbortSignal) => Promise<T[]>,
  ) {
    this.#most = page
  }

  /** Reads what has come. Raises as `read` does. */
  async look(signal: AbortSignal) {
    const run = await this.#before(undefined, signal)
    const top = this.items[0]
    const kept = top !== undefined && this.#most > this.page
    this.#join(kept ? await this.#further(run, this.number(top), PAGES, signal) : run)
    this.told = true
  }

  /** What has come since goes no more, but the oldest of very many. */
  keep() {
    this.#most = this.items.length + FURTHER
  }

  /** Reads what lies right below one that is held: a page of the oldest, or of a gap as much as some pages have. */
  async below(number: number) {
    const at = this.items.findIndex((item) => this.number(item) === number)
    const next = this.items[at + 1]
    this.keep()
    this.busy = true
    this.problem = undefined
    try {
      const begun = { items: [this.items[at]], ended: false }
      const run =
        next === undefined ? await this.#further(begun, -1, 1) : await this.#further(begun, this.number(next), PAGES)
      this.#most = this.items.length + run.items.length + FURTHER
      this.#join(
        run,
        this.items.filter((item) => this.number(item) > number),
      )
    } catch (error) {
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error
      this.problem = error
    } finally {
      this.busy = false
    }
  }

  async #before(before: number | undefined, signal?: AbortSignal): Promise<Run<T>> {
    const items = await this.read(before, signal)
    return { items, ended: items.length < this.page }
  }

  /** A run that goes on down to a number, or as far as some pages reach. */
  async #further(run: Run<T>, number: number, pages: number, signal?: AbortSignal): Promise<Run<T>> {
    for (let n = 0; n < pages && !run.ended && this.number(run.items.at(-1)!) > number; n++) {
      const next = await this.#before(this.number(run.items.at(-1)!), signal)
      run = { items: [...run.items, ...next.items], ended: next.ended }
    }
    return run
  }

  /** Puts a run in the place of what is held between its ends; `above` stays, and what is below one that is not ended. */
  #join({ items, ended }: Run<T>, above: T[] = []) {
    const last = items.length > 0 ? this.number(items.at(-1)!) : -1
    const known = this.items.some((item) => this.number(item) === last)
    const below = ended ? [] : this.items.filter((item) => this.number(item) < last)
    const outside = new Set([last, ...[...above, ...below].map(this.number)])
    const all = [...above, ...items, ...below]
    // Of all that lies between two neighbours only what is below a run's end that was not held is not known.
    const opened = this.gaps.map((gap) => gap.above).filter((number) => outside.has(number))
    this.items = all.slice(0, this.#most)
    this.gaps = (known ? opened : [...opened, last]).flatMap((number) => {
      const next = this.items.find((item) => this.number(item) < number)
      return next === undefined ? [] : [{ above: number, below: this.number(next) }]
    })
    this.ended = (ended || (this.ended && (known || below.length > 0))) && this.items.length === all.length
  }
}
