// SPDX-License-Identifier: Apache-2.0
// One line of `trestle adopt`, and how a table of them is printed.

/**
 * `ours`: has a record. `gone`: its namespace is. `leak`: left of a pod that is gone. `cannot`: stays as
 * it is, `detail` says why.
 */
export type EntryStatus = 'ours' | 'adopt' | 'adopted' | 'cannot' | 'gone' | 'leak' | 'cleared'

export interface Entry {
  readonly network: string
  readonly status: EntryStatus
  readonly containerId: string
  readonly ifName: string
  readonly addresses: readonly string[]
  readonly netns?: string
  readonly hostLink?: string
  readonly detail?: string
}

const words: Readonly<Record<EntryStatus, string>> = {
  ours: 'recorded',
  adopt: 'to adopt',
  adopted: 'adopted',
  cannot: 'CANNOT',
  gone: 'gone',
  leak: 'to clear',
  cleared: 'cleared',
}

/** The entries as a table with a heading, columns as wide as their widest cell. */
export function entryTable(entries: readonly Entry[]): string {
  const heading = ['STATUS', 'NETWORK', 'CONTAINER', 'IFNAME', 'ADDRESSES', 'HOST LINK', 'DETAIL']
  const rows = [heading, ...entries.map(cellsOf)]
  const widths = heading.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('')
}

/** How many of each there are, in words, for the last line. */
export function entryCounts(entries: readonly Entry[]): string {
  const counts = new Map<EntryStatus, number>()
  for (const { status } of entries) counts.set(status, (counts.get(status) ?? 0) + 1)
  const parts = [...counts].map(([status, count]) => `${count} ${words[status].toLowerCase()}`)
  return parts.length === 0 ? 'nothing to adopt and nothing to clear\n' : `${parts.join(', ')}\n`
}

function cellsOf(entry: Entry): readonly string[] {
  const { status, network, containerId, ifName, addresses, hostLink = '', detail = '' } = entry
  return [words[status], network, containerId.slice(0, 20), ifName, addresses.join(','), hostLink, detail]
}
