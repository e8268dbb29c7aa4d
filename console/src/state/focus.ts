const TAKES_FOCUS =
  'h1, a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary, [tabindex="0"]'

/** An element and its place among those beside it. */
interface Level {
  element: Element
  at: number
}

/**
 * Who goes by keys or hears the page does not begin at its top when what had the focus goes, as a row that was dropped:
 * what is nearest to it has it then. What is only disabled while it acts has it again. To be called once.
 */
export function keepFocus() {
  let levels: Level[] = [] // what had the focus last, and all that it is in

  addEventListener('focusin', ({ target }) => {
    if (target instanceof Element && !target.closest('dialog')) levels = levelsOf(target)
  })
  addEventListener('focusout', ({ target }) => {
    const left = target as Element
    setTimeout(() => {
      const stays = left.isConnected && !left.matches(':disabled')
      if (stays && document.activeElement === document.body) levels = [] // somebody pointed elsewhere
    })
  })
  new MutationObserver(() => {
    if (document.activeElement !== document.body || levels.length === 0) return
    const [{ element }] = levels
    const next = element.isConnected ? element : nearest(levels)
    if (next instanceof HTMLElement || next instanceof SVGElement) next.focus()
  }).observe(document.body, { childList: true, subtree: true, attributeFilter: ['disabled'] })
}

/** Up to the landmark that it is in. */
function levelsOf(target: Element): Level[] {
  const levels: Level[] = []
  for (let element: Element | null = target; element; element = element.parentElement) {
    levels.push({ element, at: [...(element.parentElement?.children ?? [])].indexOf(element) })
    if (element.matches('main, #console > nav')) break
  }
  return levels
}

function nearest(levels: Level[]): Element | null {
  for (const [depth, { element }] of levels.entries()) {
    if (!element.isConnected) continue
    const beside = element.children[Math.min(levels[depth - 1].at, element.children.length - 1)]
    const found = beside?.matches(TAKES_FOCUS) ? beside : beside?.querySelector(TAKES_FOCUS)
    const next = found ?? element.querySelector(TAKES_FOCUS)
    if (next) return next
  }
  return null
}
