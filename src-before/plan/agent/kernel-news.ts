// SPDX-License-Identifier: Apache-2.0
// What a line of `ip -o monitor` or `nft monitor` means to the agent. Pods come and go all day: most lines mean
// nothing.

import type { ChainPlace } from '../../features/accept-place.ts'
import { isPodLinkName } from '../../model/names.ts'

/** `routes`: look at the routes again; `all`: look at everything that state says should be there. */
export type News = 'routes' | 'all' | undefined

/** A line of `ip -o monitor link route netconf`. `bridges`: names of bridges that are ours. */
export function newsOfIp(line: string, bridges: ReadonlySet<string>): News {
  // ip-netconf(8): settings of links follow the one of all.
  if (/^(Deleted )?inet6? /.test(line)) return /^inet6? all .*\bforwarding off\b/.test(line) ? 'all' : undefined
  const link = /^(Deleted )?\d+: ([^:@]+)[:@]/.exec(line)
  const [, deleted, name = ''] = link ?? []
  if (link !== null && bridges.has(name)) return deleted !== undefined || !/<[^>]*\bUP\b/.test(line) ? 'all' : undefined
  // A pod's link: its DEL knows of it. Other links may be the way to peers.
  if (link !== null) return /^(veth|ifb)/.test(name) ? undefined : 'routes'
  const dev = /\bdev (\S+)/.exec(line)?.[1] ?? ''
  if (bridges.has(dev)) return line.startsWith('Deleted') ? 'all' : undefined
  const isKernels = /^(Deleted )?(local|broadcast|multicast|anycast) /.test(line)
  return isKernels || /^(veth|ifb)/.test(dev) || line === '' ? undefined : 'routes'
}

export function isPodGone(line: string): boolean {
  return isPodLinkName(/^Deleted \d+: ([^:@]+)[:@]/.exec(line)?.[1] ?? '')
}

/** A line of `nft monitor destroy`: elements of pods that go are no news; chains, rules and tables of ours are. */
export function newsOfNft(line: string): News {
  return /^delete (table|chain|rule|set) (inet|bridge) trestle\b/.test(line) ? 'all' : undefined
}

/** What a line of `nft monitor` says of others' rules: the table or chain that was deleted, or had a rule deleted. */
export function deletedByOthers(line: string): string | undefined {
  const [, table, chain] = /^delete (?:table (\S+ \S+)|(?:chain|rule) (\S+ \S+ \S+))/.exec(line) ?? []
  const what = table ?? chain
  return what === undefined || newsOfNft(line) !== undefined ? undefined : what
}

/** Whether the accept in this place may have gone with what was deleted. iptables-nft has its tables in nft's. */
export function hadAccept(place: ChainPlace, deleted: string): boolean {
  const at = place.kind === 'nft' ? `${place.family} ${place.table} ${place.chain}` : nftChainOf(place)
  return at === deleted || at?.startsWith(`${deleted} `) === true
}

function nftChainOf({ program, chain }: Extract<ChainPlace, { kind: 'iptables' }>): string | undefined {
  if (program.endsWith('-legacy')) return undefined
  return `${program.startsWith('ip6') ? 'ip6' : 'ip'} filter ${chain}`
}
