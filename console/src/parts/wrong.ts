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
  const aside: Record<string, number> = {}
  for (const part of [...status.sources, ...status.views]) Object.assign(aside, part.quarantined ?? {})
  for (const [name, rows] of Object.entries(aside)) {
    found.push({
      tone: 'warn',
      what: `${counted(rows, 'change')} of ${name} in the quarantine`,
      why: '',
      next: 'correct and send again, or drop',
      address: '/quarantine',
    })
  }
  return found.sort((a, b) => Number(a.tone === 'warn') - Number(b.tone === 'warn'))
}
