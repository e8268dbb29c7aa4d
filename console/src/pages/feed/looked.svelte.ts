import { Refused, Unreachable, type Problem } from '../../api/client'
import * as api from '../../api/routes'
import type { Transaction } from '../../api/shapes'

const PAGE = 50
const ANSWERS = 10 // each of a second or so, until somebody asks to go on

/** The transactions of a feed that have a text in a value, as the server finds them from the end back. */
export class Looked {
  transactions = $state.raw<Transaction[]>([])
  /** Commits from this one on were looked through; null: all that are kept. */
  before = $state.raw<number | null>()
  busy = $state(false)
  problem = $state.raw<Problem>()
  #over = new AbortController()

  constructor(
    readonly name: string,
    readonly text: string,
    /** A commit or a time, after which nothing is looked through. */
    readonly at: string | undefined,
    /** What has come after this commit it does not look through. */
    readonly since: number,
  ) {}

  /** Goes on until there are so many more, or nothing is left, or it has taken long. */
  async further() {
    const enough = this.transactions.length + PAGE
    const signal = this.#over.signal
    this.busy = true
    this.problem = undefined
    try {
      for (let n = 0; n < ANSWERS && this.before !== null && this.transactions.length < enough; n++) {
        const found = await api.lookedThrough(
          this.name,
          { q: this.text, before: this.before, at: this.at, limit: enough - this.transactions.length },
          signal,
        )
        if (signal.aborted) return
        this.transactions = [...this.transactions, ...found.transactions]
        this.before = found.before
      }
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error
      this.problem = error
    } finally {
      this.busy = false
    }
  }

  stop() {
    this.#over.abort()
  }
}

/** Whether a text stands in a value of it. */
export function holds(transaction: Transaction, text: string): boolean {
  const wanted = text.toLowerCase()
  return transaction.changes.some(({ row }) =>
    Object.values(row).some(
      (value) =>
        value !== null && (typeof value === 'string' ? value : JSON.stringify(value)).toLowerCase().includes(wanted),
    ),
  )
}
