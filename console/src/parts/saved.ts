/** Gives a person a file, as a download of that name. */
export function save(content: Blob, name: string) {
  const address = URL.createObjectURL(content)
  Object.assign(document.createElement('a'), { href: address, download: name }).click()
  URL.revokeObjectURL(address)
}
