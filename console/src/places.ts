import type { Component } from 'svelte'
import Dashboards from './pages/Dashboards.svelte'
import Feeds from './pages/Feeds.svelte'
import Lineage from './pages/Lineage.svelte'
import Overview from './pages/Overview.svelte'
import Quarantine from './pages/Quarantine.svelte'
import Sinks from './pages/Sinks.svelte'
import Sql from './pages/Sql.svelte'
import Views from './pages/Views.svelte'

export interface Place {
  /** The first part of the address. */
  part: string
  title: string
  /** After `g`. */
  key: string
  page: Component
}

export const PLACES: Place[] = [
  { part: '', title: 'Overview', key: 'o', page: Overview },
  { part: 'lineage', title: 'Lineage', key: 'l', page: Lineage },
  { part: 'views', title: 'Views', key: 'v', page: Views },
  { part: 'feeds', title: 'Feeds', key: 'f', page: Feeds },
  { part: 'quarantine', title: 'Quarantine', key: 'q', page: Quarantine },
  { part: 'sinks', title: 'Sinks', key: 'k', page: Sinks },
  { part: 'sql', title: 'SQL', key: 's', page: Sql },
  { part: 'dashboards', title: 'Dashboards', key: 'd', page: Dashboards },
]
