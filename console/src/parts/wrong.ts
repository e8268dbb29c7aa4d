// What a status says is wrong, the worst first.
import type { Status } from '../api/shapes'
import { counted } from './wording'

export interface Wrong {
  tone: 'bad' | 'warn'
  what: string
  why: string
  next: string
  address: string
}

export function wrong(status: Status): Wrong[] {
  const found: Wrong[] = []
  for (const view of status.views) {
    if (view.state === 'live') continue
    found.push({
      tone: view.state === 'loading' ? 'warn' : 'bad',
      what: `view ${view.name} is ${view.state}`,
      why: view.reason ?? '',
      next:
        view.state === 'failed'
          ? `correct the row at its source, or edit views/${view.name}.sql and \`headrace apply\``
          : '',
      address: view.state === 'refused' ? '' : `/views/${encodeURIComponent(view.name)}`,
    })
  }
  for (const [kind, parts] of [
    ['source', status.sources],
    ['sink', status.sinks],
  ] as const) {
    for (const part of parts) {
      if (part.error === null && part.state !== 'failed') continue
      found.push({
        tone: 'bad',
        what: `${kind} ${part.name}: ${part.error?.what ?? part.state}`,
        why: part.error?.why ?? '',
        next: part.error?.next ?? '',
        address: kind === 'sink' ? '/sinks' : '',
      })
    }
  }
  for (const source of status.sources) {
    for (const warning of source.warnings ?? []) {
      found.push({ tone: 'warn', what: `source ${source.name}: ${warning}`, why: '', next: '', address: '' })
    }
  }
  return [...found, ...aside(status)].sort((a, b) => Number(a.tone === 'warn') - Number(b.tone === 'warn'))
}

/** What a table, a view or a sink goes on without. */
function aside(status: Status): Wrong[] {
  const told = (what: string, next: string, address: string): Wrong => ({ tone: 'warn', what, why: '', next, address })
  const each = (parts: { quarantined?: Record<string, number> }[]) =>
    parts.flatMap((part) => Object.entries(part.quarantined ?? {}))
  return [
    ...each(status.sources).map(([table, changes]) =>
      told(
        `${counted(changes, 'change')} of ${table} in the quarantine`,
        'correct and send again, or drop',
        '/quarantine',
      ),
    ),
    ...each(status.views).map(([view, rows]) =>
      told(`view ${view} goes on without ${counted(rows, 'row')}`, 'correct at the source, or drop', '/quarantine'),
    ),
    ...status.sinks.flatMap((sink) =>
      each([sink]).map(([view, rows]) =>
        told(
          `sink ${sink.name}: ${sink.quarantine.what} ${counted(rows, 'row')} of ${view}`,
          `see ${sink.quarantine.where}`,
          sink.tells ? '/alerts' : '/sinks',
        ),
      ),
    ),
  ]
}
