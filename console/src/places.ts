import type { Component } from 'svelte'
import type { Role } from './api/shapes'
import Alerts from './pages/Alerts.svelte'
import Audit from './pages/Audit.svelte'
import Dashboards from './pages/Dashboards.svelte'
import ErrorCode from './pages/ErrorCode.svelte'
import Feed from './pages/Feed.svelte'
import Feeds from './pages/Feeds.svelte'
import Lineage from './pages/Lineage.svelte'
import Notices from './pages/Notices.svelte'
import Overview from './pages/Overview.svelte'
import Quarantine from './pages/Quarantine.svelte'
import Missing from './pages/Missing.svelte'
import Queries from './pages/Queries.svelte'
import Query from './pages/Query.svelte'
import Sinks from './pages/Sinks.svelte'
import Sql from './pages/Sql.svelte'
import Tokens from './pages/Tokens.svelte'
import View from './pages/View.svelte'
import Views from './pages/Views.svelte'
import { notices } from './state/notices.svelte'
import { session } from './state/session.svelte'

export interface Place {
  /** The first part of the address. */
  part: string
  title: string
  /** After `g`. */
  key: string
  page: Component
  /** The page of one of its things, by the second part of the address. */
  one?: Component<{ name: string }>
  /** How many parts the address of one may have. Default: 2. */
  parts?: number
  /** How much is new there. */
  unread?: () => number
  /** The least role that may see it. Default: viewer. */
  least?: Role
  /** It is about the whole project, and so nothing for a token that is limited to some views. */
  whole?: boolean
}

export const PLACES: Place[] = [
  { part: '', title: 'Overview', key: 'o', page: Overview },
  { part: 'lineage', title: 'Lineage', key: 'l', page: Lineage },
  { part: 'views', title: 'Views', key: 'v', page: Views, one: View, parts: 3 },
  { part: 'feeds', title: 'Feeds', key: 'f', page: Feeds, one: Feed, parts: 3 },
  { part: 'quarantine', title: 'Quarantine', key: 'q', page: Quarantine },
  { part: 'queries', title: 'Stored queries', key: 'm', page: Queries, one: Query },
  { part: 'sinks', title: 'Sinks', key: 'k', page: Sinks, whole: true },
  { part: 'alerts', title: 'Alerts', key: 'a', page: Alerts, whole: true },
  { part: 'notices', title: 'Notices', key: 'n', page: Notices, unread: () => notices.unread },
  { part: 'sql', title: 'SQL', key: 's', page: Sql },
  { part: 'dashboards', title: 'Dashboards', key: 'd', page: Dashboards },
  { part: 'tokens', title: 'Tokens', key: 't', page: Tokens, least: 'admin' },
  { part: 'audit', title: 'Audit log', key: 'u', page: Audit, least: 'admin' },
]

/** What errors link to; in no list of pages. */
export const ERRORS: Place = { part: 'errors', title: 'Error codes', key: '', page: Missing, one: ErrorCode }

/** Whether who has logged in may see it. */
export const seen = ({ least = 'viewer', whole = false }: Place) => session.may(least) && (!whole || session.whole)
