// SPDX-License-Identifier: Apache-2.0
// Which rules of an `iptables-save` are the upstream plugins' for given attachments, and the input of
// `iptables-restore --noflush` that takes these away and no other. A rule is deleted by its own text.

import { canonicalAddress } from '../../cni/address.ts'
import type { NftChain } from '../../model/observed.ts'

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

export function tableOf(saved: string, name: string): SavedTable {
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
export function acceptedBy(rule: string): string | undefined {
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

// Which rules of the upstream plugins' nftables tables are those of given attachments: told by their comments.

/** The tables that ipMasq, portmap and macspoofchk use; the last one may be others' too. */
export const upstreamTables = [
  { family: 'inet', table: 'cni_plugins_masquerade' },
  { family: 'ip', table: 'cni_hostport' },
  { family: 'ip6', table: 'cni_hostport' },
  { family: 'bridge', table: 'nat' },
] as const

/** The rules and chains of a table, as far as they tell whose they are. */
export interface UpstreamNftRules {
  readonly rules: readonly UpstreamRule[]
  readonly chains: readonly NftChain[]
}

/** A rule. `texts`: every text in its expression; `source`: the address that it compares the sender with. */
interface UpstreamRule extends NftChain {
  readonly handle: number
  readonly comment: string
  readonly texts: ReadonlySet<string>
  readonly source: string | undefined
}

/** Of `listed` what these owners have: rules, and chains with all that is in them. */
export function nftRemovals(listed: UpstreamNftRules, owners: readonly UpstreamOwner[]): UpstreamNftRules {
  const known = owners.map((owner) => ({ owner, names: upstreamNames(owner) }))
  const spoof = new Set(known.flatMap(({ names }) => names.spoofChains))
  return {
    rules: listed.rules.filter((rule) => known.some((each) => isOwn(rule, each))),
    chains: listed.chains.filter(
      ({ family, table, chain }) => family === 'bridge' && table === 'nat' && spoof.has(chain),
    ),
  }
}

function isOwn(
  rule: UpstreamRule,
  { owner, names }: { owner: UpstreamOwner; names: ReturnType<typeof upstreamNames> },
) {
  const { comment } = rule
  switch (rule.table) {
    case 'cni_plugins_masquerade':
      return comment.startsWith(names.masqueradeMark)
    case 'cni_hostport':
      return comment === owner.containerId && (owner.addresses.length === 0 || isAbout(rule, owner.addresses))
    case 'nat':
      return rule.family === 'bridge' && comment === names.spoofMark
    default:
      return false
  }
}

/** portmap's comment is the container's: the pod's address tells its interfaces apart. */
function isAbout({ texts }: UpstreamRule, addresses: readonly string[]): boolean {
  return addresses.some((address) => texts.has(address))
}

// The names that the upstream plugins give to what they make for one attachment
// (docs/design.md, "Upstream masquerade" and "Upstream portmap" and "Upstream bandwidth"): by these their leavings are
// found, and told from others'.

/** Whose rules are meant. `addresses`: without prefix length; empty where they are not known. */
export interface UpstreamOwner {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly addresses: readonly string[]
  /** Addresses whose accepts of the firewall plugin go too: nobody else may hold them. */
  readonly accepts: readonly string[]
}

/** Names made from network, container id and interface name. */
interface UpstreamNames {
  /** iptables chain of ipMasq: `CNI-` and 24 hex digits. */
  readonly masqueradeChain: string
  /** iptables chains of portmap: `CNI-DN-` and `CNI-SN-` (before 0.9) with 21 hex digits. */
  readonly portChain: string
  readonly oldPortChain: string
  /** How the comments of ipMasq's nftables rules start: two hashes of 16 hex digits. */
  readonly masqueradeMark: string
  /** The ifb device of bandwidth: `bwp` and 12 hex digits. */
  readonly ifb: string
  /** The comment of macspoofchk's rules, and its two chains. */
  readonly spoofMark: string
  readonly spoofChains: readonly string[]
}

/** The interface name is in some of the names only: two interfaces of a container share the others. */
export function upstreamNames(owner: Pick<UpstreamOwner, 'network' | 'containerId' | 'ifName'>): UpstreamNames {
  const { network, containerId, ifName } = owner
  const shared = sha512Hex(network + containerId)
  const spoofChain = `cni-br-iface-${containerId}-${ifName}`
  return {
    masqueradeChain: `CNI-${shared.slice(0, 24)}`,
    portChain: `CNI-DN-${shared.slice(0, 21)}`,
    oldPortChain: `CNI-SN-${shared.slice(0, 21)}`,
    masqueradeMark: `${networkMark(network)}-${sha512Hex(`${ifName}:${containerId}`).slice(0, 16)}`,
    ifb: `bwp${shared.slice(0, 12)}`,
    spoofMark: `macspoofchk-${containerId}-${ifName}`,
    spoofChains: [spoofChain, `${spoofChain}-mac`],
  }
}

/** How the comments of a network's nftables masquerade rules start, whatever the container. */
export function networkMark(network: string): string {
  return sha512Hex(network).slice(0, 16)
}

/** A host link as the upstream names it: `veth` and 8 hex digits. */
export function isUpstreamLinkName(name: string): boolean {
  return /^veth[0-9a-f]{8}$/.test(name)
}

/** Whether an address in a rule, `10.1.2.3/32` or `[fd00::2]`, is one of `addresses`. */
function isOneOf(addresses: readonly string[], text: string): boolean {
  const bare = canonicalAddress(text.replace(/^\[(.*)\]$/, '$1').replace(/\/(32|128)$/, ''))
  return addresses.some((address) => canonicalAddress(address) === bare)
}

export function sha512Hex(text: string): string {
  return process.getBuiltinModule('node:crypto').createHash('sha512').update(text).digest('hex')
}
