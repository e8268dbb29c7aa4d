import { Refused, Unreachable, type Problem } from '../api/client'
import { connection } from './connection.svelte'

const RETRY_MS = 1000
const PASSING = [503, 504] // busy, or not done in time: the same question may be answered next

/** What a page reads: its value, and the problem that it met last. What was read stays when it cannot be read again. */
export class Read<T> {
  value = $state.raw<T>()
  problem = $state.raw<Problem>()
  /** Whether a request is under way. */
  busy = $state(false)
  #load: (signal: AbortSignal) => Promise<T>
  #running: AbortController | undefined
  #retry: ReturnType<typeof setTimeout> | undefined

  constructor(load: (signal: AbortSignal) => Promise<T>) {
    this.#load = load
  }

  /** Reads it now; an earlier request that is still under way is given up. After a refusal that passes it reads again. */
  async again(): Promise<void> {
    this.stop()
    const running = (this.#running = new AbortController())
    this.busy = true
    try {
      const value = await this.#load(running.signal)
      if (running.signal.aborted) return
      this.value = value
      this.problem = undefined
    } catch (error) {
      if (running.signal.aborted) return
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error
      this.problem = error
      if (error instanceof Refused && PASSING.includes(error.status)) this.#later()
    } finally {
      if (this.#running === running) this.busy = false
    }
  }

  stop() {
    this.#running?.abort()
    clearTimeout(this.#retry)
  }

  #later() {
    this.#retry = setTimeout(() => (document.hidden ? this.#later() : void this.again()), RETRY_MS)
  }
}

/**
 * Reads when a component starts, whenever a state that `load` looks at changes, when the server is back, and, with
 * `everyMs`, that long after each answer while the page is seen. To be called where a component is set up.
 */
export function reading<T>(load: (signal: AbortSignal) => Promise<T>, everyMs = 0): Read<T> {
  const read = new Read(load)
  $effect(() => {
    void connection.returns
    let timer: ReturnType<typeof setTimeout> | undefined
    let stopped = false
    const turn = async () => {
      await read.again()
      if (everyMs > 0 && !stopped) timer = setTimeout(next, everyMs)
    }
    const next = () => {
      if (document.hidden || !connection.up) timer = setTimeout(next, everyMs)
      else void turn()
    }
    void turn()
    return () => {
      stopped = true
      clearTimeout(timer)
      read.stop()
    }
  })
  return read
}
