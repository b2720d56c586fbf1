// SPDX-License-Identifier: Apache-2.0
// What the attachments of a network share, as network.json, chained.json and records have it on disk.

import type { BridgeSpec, FormerGateway, NetworkSpec, VlanGateway } from '../model/attachment.ts'
import {
  flag,
  listOf,
  number,
  only,
  optional,
  optionalText,
  optionalTexts,
  optionalWord,
  stored,
  text,
  texts,
  wordOr,
} from './stored.ts'
import { family } from './stored-attachment.ts'
import { decodeFile, encodeFile } from './versioned.ts'

const gateway = stored<VlanGateway>({
  name: ['name', text],
  mac: ['mac', text],
  peer: ['peer', text],
  vlan: ['vlan', number],
})

const bridge = stored<BridgeSpec>({
  name: ['name', text],
  mac: ['mac', text],
  mtu: ['mtu', number],
  addresses: ['addresses', texts],
  forceAddress: ['forceAddress', flag],
  promisc: ['promisc', flag],
  vlanFiltering: ['vlanFiltering', flag],
  gateway: ['gateway', optional(gateway)],
})

const formerGateway = stored<FormerGateway>({ bridge: ['bridge', text], address: ['address', text] })

const masquerade = stored<NonNullable<NetworkSpec['masquerade']>>({
  subnets: ['subnets', texts],
  noMasquerade: ['keep', texts],
})

const newConnections = stored<Exclude<NetworkSpec['acceptNew'], 'none' | undefined>>({
  to: ['to', texts],
  from: ['from', texts],
})

const acceptNew = wordOr('none', newConnections)

const bit = only<number>((value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 31)

export const network = stored<NetworkSpec>({
  name: ['name', text],
  bridge: ['bridge', optional(bridge)],
  forwarding: ['forwarding', listOf(family)],
  masquerade: ['masquerade', optional(masquerade)],
  hairpin: ['hairpin', optionalTexts],
  ingressPolicy: ['fence', optionalWord],
  ingressPolicyLink: ['fenceOn', optionalText],
  hostAccept: ['hostAccept', optionalText],
  acceptSubnets: ['acceptSubnets', optionalTexts],
  ranges: ['ranges', optionalTexts],
  excluded: ['excluded', optionalTexts],
  formerGateways: ['formerGateways', optional(listOf(formerGateway))],
  acceptNew: ['acceptNew', optional(acceptNew)],
  acceptMarkBit: ['acceptMarkBit', optional(bit)],
  firewalldZone: ['firewalldZone', optionalText],
  removeWhenEmpty: ['removeWhenEmpty', flag],
})

/** What a network's attachments share, from the text of network.json or chained.json; undefined when it is none. */
export function decodeNetwork(json: string): NetworkSpec | undefined {
  return decodeFile(network, json)
}

/** The text of network.json or chained.json. */
export function encodeNetwork(spec: NetworkSpec): string {
  return encodeFile(network, spec)
}
