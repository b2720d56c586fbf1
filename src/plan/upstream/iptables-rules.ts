// SPDX-License-Identifier: Apache-2.0
// Which rules of an `iptables-save` are the upstream plugins' for given attachments, and the input of
// `iptables-restore --noflush` that takes these away and no other. A rule is deleted by its own text.

import { isOneOf, type NamedPod, type UpstreamOwner, upstreamNames } from './owner-names.ts'

/** One table of a saved ruleset. `rules`: lines that start with `-A`. */
interface SavedTable {
  readonly chains: ReadonlySet<string>
  readonly rules: readonly string[]
}

/** The deletions as input for iptables-restore (one table a transaction); empty where there is nothing to delete. */
export function iptablesRemovals(saved: string, owners: readonly UpstreamOwner[]): string {
  const nat = tableOf(saved, 'nat')
  const filter = tableOf(saved, 'filter')
  const inNat = owners.map((owner) => chainRemovals(nat, owner))
  const inFilter = filter.rules.filter((rule) => owners.some((owner) => isAcceptOf(rule, owner.accepts)))
  return [
    transaction('nat', [...inNat.flatMap((each) => each.rules), ...inNat.flatMap((each) => each.chains)]),
    transaction('filter', inFilter.map(deletion)),
  ].join('')
}

/** The pods that rules of ipMasq and portmap name in their comments. */
export function iptablesPods(saved: string): readonly NamedPod[] {
  const pattern = /--comment "(?:dnat )?name: \\"([^"\\]+)\\" id: \\"([^"\\]+)\\""/
  return tableOf(saved, 'nat').rules.flatMap((rule) => {
    const [, network, containerId] = pattern.exec(rule) ?? []
    if (network === undefined || containerId === undefined) return []
    const source = / -s (\S+)\/(?:32|128) /.exec(rule)?.[1]
    return [{ network, containerId, ...(source === undefined ? {} : { address: source }) }]
  })
}

/** The addresses that rules of the firewall plugin accept, without prefix length. */
export function acceptedAddresses(saved: string): readonly string[] {
  const found = tableOf(saved, 'filter').rules.flatMap((rule) => acceptedBy(rule) ?? [])
  return [...new Set(found)]
}

function tableOf(saved: string, name: string): SavedTable {
  const chains = new Set<string>()
  const rules: string[] = []
  let table = ''
  for (const line of saved.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1).trim()
    if (table !== name) continue
    if (line.startsWith(':')) chains.add(line.slice(1, line.indexOf(' ')))
    if (line.startsWith('-A ')) rules.push(line)
  }
  return { chains, rules }
}

interface Removals {
  readonly rules: readonly string[]
  readonly chains: readonly string[]
}

/** A chain goes when nothing jumps to it any more. */
function chainRemovals(nat: SavedTable, owner: UpstreamOwner): Removals {
  const { masqueradeChain, portChain, oldPortChain } = upstreamNames(owner)
  const masquerades = jumpsTo(nat, masqueradeChain)
  const ownMasquerades = masquerades.filter((rule) => isOwnMasquerade(rule, owner))
  const isLast = ownMasquerades.length === masquerades.length
  const ports = isOwnPorts(nat, portChain, owner) ? [portChain, oldPortChain] : []
  const gone = [...(isLast ? [masqueradeChain] : []), ...ports].filter((chain) => nat.chains.has(chain))
  return {
    rules: [...ownMasquerades, ...ports.flatMap((chain) => jumpsTo(nat, chain))].map(deletion),
    chains: [...gone.map((chain) => `-F ${chain}`), ...gone.map((chain) => `-X ${chain}`)],
  }
}

function jumpsTo(table: SavedTable, chain: string): readonly string[] {
  return table.rules.filter((rule) => rule.endsWith(` -j ${chain}`))
}

/** The chain's name has no interface name: of two interfaces in one network, the source tells which is meant. */
function isOwnMasquerade(rule: string, owner: UpstreamOwner): boolean {
  const source = / -s (\S+) /.exec(rule)?.[1]
  return owner.addresses.length === 0 || (source !== undefined && isOneOf(owner.addresses, source))
}

function isOwnPorts(nat: SavedTable, chain: string, owner: UpstreamOwner): boolean {
  const targets = nat.rules
    .filter((rule) => rule.startsWith(`-A ${chain} `))
    .flatMap((rule) => / --to-destination (\S+):\d+$/.exec(rule)?.[1] ?? [])
  return (
    owner.addresses.length === 0 || targets.length === 0 || targets.some((target) => isOneOf(owner.addresses, target))
  )
}

function isAcceptOf(rule: string, addresses: readonly string[]): boolean {
  const address = acceptedBy(rule)
  return address !== undefined && isOneOf(addresses, address)
}

/** The pod's address in one of the two rules that the firewall plugin adds per address (§2.12). */
function acceptedBy(rule: string): string | undefined {
  const from = /^-A CNI-FORWARD -s (\S+)\/(?:32|128) -j ACCEPT$/
  const to = /^-A CNI-FORWARD -d (\S+)\/(?:32|128) -m conntrack --ctstate \S+ -j ACCEPT$/
  return from.exec(rule)?.[1] ?? to.exec(rule)?.[1]
}

function deletion(rule: string): string {
  return `-D${rule.slice('-A'.length)}`
}

function transaction(table: string, lines: readonly string[]): string {
  const distinct = [...new Set(lines)]
  return distinct.length === 0 ? '' : `*${table}\n${distinct.join('\n')}\nCOMMIT\n`
}
