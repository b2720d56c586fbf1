// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept: which chains of others drop what is forwarded to and from a network's pods, and
// where our accept pairs go. An accept in our table cannot override a drop in another one (nft(8), "base
// chains"), so this is the one exception to keeping out of other people's tables (contract §2).

import type { NetworkSpec } from './attachment.ts'

/** Where an accept pair is put. `program`: the iptables variant whose chain it is. */
export type AcceptPlace =
  | { readonly kind: 'iptables'; readonly program: string; readonly chain: string }
  | { readonly kind: 'nft'; readonly family: string; readonly table: string; readonly chain: string }
  | { readonly kind: 'firewalld'; readonly zone: string }

/**
 * What was put for a bridge, or for a subnet of routed pods: what a removal takes out, and no more. `of`: the
 * bridge's name or the CIDR (no link's name has a slash: dev_valid_name, net/core/dev.c).
 */
export interface HostAccept {
  readonly of: string
  readonly places: readonly AcceptPlace[]
}

/** A chain of `nft list chains`. `dropsForwarded`: a base chain of the forward hook with policy drop. */
export interface SeenChain {
  readonly family: string
  readonly table: string
  readonly name: string
  readonly dropsForwarded: boolean
}

/** What was found on the node. */
export interface SeenFirewalls {
  readonly chains: readonly SeenChain[]
  /** What `PROGRAM -S FORWARD` printed, for each variant and family in use. */
  readonly iptables: readonly { readonly program: string; readonly forward: string }[]
  /** firewalld runs; `zone`: the one somebody else put the bridge or the subnet into. */
  readonly firewalld?: { readonly zone: string | undefined }
}

/** Whose packets the network wants accepted: those of its bridge, or those of its routed pods' subnets. */
export function acceptedOf({ hostAccept, acceptSubnets }: NetworkSpec): readonly string[] {
  return hostAccept === undefined ? (acceptSubnets ?? []) : [hostAccept]
}

/**
 * The same for a pod that another plugin made: its bridge, or for a veth on no bridge its subnets. What has no veth
 * (macvlan) is not forwarded by the host; an address without a subnet would be a pair for each pod.
 */
export function acceptChained(
  on: { readonly bridge: string | undefined; readonly hostLink: string | undefined },
  subnets: readonly string[],
): Pick<NetworkSpec, 'hostAccept' | 'acceptSubnets'> {
  if (on.bridge !== undefined) return { hostAccept: on.bridge }
  const acceptSubnets = on.hostLink === undefined ? [] : subnets.filter((subnet) => !/\/(32|128)$/.test(subnet))
  return acceptSubnets.length === 0 ? {} : { acceptSubnets }
}

/** The family of a subnet; undefined for a bridge, which has both. */
export function familyOf(of: string): 4 | 6 | undefined {
  if (!of.includes('/')) return undefined
  return of.includes(':') ? 6 : 4
}

/** firewalld's zone whose target is ACCEPT, the reference firewall's too. */
const trustedZone = 'trusted'

