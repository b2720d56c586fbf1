// SPDX-License-Identifier: Apache-2.0
// Where accepts were put for us in other firewalls: NETWORK-accept.json, and accept.json of the machine. What is in
// them is put into commands: places are checked closely.

import type { AcceptPlace, ChainPlace, HostAccept, MarkAccept } from '../rules/host-accept.ts'
import { byKind, listOf, only, optionalText, parsedJson, stored } from './stored.ts'
import { decodeEarlier, encodeFile, withFormat, withoutFormat } from './versioned.ts'

type PlaceOf<K extends AcceptPlace['kind']> = Extract<AcceptPlace, { kind: K }>

const textLike = <T extends string = string>(pattern: RegExp) =>
  only<T>((value) => typeof value === 'string' && pattern.test(value))

const name = textLike(/^[^\s"';{}#]+$/)

/** Its program is started: only the variants that we ask for a FORWARD chain. */
const iptables = stored<PlaceOf<'iptables'>>({
  kind: ['kind', textLike(/^iptables$/)],
  program: ['program', textLike(/^ip6?tables(-nft|-legacy)?$/)],
  chain: ['chain', textLike(/^[^-\s"';{}#][^\s"';{}#]*$/)],
})

const nft = stored<PlaceOf<'nft'>>({
  kind: ['kind', textLike(/^nft$/)],
  family: ['family', name],
  table: ['table', name],
  chain: ['chain', name],
})

const firewalld = stored<PlaceOf<'firewalld'>>({ kind: ['kind', textLike(/^firewalld$/)], zone: ['zone', name] })

/** Under the bridge's name or the CIDR of routed pods. */
interface StoredAccept {
  readonly bridge?: string
  readonly subnet?: string
  readonly places: readonly AcceptPlace[]
}

const accept = stored<StoredAccept>({
  bridge: ['bridge', optionalText],
  subnet: ['subnet', optionalText],
  places: ['places', listOf(byKind<AcceptPlace>({ iptables, nft, firewalld }))],
})

const markAccept = stored<MarkAccept>({
  mark: ['mark', only<number>(Number.isInteger)],
  places: ['places', listOf(byKind<ChainPlace>({ iptables, nft }))],
})

/**
 * What was put for a network, from JSON text; undefined when it is none. One bridge's is one object, others are a list.
 */
export function decodeHostAccepts(json: string): readonly HostAccept[] | undefined {
  const value = parsedJson(json)
  const accepts = (Array.isArray(value) ? value : [value]).map(hostAcceptOf)
  return accepts.every((each) => each !== undefined) ? accepts : undefined
}

function hostAcceptOf(value: unknown): HostAccept | undefined {
  const { bridge, subnet, places = [] } = withoutFormat(accept, value) ?? {}
  const subject = bridge ?? subnet
  return subject === undefined ? undefined : { subject, places }
}

/** What was put for a network, as JSON text: in a list, each says its format. */
export function encodeHostAccepts(accepts: readonly HostAccept[]): string {
  const objects = accepts.map(({ subject, places }) => {
    return withFormat(accept, subject.includes('/') ? { subnet: subject, places } : { bridge: subject, places })
  })
  const [first] = objects
  return JSON.stringify(objects.length === 1 && first !== undefined && 'bridge' in first ? first : objects)
}

/** Where the accept of the mark was put, from JSON text; undefined when it is none. */
export function decodeMarkAccept(json: string): MarkAccept | undefined {
  return decodeEarlier(markAccept, json)
}

/** Where the accept of the mark was put, as JSON text. */
export function encodeMarkAccept(value: MarkAccept): string {
  return encodeFile(markAccept, value)
}
