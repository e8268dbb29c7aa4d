// A browser keeps six connections to a server, for all its tabs together. So a view is followed by one stream that all
// of them share, streams take half of the connections, and a view that finds none left is looked at every second.
import { connection } from '../state/connection.svelte'
import { session } from '../state/session.svelte'
import { parsed, path, query, Refused } from './client'
import * as api from './routes'
import type { Change } from './shapes'

const STREAMS = 3
const RETRY_MS = [500, 1000, 2000, 5000]
const LOOK_MS = 1000
const LOOKED = 100 // changes that a look takes; of more the contents are read anew

export type LiveState = 'connecting' | 'live' | 'reconnecting'

interface Listener {
  /** A whole step or transaction of the view. */
  onchange?: (change: Change) => void
  /** What was missed is not known: the contents are to be read anew. */
  onanew?: () => void
}

/** After `from` there were these changes alone, up to `commit`. */
interface Told {
  from: number
  commit: number
  changes: Change[]
}

/** A question of who has just come: how far is it? */
const WHO = 'who'

/**
 * Follows a view's changes from a commit on, as long as the tab is seen. It begins again by itself, from the last commit
 * it has seen. Of all in this browser that follow a view one asks the server and tells the others: who holds the lock of
 * the view's name. When its tab is hidden or gone the next one has it, and asks from its own commit on.
 */
export class Live {
  state = $state<LiveState>('connecting')
  commit = $state(0)
  #view: string
  #listener: Listener
  #others: BroadcastChannel | undefined
  #running: AbortController | undefined
  #asking = false
  /** Of the contents that are there, once a look has asked for it. */
  #version: number | undefined

  constructor(view: string, after: number, listener: Listener) {
    this.#view = view
    this.#listener = listener
    this.commit = after
    document.addEventListener('visibilitychange', this.#turn)
    this.#turn()
  }

  close() {
    document.removeEventListener('visibilitychange', this.#turn)
    this.#stop()
  }

  #turn = () => {
    if (document.hidden) this.#stop()
    else if (this.#running === undefined) this.#begin()
  }

  #stop() {
    this.#running?.abort()
    this.#running = undefined
    this.#asking = false
    this.#others?.close()
  }

  #begin() {
    const name = `headrace ${this.#view}`
    const running = (this.#running = new AbortController())
    this.#others = new BroadcastChannel(name)
    this.#others.onmessage = ({ data }: MessageEvent<typeof WHO | (Told & { state: LiveState })>) => {
      if (data === WHO) {
        if (this.#asking) this.#tell({ from: this.commit, commit: this.commit, changes: [] })
      } else if (!this.#asking) {
        this.state = data.state
        this.#take(data)
      }
    }
    this.#others.postMessage(WHO)
    const over = running.signal
    if (navigator.locks === undefined)
      void this.#ask(over) // not on https, and not of this machine
    else void navigator.locks.request(name, { signal: over }, () => this.#ask(over)).catch(() => undefined) // given up
  }

  /** Until it is over: by a stream if there is one to be had, else by looking. */
  async #ask(over: AbortSignal): Promise<void> {
    this.#asking = !over.aborted
    for (let place = 0; place < STREAMS && !over.aborted; place++) {
      await navigator.locks?.request(`headrace, stream ${place}`, { ifAvailable: true }, async (free) => {
        if (free !== null) await this.#stream(over)
      })
    }
    while (!over.aborted) {
      await this.#look(over)
      await new Promise((next) => setTimeout(next, LOOK_MS))
    }
  }

  #stream(over: AbortSignal): Promise<void> {
    return new Promise((ended) => {
      let events: EventSource
      let retry: ReturnType<typeof setTimeout> | undefined
      let failures = 0
      const open = () => {
        let lost = false // what was missed is not known; where the changes go on is told next
        const from = query({ after: this.commit, snapshot: 'false' }) // the listeners read the contents, and only what they show
        events = new EventSource(`/api/${path('views', this.#view, 'changes')}${from}`)
        events.onopen = () => {
          failures = 0
          connection.answered()
          this.#is('live')
        }
        events.onerror = () => {
          // The browser's own retry ends at the first answer that is no stream; ours does not.
          events.close()
          void session.look() // whether the server is gone, or the session over
          this.#is('reconnecting')
          retry = setTimeout(open, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)])
        }
        events.addEventListener('change', ({ data }) => {
          const change = parsed(data) as Change
          this.#told({ from: this.commit, commit: change.commit, changes: [change] })
        })
        events.addEventListener('progress', ({ data }) => {
          const { commit } = parsed(data) as { commit: number }
          this.#told({ from: lost ? Infinity : this.commit, commit, changes: [] })
          lost = false
        })
        events.addEventListener('behind', () => (lost = true))
      }
      over.addEventListener('abort', () => {
        clearTimeout(retry)
        events.close()
        ended()
      })
      open()
    })
  }

  async #look(over: AbortSignal): Promise<void> {
    try {
      const found = await api.transactions(
        this.#view,
        { after: this.commit, version: this.#version, limit: LOOKED },
        over,
      )
      if (over.aborted) return
      this.#is('live')
      if (found.length === 0) return
      const whole = found.length < LOOKED && !found.some((each) => each.more)
      const changes = found.reverse().map(({ commit, changes }) => ({ commit, rows: changes as Change['rows'] }))
      const told = { commit: found.at(-1)!.commit, changes: whole ? changes : [] }
      this.#told({ from: whole ? this.commit : Infinity, ...told })
    } catch (error) {
      if (over.aborted) return
      if (error instanceof Refused && error.code === 'view.not_at') await this.#lost(over)
      else this.#is('reconnecting') // what was refused is refused to the page's own questions too
    }
  }

  /** What has changed since is not kept any more, or another version came: the contents are read anew. */
  async #lost(over: AbortSignal): Promise<void> {
    try {
      const { commit, version } = await api.view(this.#view, over)
      if (over.aborted) return
      this.#version = version
      this.#told({ from: Infinity, commit, changes: [] })
    } catch {
      if (!over.aborted) this.#is('reconnecting')
    }
  }

  #is(state: LiveState) {
    if (this.state === state) return
    this.state = state
    this.#tell({ from: this.commit, commit: this.commit, changes: [] })
  }

  /** What the server told, to all. */
  #told(told: Told) {
    this.#tell(told)
    this.#take(told)
  }

  #tell(told: Told) {
    this.#others?.postMessage({ ...told, state: $state.snapshot(this.state) })
  }

  #take({ from, commit, changes }: Told) {
    if (this.commit < from) {
      this.commit = Math.max(this.commit, commit)
      this.#listener.onanew?.()
      return
    }
    for (const change of changes) if (change.commit > this.commit) this.#listener.onchange?.(change)
    this.commit = Math.max(this.commit, commit)
  }
}
