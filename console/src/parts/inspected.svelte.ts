/** The one text that is shown whole, over the page. */
class Inspected {
  label = $state('')
  text = $state.raw<string>()

  show(label: string, text: string) {
    this.label = label
    this.text = text
  }

  close() {
    this.text = undefined
  }
}

export const inspected = new Inspected()
