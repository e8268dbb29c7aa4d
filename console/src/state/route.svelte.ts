/** Where the page is: the path's parts, decoded, and the query. The address bar is the only store of it. */
class Route {
  parts = $state.raw<string[]>([])
  query = $state.raw(new URLSearchParams())

  constructor() {
    this.#read()
    addEventListener('popstate', () => this.#read())
    addEventListener('click', (event) => this.#follow(event))
  }

  go(address: string, { replace = false } = {}) {
    history[replace ? 'replaceState' : 'pushState'](null, '', address)
    this.#read()
  }

  /** The same page with another query. */
  ask(query: URLSearchParams) {
    const text = query.toString()
    this.go(location.pathname + (text === '' ? '' : `?${text}`), { replace: true })
  }

  #read() {
    const parts = location.pathname
      .split('/')
      .filter((part) => part !== '')
      .map(decoded)
    if (parts.join('/') !== this.parts.join('/')) this.parts = parts
    this.query = new URLSearchParams(location.search)
  }

  /** A plain click on a link of the page's own changes the page without loading it. */
  #follow(event: MouseEvent) {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return
    const link = (event.target as Element).closest('a')
    const address = link?.getAttribute('href')
    if (!address?.startsWith('/') || link?.hasAttribute('download') || link?.hasAttribute('target')) return
    event.preventDefault()
    this.go(address)
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export const route = new Route()
