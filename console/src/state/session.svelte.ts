import { Refused } from '../api/client'
import * as api from '../api/routes'
import type { Me } from '../api/shapes'
import { connection } from './connection.svelte'

/** Who has logged in. The token goes to the server once and is kept nowhere; a cookie that no script reads stays. */
class Session {
  me = $state.raw<Me>()
  /** Whether it is known by now who that is: nothing is read before. */
  begun = $state(false)

  /** Takes a token from the address (`#token=...`, which no server sees), or looks who is logged in already. */
  async begin() {
    const token = /^#token=(.+)$/.exec(location.hash)?.[1]
    if (token !== undefined) {
      history.replaceState(null, '', location.pathname + location.search)
      await api.logIn(decodeURIComponent(token)).catch(() => undefined) // the look tells that it was wrong
    }
    await this.#look()
    this.begun = true
  }

  /** Raises `Refused` for a token that is not known. */
  async logIn(token: string) {
    await api.logIn(token)
    connection.loggedIn = true
    await this.#look()
  }

  async end() {
    await api.logOut().catch((error: unknown) => {
      if (!(error instanceof Refused)) throw error
    })
    this.me = undefined
    connection.loggedOut()
  }

  async #look() {
    this.me = await api.me().catch(() => undefined) // 401 shows the log-in, no answer the banner
  }
}

export const session = new Session()
