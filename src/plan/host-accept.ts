// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept: which chains of others drop what is forwarded to and from a bridge, and where
// our accept pair goes. An accept in our table cannot override a drop in another one (nft(8), "base
// chains"), so this is the one exception to keeping out of other people's tables (contract §2).

/** Where an accept pair is put. `program`: the iptables variant whose chain it is. */
export type AcceptPlace =
  | { readonly kind: 'iptables'; readonly program: string; readonly chain: string }
  | { readonly kind: 'nft'; readonly family: string; readonly table: string; readonly chain: string }
  | { readonly kind: 'firewalld'; readonly zone: string }

/** What was put for a bridge: what a removal takes out, and no more. */
export interface HostAccept {
  readonly bridge: string
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
  /** firewalld runs; `zone`: the one somebody else put the bridge into. */
  readonly firewalld?: { readonly zone: string | undefined }
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

/** Where the accept pair of a bridge belongs: nowhere when nothing drops. */
export function acceptPlaces(seen: SeenFirewalls, ownTable: string): readonly AcceptPlace[] {
  const iptables = seen.iptables.flatMap(({ program, forward }): readonly AcceptPlace[] => {
    const chain = droppingChain(forward)
    return chain === undefined ? [] : [{ kind: 'iptables', program, chain }]
  })
  const covered = seen.iptables.map(({ program }) => tableOf(program))
  const nft = seen.chains
    .filter((each) => each.dropsForwarded && isIp(each.family) && each.table !== ownTable)
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

/** What was put, from JSON text; undefined when it is none. */
export function parseHostAccept(text: string): HostAccept | undefined {
  try {
    const value = JSON.parse(text) as Partial<HostAccept> | null
    const isOne = typeof value?.bridge === 'string' && Array.isArray(value.places) && value.places.every(isPlace)
    return isOne ? (value as HostAccept) : undefined
  } catch {
    return undefined
  }
}

/** The program of a place is started: only the variants that we ask for a FORWARD chain. */
function isPlace(value: unknown): boolean {
  const place = value as Readonly<Record<string, unknown>> | null
  const areTexts = (...names: readonly string[]) =>
    names.every((name) => /^[^\s"';{}#]+$/.test(String(place?.[name] ?? '')))
  switch (place?.['kind']) {
    case 'iptables':
      return areTexts('chain') && /^ip6?tables(-nft|-legacy)?$/.test(String(place['program']))
    case 'nft':
      return areTexts('family', 'table', 'chain')
    case 'firewalld':
      return areTexts('zone')
    default:
      return false
  }
}
