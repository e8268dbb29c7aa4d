export type Theme = 'system' | 'light' | 'dark'

const KEY = 'headrace.theme'
const THEMES: Theme[] = ['system', 'light', 'dark']

/** Light, dark, or as the system has it; kept in the browser. */
class Chosen {
  theme = $state<Theme>('system')

  constructor() {
    this.choose((localStorage.getItem(KEY) as Theme | null) ?? 'system')
  }

  choose(theme: Theme) {
    this.theme = THEMES.includes(theme) ? theme : 'system'
    localStorage.setItem(KEY, this.theme)
    if (this.theme === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = this.theme
  }

  next() {
    this.choose(THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length])
  }
}

export const chosen = new Chosen()
