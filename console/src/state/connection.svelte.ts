const RETRY_MS = 1000

/** Whether the server answers and knows who asks; every request tells it, the page shows it. */
class Connection {
  /** Whether the server answered last time. */
  up = $state(true)
  /** Grows each time the server is back: what was read before is read again. */
  returns = $state(0)
  /** False: the server wants a token first. */
  loggedIn = $state(true)
  #retry: ReturnType<typeof setTimeout> | undefined

  answered() {
    if (this.up) return
    clearTimeout(this.#retry)
    this.up = true
    this.returns += 1
  }

  lost() {
    this.up = false
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.#look(), RETRY_MS)
  }

  loggedOut() {
    this.loggedIn = false
  }

  async #look() {
    try {
      const response = await fetch('/api/health')
      if (response.ok) this.answered()
      else this.lost()
    } catch {
      this.lost()
    }
  }
}

export const connection = new Connection()
