/** A piece of SQL and what it is, for its colour. */
export interface Piece {
  text: string
  kind: 'word' | 'string' | 'number' | 'comment' | 'rest'
}

const WORDS = new Set(
  `select from where group by order having join left right full outer inner cross anti semi on using as and or not in is
  null case when then else end union all except intersect distinct with recursive values limit offset over partition
  rows range between preceding following unbounded current row exists like ilike asc desc lateral explode filter true
  false cast interval asof window qualify`.split(/\s+/),
)
const PIECE =
  /(?<comment>--[^\n]*|\/\*[\s\S]*?\*\/)|(?<string>'(?:[^'\\]|\\.|'')*'|"[^"]*"|`[^`]*`)|(?<number>\b\d[\d.]*\b)|(?<name>[A-Za-z_]\w*)|[^]/g

export function pieces(sql: string): Piece[] {
  const found: Piece[] = []
  for (const match of sql.matchAll(PIECE)) {
    const { comment, string, number, name } = match.groups!
    const kind =
      comment !== undefined ? 'comment'
      : string !== undefined ? 'string'
      : number !== undefined ? 'number'
      : name !== undefined && WORDS.has(name.toLowerCase()) ? 'word'
      : 'rest' // prettier-ignore
    const last = found.at(-1)
    if (kind === 'rest' && last?.kind === 'rest') last.text += match[0]
    else found.push({ text: match[0], kind })
  }
  return found
}
