// What the server answers, as far as the page reads it.

export type Cell = unknown
export type Row = Record<string, Cell>

export interface Column {
  name: string
  type: string
}

export type Role = 'viewer' | 'editor' | 'operator' | 'admin'

export interface Me {
  name: string
  role: Role
  /** Patterns of the views and tables that it reaches; none: all. */
  only: string[]
  /** `role:pattern`: what it may do more to. */
  grants?: string[]
}

/** What a code means, what brings it about, what mends it; commands between backquotes. */
export interface ErrorCode {
  code: string
  meaning: string
  cause: string
  repair: string
}

export interface ErrorShown {
  code: string
  what: string
  where?: string
  why?: string
  next?: string
}

export interface ViewStatus {
  name: string
  version: number
  state: string
  reason: string | null
  commit: number
  behind_s?: number
  failing?: unknown[]
  quarantined?: Record<string, number>
}

/** The first copy of a table, or that of large files. */
export interface Copied {
  table: string
  unit: 'rows' | 'bytes'
  done: number
  total: number | null
  left_s: number | null
}

export interface SourceStatus {
  name: string
  state: string
  tables: string[]
  copying: Copied[]
  rows: number
  position: string | null
  error: ErrorShown | null
  warnings: string[]
  endpoint?: string
  quarantined: Record<string, number>
}

export interface SinkStatus {
  name: string
  state: string
  /** Sent in vain, one after the other; of sinks that tell of changes. */
  attempts?: number
  frontier: number
  rows: number
  lag: number
  behind_s: number
  error: ErrorShown | null
  /** Whether it tells of changes, and keeps no contents. */
  tells: boolean
  /** View -> rows that are set aside; `quarantine`: what is said of them, and where they are. */
  quarantined: Record<string, number>
  quarantine: { what: string; where: string }
}

/** Of a token that is limited to some views: the commits and those views. */
export interface Status {
  state?: string
  commit: number
  first?: number
  frontier: number
  step_seconds?: number
  steps?: number
  published_us?: number | null
  views: ViewStatus[]
  sources: SourceStatus[]
  sinks: SinkStatus[]
}

export interface Top {
  machine: { cores: number; load: number; memory: number; available: number }
  processes: { name: string; pid: number; own: number; mapped: number }[]
  jvm: { heap: number; heap_max: number }
  files: { name: string; files: number; disk: number; memory: number }[]
}

export interface ColumnOf {
  relation: string
  column: string
}

/** A column of a table or view; `value`: those it is computed from, `rows`: those that decide which rows go into it. */
export interface Traced extends ColumnOf {
  type: string
  value: ColumnOf[]
  rows: ColumnOf[]
}

export interface Lineage {
  nodes: { id: string; kind: string; name: string; state: string }[]
  edges: { from: string; to: string }[]
  /** Upstream first; where they were asked for. */
  columns?: Traced[]
}

export interface View {
  name: string
  sql: string
  columns: Column[]
  key: string[]
  version: number
  state: string
  reason: string | null
  commit: number
  rows?: number | null
  created_commit: number
  reads: string[]
  read_by: string[]
  sinks: string[]
}

export interface Answer {
  commit: number
  columns: Column[]
  rows: Row[]
  more: boolean
  /** Views that stay behind `commit`, and why. */
  stale: Record<string, string>
}

/** Where words were found: `marks` are (begin, end) in characters, not in UTF-16 units. */
export interface Snippet {
  column: string
  text: string
  marks: [number, number][]
}

export interface Found {
  commit: number
  total: number
  hits: { score: number; copies: number; row: Row; snippets: Snippet[] }[]
}

/** Rows of the last step that reached the view, and since `counted_from`. */
export interface Counted {
  last: number | null
  sum: number | null
}

export interface Operator {
  id: number
  /** The operators whose rows it takes. */
  inputs: number[]
  name: string
  detail: string
  rule: string
  state: string
  bound: string
  cost: string
  /** `read`: of what is kept. Null where Spark computes it together with its neighbour. */
  rows: { in: Counted; out: Counted; read: Counted }
  /** `of`: who writes it. */
  arrangements: { name: string; rows: number; bytes: number; runs: number; of: string }[]
}

export interface Explained {
  /** Leaves first. */
  operators: Operator[]
  /** Of all views together. */
  state: { rows: number; bytes: number }
  /** A commit; null before anything was counted. */
  counted_from: number | null
  text: string
}

export interface Version {
  version: number
  state: string
  sql: string
  columns: Column[]
  key: string[]
  came_commit: number
  came_at: string | null
  gone_commit: number | null
  gone_at: string | null
}

export interface Weighted {
  row: Row
  weight: number
}

export interface Change {
  commit: number
  rows: Weighted[]
}

export interface Feed {
  name: string
  kind: 'view' | 'table' | 'query'
  /** Of a stored query: the view that it is of. */
  view: string | null
}

/** Of a table with `op`, of a view or query with `weight`. */
export interface FeedChange {
  op?: string
  weight?: number
  row: Row
}

export interface Transaction {
  commit: number
  /** Of a table alone, as `position`. */
  source?: string
  position?: string
  committed_at: string | null
  changes: FeedChange[]
  /** Whether it has further changes. */
  more: boolean
}

export interface LookedThrough {
  transactions: Transaction[]
  /** Commits from this one on were looked through; null: all that are kept. */
  before: number | null
}

/** A change that a table could not take, text that a source could not read (`payload`), or a row without a view (`view`). */
export interface Kept {
  id: string
  table: string
  commit: number | null
  reason: string
  operation?: string
  row?: Row
  source?: string
  place?: string
  payload?: string
  view?: string
  weight?: number
}

export interface StoredQuery {
  name: string
  view: string
  query: string
  problem: ErrorShown | null
}

export interface Matches {
  query: string
  view: string
  commit: number
  columns: Column[]
  /** Of all rows, of which `matches` are the first. */
  total: number
  matches: { copies: number; row: Row }[]
}

/** What a sink could not tell. `recipients`: who of a mail's lack it. */
export interface DeadLetter {
  sink: string
  number: number
  view: string
  commit: number
  rows: number
  given_up_at: string
  recipients: string[]
  reason: string
}

export interface Letter extends DeadLetter {
  messages: unknown[]
}

export interface Alerts {
  /** Sink -> messages still to be sent. */
  waiting: Record<string, number>
  /** Sink -> its dead letters. */
  letters: Record<string, number>
  /** The first of all sinks, or of the one that was asked for. */
  dead: DeadLetter[]
}

export interface Notice {
  number: number
  view: string
  /** The stored query whose matches these are. */
  query: string | null
  commit: number
  at: string
  entered: number
  left: number
  changed: number
  /** The first of them; of what changed before and after. */
  rows: Record<'entered' | 'left' | 'changed', Row[]>
}

export interface Notices {
  /** Another one where the numbers begin anew. */
  made: string
  notices: Notice[]
}

export interface Token {
  id: string
  name: string
  role: string
  /** Patterns of the views and tables that it reaches; none: all. */
  only: string[]
  /** `role:pattern`: what it may do more to. */
  grants: string[]
  state: string
  created: string
  expires: string | null
  last_used: string | null
}

export interface NewToken extends Token {
  token: string
}

export interface AuditEntry {
  number: number
  at: string
  who: string
  action: string
  relation: string | null
  address: string
  outcome: string
  /** The entry that began what ended here. */
  of: number | null
  detail: Record<string, string | number | null>
}

export interface Verdict {
  entries: number
  head: string
  damage: { number: number; file: string; offset: number; why: string } | null
}
