/** Calls `act` when asked to: at once, or as soon as the last time is `everyMs` ago; asked often meanwhile, once. */
export class Spaced {
  #timer: ReturnType<typeof setTimeout> | undefined
  #last = -Infinity

  constructor(
    readonly everyMs: number,
    readonly act: () => void,
  ) {}

  again() {
    const since = performance.now() - this.#last
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined
        this.#last = performance.now()
        this.act()
      },
      Math.max(0, this.everyMs - since),
    )
  }

  stop() {
    clearTimeout(this.#timer)
  }
}
