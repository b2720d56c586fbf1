// SPDX-License-Identifier: Apache-2.0
// The keys of the upstream bridge plugin, with its checks and the defaults that `podcidr` turns on.

import { linkNameProblem, patternNameProblem, unsafeNameProblem } from '../cni/address.ts'
import { configError, type KeyPath, notA } from '../cni/error.ts'
import type { Mode } from '../model/attachment.ts'
import type { BridgeConf, IpamConf } from './net-conf.ts'
import type { RawConfig } from './schema.ts'

type RawTrunk = NonNullable<RawConfig['vlanTrunk']>[number]

const MAX_VLAN = 4094

function readName(name: string): string {
  const problem = linkNameProblem(name) ?? unsafeNameProblem(name) ?? patternNameProblem(name)
  if (problem === undefined) return name
  const hint = 'use 1 to 15 bytes: letters, digits, _, . and -, like "cni0"'
  throw notA(['bridge'], name, { id: 'bridge-name', what: `a bridge name: ${problem}`, hint })
}

function isVlan(id: number): boolean {
  return id > 0 && id <= MAX_VLAN
}

/** The VLANs of one entry; the texts are those of upstream (collectVlanTrunk). */
function trunkIds({ minID, maxID, id }: RawTrunk, path: KeyPath): readonly number[] {
  const hint = `use {"id": 100} or {"minID": 100, "maxID": 110}, 1 to ${MAX_VLAN}`
  const refuse = (message: string) => configError(path, message, { id: 'vlan-trunk', hint })
  const incomplete = 'minID and maxID should be configured simultaneously'
  if (minID !== undefined && maxID === undefined) throw refuse(`${incomplete}, maxID is missing`)
  if (minID === undefined && maxID !== undefined) throw refuse(`${incomplete}, minID is missing`)
  const ids: number[] = []
  if (minID !== undefined && maxID !== undefined) {
    if (!isVlan(minID)) throw refuse('incorrect trunk minID parameter')
    if (!isVlan(maxID)) throw refuse('incorrect trunk maxID parameter')
    if (maxID < minID) throw refuse('minID is greater than maxID in trunk parameter')
    for (let vlan = minID; vlan <= maxID; vlan++) ids.push(vlan)
  }
  if (id !== undefined && !isVlan(id)) throw refuse('incorrect trunk id parameter')
  return id === undefined ? ids : [...ids, id]
}

function readTrunk(raw: readonly RawTrunk[] | undefined): readonly number[] | undefined {
  if (raw === undefined) return undefined
  // An entry may stand for 4094 VLANs: only the distinct ones are kept.
  const ids = new Set<number>()
  for (const [index, entry] of raw.entries()) for (const id of trunkIds(entry, ['vlanTrunk', index])) ids.add(id)
  return [...ids].sort((a, b) => a - b)
}

/**
 * Hairpin as configured. Where only `podcidr` asks for it, it is left off where it cannot work or has
 * no use: without addresses, with VLANs (the reflected frame would be retagged), with promiscuous mode.
 */
function readHairpin(raw: RawConfig, ipam: IpamConf): boolean {
  if (raw.hairpinMode === true && raw.promiscMode === true) {
    const message = 'cannot set hairpin mode and promiscuous mode at the same time'
    const hint = 'use one of hairpinMode and promiscMode; both reflect frames to their port'
    throw configError(['hairpinMode'], message, { id: 'hairpin-and-promiscuous', hint })
  }
  if (raw.hairpinMode !== undefined) return raw.hairpinMode
  const isPlain = (raw.vlan ?? 0) === 0 && raw.vlanTrunk === undefined && raw.promiscMode !== true
  return raw.podcidr !== undefined && ipam.kind !== 'none' && isPlain
}

/**
 * Settings of an interface that is made. isDefaultGateway implies isGateway; `podcidr` turns both on unless a key says
 * otherwise. Throws CniError invalidConfig.
 */
export function readInterface(raw: RawConfig, ipam: IpamConf) {
  if (raw.disableContainerInterface === true && ipam.kind !== 'none') {
    const message = 'cannot use IPAM when DisableContainerInterface flag is set'
    const hint = 'use it without ipam and podcidr'
    throw configError(['disableContainerInterface'], message, { id: 'ipam-without-interface', hint })
  }
  const isDefaultGateway = raw.isDefaultGateway ?? (raw.podcidr !== undefined && raw.isGateway !== false)
  return {
    isGateway: isDefaultGateway || raw.isGateway === true,
    isDefaultGateway,
    enabledad: raw.enabledad ?? false,
    disableContainerInterface: raw.disableContainerInterface ?? false,
  }
}

export function readBridge(raw: RawConfig, ipam: IpamConf): BridgeConf {
  const vlanTrunk = readTrunk(raw.vlanTrunk)
  return {
    name: readName(raw.bridge ?? 'cni0'),
    forceAddress: raw.forceAddress ?? false,
    hairpinMode: readHairpin(raw, ipam),
    promiscMode: raw.promiscMode ?? false,
    vlan: raw.vlan ?? 0,
    ...(vlanTrunk === undefined ? {} : { vlanTrunk }),
    preserveDefaultVlan: raw.preserveDefaultVlan ?? false,
    macspoofchk: raw.macspoofchk ?? false,
    portIsolation: raw.portIsolation ?? false,
  }
}

/** The mode without the key. `isBehind`: another plugin has made the interface. */
export function usualMode(isBehind: boolean): Mode {
  return isBehind ? 'chained' : 'bridge'
}
