// The rows of the view, each as its JSON, with how often it is there.
let rows = new Map()
let whole = true // the next snapshot begins anew

function add(entries) {
  const come = new Set()
  for (const { row, weight } of entries) {
    const key = JSON.stringify(row)
    const count = (rows.get(key) ?? 0) + weight
    if (weight > 0) come.add(key)
    if (count) rows.set(key, count)
    else rows.delete(key)
  }
  return come
}

function cells(tag, values) {
  const line = document.createElement('tr')
  for (const value of values) {
    const cell = document.createElement(tag)
    cell.textContent = value ?? '' // as text, whatever it holds
    line.append(cell)
  }
  return line
}

function show(commit, come) {
  const keys = [...rows.keys()].sort()
  const columns = keys.length ? Object.keys(JSON.parse(keys[0])) : []
  document.getElementById('head').replaceChildren(cells('th', columns))
  const lines = keys.map((key) => {
    const line = cells('td', Object.values(JSON.parse(key)))
    if (come.has(key)) line.className = 'new'
    return line
  })
  document.getElementById('rows').replaceChildren(...lines)
  document.getElementById('state').textContent = `as of commit ${commit}`
}

const source = new EventSource('changes')
source.addEventListener('snapshot', (event) => {
  const part = JSON.parse(event.data)
  if (whole) rows = new Map()
  add(part.rows)
  whole = part.last
  if (part.last) show(part.commit, new Set())
})
source.addEventListener('change', (event) => {
  const change = JSON.parse(event.data)
  show(change.commit, add(change.rows))
})
source.addEventListener('progress', (event) => {
  document.getElementById('state').textContent = `as of commit ${JSON.parse(event.data).commit}`
})
source.onerror = () => (document.getElementById('state').textContent = 'connecting again')
