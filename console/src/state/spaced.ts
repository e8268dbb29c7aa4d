/**
 * Calls `act` when asked to: at once, or as soon as the last time is over and began `everyMs` ago; asked often meanwhile,
 * once. So what takes long is never begun anew before it was done.
 */
export class Spaced {
  #timer: ReturnType<typeof setTimeout> | undefined
  #last = -Infinity
  #acting = false
  #asked = false

  constructor(
    readonly everyMs: number,
    readonly act: () => Promise<void>,
  ) {}

  again() {
    this.#asked = true
    if (this.#acting) return
    const since = performance.now() - this.#last
    this.#timer ??= setTimeout(() => void this.#turn(), Math.max(0, this.everyMs - since))
  }

  stop() {
    clearTimeout(this.#timer)
    this.#asked = false
  }

  async #turn() {
    this.#timer = undefined
    this.#last = performance.now()
    this.#acting = true
    this.#asked = false
    try {
      await this.act()
    } finally {
      this.#acting = false
      if (this.#asked) this.again()
    }
  }
}
