import type { Status } from '../api/shapes'

const KEPT = 120

/** Rates out of the counters of one status after the other. */
export class Rates {
  rows = $state.raw<number[]>([])
  commits = $state.raw<number[]>([])
  steps = $state.raw<number[]>([])
  #before: { status: Status; atMs: number } | undefined

  add(status: Status, atMs = performance.now()) {
    const before = this.#before
    this.#before = { status, atMs }
    if (before === undefined || atMs <= before.atMs || (status.steps ?? 0) < (before.status.steps ?? 0)) return
    const passed = (atMs - before.atMs) / 1000
    const brought = (of: Status) => of.sources.reduce((sum, source) => sum + source.rows, 0)
    const kept = (values: number[], more: number) => [...values, Math.max(0, more / passed)].slice(-KEPT)
    this.rows = kept(this.rows, brought(status) - brought(before.status))
    this.commits = kept(this.commits, status.commit - before.status.commit)
    this.steps = kept(this.steps, (status.steps ?? 0) - (before.status.steps ?? 0))
  }
}
