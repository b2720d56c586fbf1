// SPDX-License-Identifier: Apache-2.0
// The errors of other programs in a text, with their positions.

import { diagnosis, type KnownError, wordings } from '../../catalogue/diagnosis.ts'

/** A place in a text: [from, to). */
export interface Span {
  readonly from: number
  readonly to: number
}

/** A known error in a text. `said`: the words that were recognised. */
export type Match = KnownError & Span & { readonly said: string }

function anyOf(parts: readonly RegExp[], flags = ''): RegExp {
  return new RegExp(parts.map(({ source }) => source).join('|'), flags)
}

/** Errors of image pulls, volumes and the API server's hooks, which have the same words. */
const otherMatters = anyOf(
  [
    /failed to (?:pull|resolve (?:image|reference))|pulling image|sandbox image|ImagePull|PullImage|registry endpoint/,
    /\/v2\/\S*manifests|MountVolume(?![^\n]{0,160}\/sys\/fs\/bpf)|(?<!multus-)webhook(?! "multus|Configuration|s\[\d)/,
  ],
  'i',
)

/**
 * The errors of other programs in a plain text (plainText); two errors of a kind share no words. `isOurs`: the text has
 * an id of trestle, which counts more than an error in a person's words.
 */
export function matchesIn(text: string, isOurs: boolean): readonly Match[] {
  const found = byWording(text)
  return withoutOverlaps(found.length > 0 || isOurs ? found : asRetold(text))
}

interface Compiled {
  readonly known: KnownError
  readonly pattern: RegExp
  readonly retold: RegExp | undefined
  readonly unless: RegExp | undefined
}

let compiled: readonly Compiled[] | undefined

/** Compiles the patterns with the first text, for other commands' start-up. Case is ignored: releases differ in it. */
function errors(): readonly Compiled[] {
  const compile = (source: string | undefined, flags: string) =>
    source === undefined ? undefined : new RegExp(source, flags)
  compiled ??= wordings().map(({ id, pattern, retold, unless }) => {
    const known = diagnosis(id) as KnownError
    return { known, pattern: new RegExp(pattern, 'gi'), retold: compile(retold, 'gi'), unless: compile(unless, 'i') }
  })
  return compiled
}

function byWording(text: string): readonly Match[] {
  const all = errors().flatMap((each) => matchOf(text, each, each.pattern))
  const isAboutNetworks = speaksOfNetworks(text) || all.some((match) => distance(match) === 0)
  return all.filter(({ words }) => isAboutNetworks || words !== 'shared')
}

/** At most one match, since a person's few words name one object and its fault. */
function asRetold(text: string): readonly Match[] {
  if (!speaksOfNetworks(text)) return []
  const all = errors().flatMap((each) => {
    const known: KnownError = { ...each.known, words: 'shared' }
    return each.retold === undefined ? [] : matchOf(text, { ...each, known }, each.retold)
  })
  return all.slice(0, 1)
}

/** The first place with the words of the error that is about no other matter. */
function matchOf(text: string, { known, unless }: Compiled, pattern: RegExp): readonly Match[] {
  for (const match of text.matchAll(pattern)) {
    const line = lineAround(text, match.index)
    const isOther = unless?.test(line) === true || (known.words === 'shared' && otherMatters.test(line))
    if (!isOther) return [{ ...known, ...wordsOf(match) }]
  }
  return []
}

function lineAround(text: string, index: number): string {
  const end = text.indexOf('\n', index)
  return text.slice(text.lastIndexOf('\n', index) + 1, end < 0 ? text.length : end)
}

/**
 * Of two matches that share words keeps the nearer, else the catalogue's first; a match around another may share words.
 */
function withoutOverlaps(matches: readonly Match[]): readonly Match[] {
  const ordered = matches.toSorted((a, b) => distance(a) - distance(b))
  return ordered.filter((match, at) => {
    const earlier = ordered.slice(0, at).filter(({ words }) => (words === 'around') === (match.words === 'around'))
    return !earlier.some((other) => other.from < match.to && match.from < other.to)
  })
}

/** Distance to the cause: lowest for words of one error, then words of several errors, then words around another. */
export function distance({ words }: KnownError): number {
  return words === 'around' ? 2 : words === 'shared' ? 1 : 0
}

export function wordsOf(match: RegExpExecArray): Span & { readonly said: string } {
  return { said: match[0].trim(), from: match.index, to: match.index + match[0].length }
}

// Decides whether a text is about pods' networks; words that other programs print too count only in such a text.

/** Words of CNI calls and configurations, names of networks and their parts, tools and kernel objects. */
const aboutNetworks = anyOf(
  [
    /\bcni\d*\b|cni-|cniVersion|plugin type=|netplugin|networkPlugin|network: "?Unauthorized|pod network|setup network/,
    /network (?:for (?:pod|sandbox)|namespace|sandbox|plugin|policy|device)|netns|sandbox add|conflist|net\.d\b/,
    /configuration list|IPAM|IP ranges|range set \d|pod ?CIDR|invalid subnet -|invalid CIDR (?!address)/,
    /CIDR address: [[\w]|IPv[46] allocator|find plugin|allocating IP|allocation failed|on network|set gateway\b/,
    /NetworkStatus|PodDelegates|register network|containernetworking|network-policy-agent|ip_forward|\bbr[_-]n(?:etfilter|f-)/,
    /multus|flannel|calico|tigera|cilium|\bsubsys=|antrea|kube-?ovn|ovn-?k|ofproto|openvswitch|whereabouts|spiderpool/,
    /kube-router|weave|kubenet|kube-?proxy|\bproxier\b|azure-(?:vnet|cns)|aws-node|ipamd|vpc-resource-controller|terway/,
    /sriov|istio-cni|linkerd-cni|danm|\bnsx\b|netavark|docker-proxy|\[(?:INFO|WARNING|ERROR|FATAL|PANIC)\]\[\d+\]/,
    /\bveth[\da-z]{4,}\b|vxlan|netlink|Link not found|Could not process rule: |\bnft\b|conntrack|\b(?:ip6?|eb)tables\b/,
    /\bDNAT\b|MASQUERADE\b|\bqdisc\b|add (?:IP |new )?(?:v4 )?routes?\b|exec: "(?:\/\S*\/)?(?:brctl|ethtool|tc|ip)": /,
    /\b(?:10\.(?:\d{1,3}\.0|152\.183)|172\.(?:20|30)\.0)\.1:443\b|GLIBC_[\d.]+' not found(?! \(required)/,
  ],
  'i',
)

function speaksOfNetworks(text: string): boolean {
  return aboutNetworks.test(text)
}