/** The chains of `nft list chains`. Lines that are none are passed over. */
export function readChains(listing: string): readonly SeenChain[] {
  const chains: SeenChain[] = []
  let table: readonly string[] = []
  for (const line of listing.split('\n')) {
    const opened = /^table (\S+) (\S+) \{/.exec(line)
    if (opened) table = opened.slice(1)
    const name = /^\tchain (\S+) \{/.exec(line)?.[1]
    if (name !== undefined) chains.push({ family: table[0] ?? '', table: table[1] ?? '', name, dropsForwarded: false })
    const last = chains.at(-1)
    const drops = /type filter hook forward .*policy drop;/.test(line)
    if (drops && last !== undefined) chains[chains.length - 1] = { ...last, dropsForwarded: true }
  }
  return chains
}

/** Where the accept pair of a bridge or a subnet belongs: nowhere when nothing drops. `family`: of the subnet. */
export function acceptPlaces(seen: SeenFirewalls, ownTable: string, family?: 4 | 6): readonly AcceptPlace[] {
  const isMeant = (name: string) => family === undefined || name === 'inet' || (family === 6) === name.startsWith('ip6')
  const iptables = seen.iptables
    .filter(({ program }) => isMeant(program))
    .flatMap(({ program, forward }): readonly AcceptPlace[] => {
      const chain = droppingChain(forward)
      return chain === undefined ? [] : [{ kind: 'iptables', program, chain }]
    })
  const covered = seen.iptables.map(({ program }) => tableOf(program))
  const nft = seen.chains
    .filter((each) => each.dropsForwarded && isIp(each.family) && isMeant(each.family) && each.table !== ownTable)
    .filter((each) => !(each.name === 'FORWARD' && covered.includes(`${each.family} ${each.table}`)))
    .map(({ family, table, name }): AcceptPlace => ({ kind: 'nft', family, table, chain: name }))
  const needsZone = seen.firewalld !== undefined && seen.firewalld.zone === undefined
  const firewalld: readonly AcceptPlace[] = needsZone ? [{ kind: 'firewalld', zone: trustedZone }] : []
  return [...iptables, ...nft, ...firewalld]
}

/**
 * The chain to put an accept into, from `iptables -S FORWARD`: Docker's own place for it where FORWARD
 * goes there, since Docker drops further down whatever the policy; FORWARD itself where its policy, or
 * a last rule without a match, drops.
 */
function droppingChain(forward: string): string | undefined {
  const lines = forward.trim().split('\n')
  if (lines.includes('-A FORWARD -j DOCKER-USER')) return 'DOCKER-USER'
  const drops = lines.includes('-P FORWARD DROP') || /^-A FORWARD -j (DROP|REJECT)\b/.test(lines.at(-1) ?? '')
  return drops ? 'FORWARD' : undefined
}

function isIp(family: string): boolean {
  return family === 'ip' || family === 'ip6' || family === 'inet'
}

/** The nft table of an iptables-nft variant; a legacy one has none. */
function tableOf(program: string): string {
  if (!program.endsWith('-nft')) return ''
  return program.startsWith('ip6') ? 'ip6 filter' : 'ip filter'
}

/** Whether two places are the same. */
export function samePlace(a: AcceptPlace, b: AcceptPlace): boolean {
  return placeText(a) === placeText(b)
}

/** A place in words. */
export function placeText(place: AcceptPlace): string {
  switch (place.kind) {
    case 'iptables':
      return `chain ${place.chain} of ${place.program}`
    case 'nft':
      return `nft chain ${place.family} ${place.table} ${place.chain}`
    case 'firewalld':
      return `firewalld zone ${place.zone}`
    default:
      return place satisfies never
  }
}

/** What was put, from JSON text; undefined when it is none. One bridge's is one object, others are a list. */
export function parseHostAccepts(text: string): readonly HostAccept[] | undefined {
  try {
    const value = JSON.parse(text) as unknown
    const accepts = (Array.isArray(value) ? value : [value]).map(acceptOf)
    return accepts.every((each) => each !== undefined) ? accepts : undefined
  } catch {
    return undefined
  }
}

/** What was put, as JSON text. */
export function hostAcceptsText(accepts: readonly HostAccept[]): string {
  const objects = accepts.map(({ of, places }) => (of.includes('/') ? { subnet: of, places } : { bridge: of, places }))
  const [first] = objects
  return JSON.stringify(objects.length === 1 && first !== undefined && 'bridge' in first ? first : objects)
}

function acceptOf(value: unknown): HostAccept | undefined {
  const { bridge, subnet, places } = (value ?? {}) as Readonly<Record<string, unknown>>
  const of = bridge ?? subnet
  return typeof of === 'string' && Array.isArray(places) && places.every(isPlace) ? { of, places } : undefined
}

/** The program of a place is started: only the variants that we ask for a FORWARD chain. */
function isPlace(value: unknown): boolean {
  const place = value as Readonly<Record<string, unknown>> | null
  const isText = (name: string, pattern = /^[^\s"';{}#]+$/) => {
    const text = place?.[name]
    return typeof text === 'string' && pattern.test(text)
  }
  switch (place?.['kind']) {
    case 'iptables':
      return isText('chain') && isText('program', /^ip6?tables(-nft|-legacy)?$/)
    case 'nft':
      return isText('family') && isText('table') && isText('chain')
    case 'firewalld':
      return isText('zone')
    default:
      return false
  }
}
