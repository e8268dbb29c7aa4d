import { PLACES, seen } from '../places'
import { connection } from './connection.svelte'
import { route } from './route.svelte'

const TOGETHER_MS = 2000

/** Keys that work everywhere but where one writes. */
class Keys {
  helping = $state(false)
  jumping = $state(false)
  #going = 0

  pressed(event: KeyboardEvent) {
    if (!connection.loggedIn || event.defaultPrevented || event.altKey) return
    if (event.key.toLowerCase() === 'k' && (event.metaKey || event.ctrlKey))
      return this.#take(event, () => this.#jump())
    if (event.metaKey || event.ctrlKey || writing(event.target) || document.querySelector('dialog[open]')) return
    const going = event.timeStamp - this.#going < TOGETHER_MS
    this.#going = event.key === 'g' && !going ? event.timeStamp : 0
    const place = going ? PLACES.find((each) => each.key === event.key && seen(each)) : undefined
    if (place) this.#take(event, () => route.go(`/${place.part}`))
    else if (event.key === '/') this.#take(event, () => this.#jump())
    else if (event.key === '?') this.#take(event, () => (this.helping = true))
  }

  #jump() {
    this.jumping = true
  }

  #take(event: KeyboardEvent, act: () => void) {
    event.preventDefault()
    act()
  }
}

function writing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}

export const keys = new Keys()
