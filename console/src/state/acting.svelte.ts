import { Refused, Unreachable, type Problem } from '../api/client'

/** What a page does: which of its things is being changed, what was done last, or the problem in its place. */
export class Acting {
  busy = $state<string | number>()
  done = $state('')
  problem = $state.raw<Problem>()

  /** `of`: what is changed; `said`: what is told once it is. Whether it was done. */
  async do(of: string | number, said: string, call: () => Promise<unknown>): Promise<boolean> {
    this.busy = of
    this.done = ''
    this.problem = undefined
    try {
      await call()
      this.done = said
      return true
    } catch (error) {
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error
      this.problem = error
      return false
    } finally {
      this.busy = undefined
    }
  }
}
