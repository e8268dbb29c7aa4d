import { connection } from '../state/connection.svelte'
import { ask, parsed, path, query } from './client'
import type { Change } from './shapes'

const RETRY_MS = [500, 1000, 2000, 5000]

export type LiveState = 'connecting' | 'live' | 'reconnecting'

interface Listener {
  /** A whole step or transaction of the view. */
  onchange?: (change: Change) => void
  /** The views have reached this commit; the contents may or may not have changed. */
  oncommit?: (commit: number) => void
  /** What was missed is not known: the contents are to be read anew. */
  onanew?: () => void
}

/** Follows a view's changes from a commit on. It begins again by itself, from the last commit it has seen. */
export class Live {
  state = $state<LiveState>('connecting')
  commit = $state(0)
  #name: string
  #listener: Listener
  #events: EventSource | undefined
  #retry: ReturnType<typeof setTimeout> | undefined
  #failures = 0

  constructor(name: string, after: number, listener: Listener) {
    this.#name = name
    this.#listener = listener
    this.commit = after
    this.#open()
  }

  close() {
    clearTimeout(this.#retry)
    this.#events?.close()
  }

  #open() {
    const events = new EventSource(`/api/${path('views', this.#name, 'changes')}${query({ after: this.commit })}`)
    this.#events = events
    events.onopen = () => {
      this.#failures = 0
      this.state = 'live'
      connection.answered()
    }
    events.onerror = () => {
      // The browser's own retry ends at the first answer that is no stream; ours does not.
      events.close()
      void ask('me').catch(() => undefined) // tells whether the server is gone, or the session over
      this.state = 'reconnecting'
      const wait = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)]
      this.#retry = setTimeout(() => this.#open(), wait)
    }
    events.addEventListener('change', (event) => {
      const change = parsed(event.data) as Change
      this.#listener.onchange?.(change)
      this.#reached(change.commit)
    })
    events.addEventListener('progress', (event) => this.#reached((parsed(event.data) as { commit: number }).commit))
    events.addEventListener('snapshot', (event) => {
      const commit = Number(event.lastEventId)
      if (commit > this.commit) this.#reached(commit)
      this.#listener.onanew?.()
    })
    events.addEventListener('behind', () => this.#listener.onanew?.())
  }

  #reached(commit: number) {
    if (commit <= this.commit) return
    this.commit = commit
    this.#listener.oncommit?.(commit)
  }
}
