// SPDX-License-Identifier: Apache-2.0
// Where accepts were put for us in other firewalls: NETWORK-accept.json, and accept.json of the machine. What is in
// them is put into commands: places are checked closely.

import type { ChainPlace, MarkAccept, ZoneMember } from '../rules/host-accept.ts'
import { byKind, listOf, only, stored, text } from './stored.ts'
import { decodeFile, encodeFile } from './versioned.ts'

type IptablesPlace = Omit<Extract<ChainPlace, { kind: 'iptables' }>, 'table'>

const textLike = <T extends string = string>(pattern: RegExp) =>
  only<T>((value) => typeof value === 'string' && pattern.test(value))

const name = textLike(/^[^\s"';{}#]+$/)

/** Its program is started: only the variants that we ask for a FORWARD chain. */
const iptables = stored<IptablesPlace>({
  kind: ['kind', textLike(/^iptables$/)],
  program: ['program', textLike(/^ip6?tables(-nft|-legacy)?$/)],
  chain: ['chain', textLike(/^[^-\s"';{}#][^\s"';{}#]*$/)],
})

const nft = stored<Extract<ChainPlace, { kind: 'nft' }>>({
  kind: ['kind', textLike(/^nft$/)],
  family: ['family', name],
  table: ['table', name],
  chain: ['chain', name],
})

const zones = stored<{ readonly zones: readonly ZoneMember[] }>({
  zones: ['zones', listOf(stored<ZoneMember>({ subject: ['subject', text], zone: ['zone', name] }))],
})

const markAccept = stored<MarkAccept>({
  mark: ['mark', only<number>(Number.isInteger)],
  places: ['places', listOf(byKind<ChainPlace>({ iptables, nft }))],
})

/** The zones of a network's bridge or subnets, from JSON text; undefined when it is none. */
export function decodeZones(json: string): readonly ZoneMember[] | undefined {
  return decodeFile(zones, json)?.zones
}

/** The zones of a network's bridge or subnets, as JSON text. */
export function encodeZones(members: readonly ZoneMember[]): string {
  return encodeFile(zones, { zones: members })
}

/** Where the accept of the mark was put, from JSON text; undefined when it is none. */
export function decodeMarkAccept(json: string): MarkAccept | undefined {
  return decodeFile(markAccept, json)
}

/** Where the accept of the mark was put, as JSON text. */
export function encodeMarkAccept(value: MarkAccept): string {
  return encodeFile(markAccept, value)
}
