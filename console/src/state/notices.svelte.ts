import type { Notice, Notices as Told } from '../api/shapes'

const KEY = 'headrace.notices'
const MOST = 100

/** The newest notices, and up to where they were seen; that is kept in the browser, for all its tabs. */
class Notices {
  /** Newest first. */
  list = $state.raw<Notice[]>([])
  /** Those that came last while the page was open, newest first. */
  come = $state.raw<Notice[]>([])
  unread = $derived.by(() => this.list.filter((notice) => notice.number > this.seen).length)
  seen = $state(0)
  #made: string | undefined

  constructor() {
    addEventListener('storage', (event) => event.key === KEY && this.#look())
  }

  /** The number of the newest that is here: what is later is asked for. */
  get after(): number {
    return this.list[0]?.number ?? 0
  }

  /** What was told later than `after`. */
  take(told: Told) {
    if (told.made !== this.#made) {
      // The numbers begin anew: nothing of those before says what was seen.
      const first = this.#made === undefined
      this.#made = told.made
      this.#look()
      if (!first && this.list.length > 0) {
        this.list = []
        return
      }
      this.list = told.notices
      if (!first) this.come = told.notices
      return
    }
    const later = told.notices.filter((notice) => notice.number > this.after)
    if (later.length === 0) return
    this.list = [...later, ...this.list].slice(0, MOST)
    this.come = later
  }

  /** All that are here were seen. */
  read() {
    if (this.after <= this.seen) return
    this.seen = this.after
    localStorage.setItem(KEY, JSON.stringify({ made: this.#made, seen: this.seen }))
  }

  /** Who asked is gone. */
  clear() {
    this.list = this.come = []
    this.#made = undefined
  }

  #look() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) ?? '{}') as { made?: string; seen?: number }
      this.seen = kept.made === this.#made ? (kept.seen ?? 0) : 0
    } catch {
      this.seen = 0
    }
  }
}

export const notices = new Notices()

/** What a notice says, in words. */
export function said(notice: Notice): string {
  const counts = { entered: notice.entered, left: notice.left, changed: notice.changed }
  const happened = Object.entries(counts).filter(([, rows]) => rows > 0)
  return happened
    .map(([what, rows], at) => `${rows}${at === 0 ? (rows === 1 ? ' row' : ' rows') : ''} ${what}`)
    .join(', ')
}
