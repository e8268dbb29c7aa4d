import { Refused } from '../api/client'
import * as api from '../api/routes'
import type { Me, Role } from '../api/shapes'
import { connection } from './connection.svelte'

const ROLES: Role[] = ['viewer', 'editor', 'operator', 'admin'] // each may do what those before it may
const TOKEN = /^#token=(.+)$/

/** Who has logged in. The token goes to the server once and is kept nowhere; a cookie that no script reads stays. */
class Session {
  me = $state.raw<Me>()
  /** Whether it is known by now who that is: nothing is read before. */
  begun = $state(false)
  /** Whether all views are reached, and so what is about the whole project. */
  whole = $derived(!this.me?.only.length)

  /** Takes a token from the address (`#token=...`, which no server sees), or looks who is logged in already. */
  async begin() {
    addEventListener('hashchange', () => void this.#take())
    if (!(await this.#take())) await this.look()
    this.begun = true
  }

  /** Whether the role is enough, `somewhere`: on some views, as far as it is known; the server asks again. */
  may(least: Role, somewhere = false): boolean {
    const more = somewhere ? (this.me?.grants ?? []).map((grant) => grant.split(':')[0] as Role) : []
    const roles = this.me ? [this.me.role, ...more] : ROLES
    return roles.some((role) => ROLES.indexOf(role) >= ROLES.indexOf(least))
  }

  /** Raises `Refused` for a token that is not known. */
  async logIn(token: string) {
    await api.logIn(token)
    await this.look()
  }

  async end() {
    await api.logOut().catch((error: unknown) => {
      if (!(error instanceof Refused)) throw error
    })
    this.me = undefined
    connection.loggedOut()
  }

  /** Asks who it is; nobody shows the log-in. */
  async look() {
    const found = await api.session().catch(() => undefined) // no answer shows the banner
    if (found === undefined) return
    this.me = found.me ?? undefined
    connection.loggedIn = found.me !== null
  }

  /** Whether the address had a token; it leaves the address in any case. */
  async #take(): Promise<boolean> {
    const token = TOKEN.exec(location.hash)?.[1]
    if (token === undefined) return false
    history.replaceState(null, '', location.pathname + location.search)
    await this.logIn(decodeURIComponent(token)).catch(() => this.look()) // which tells that it was wrong
    return true
  }
}

export const session = new Session()
