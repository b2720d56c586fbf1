// SPDX-License-Identifier: Apache-2.0
// VLANs of a bridge port, as the reference bridge plugin has them: an access VLAN, a trunk, and the gateway of the VLAN on
// a veth of its own. And macspoofchk, which is a port's setting, too.

import { configError, type KeyPath } from '../cni/errors.ts'
import type { BridgeConf, BridgeKeys } from '../config/network-conf.ts'
import type { RawConfig } from '../config/schema.ts'
import { ownBridgeAlias, shortLinkName, vlanGatewayMac } from '../drivers/names.ts'
import type { BridgeSpec, PortVlans, VlanGateway } from '../drivers/spec.ts'
import { type Op, setLink } from '../kernel/operation.ts'
import type { Feature } from './feature.ts'

type RawTrunk = NonNullable<RawConfig['vlanTrunk']>[number]

const largestVlan = 4094

/** Tagged VLANs, sorted, each once. Texts as the reference's (collectVlanTrunk). Throws CniError 7. */
export function readTrunk(raw: readonly RawTrunk[] | undefined): readonly number[] | undefined {
  if (raw === undefined) return undefined
  const ids = new Set<number>()
  for (const [index, entry] of raw.entries()) addTrunkIds(ids, entry, ['vlanTrunk', index])
  return [...ids].sort((a, b) => a - b)
}

function addTrunkIds(ids: Set<number>, { minID, maxID, id }: RawTrunk, path: KeyPath): void {
  const hint = `use {"id": 100} or {"minID": 100, "maxID": 110}, 1 to ${largestVlan}`
  const refused = (message: string) => configError(path, message, { id: 'vlan-trunk', hint })
  const isVlan = (vlan: number) => vlan > 0 && vlan <= largestVlan
  const incomplete = 'minID and maxID should be configured simultaneously'
  if (minID !== undefined && maxID === undefined) throw refused(`${incomplete}, maxID is missing`)
  if (minID === undefined && maxID !== undefined) throw refused(`${incomplete}, minID is missing`)
  if (minID !== undefined && maxID !== undefined) {
    if (!isVlan(minID)) throw refused('incorrect trunk minID parameter')
    if (!isVlan(maxID)) throw refused('incorrect trunk maxID parameter')
    if (maxID < minID) throw refused('minID is greater than maxID in trunk parameter')
    for (let vlan = minID; vlan <= maxID; vlan++) ids.add(vlan)
  }
  if (id !== undefined && !isVlan(id)) throw refused('incorrect trunk id parameter')
  if (id !== undefined) ids.add(id)
}

export function portVlansOf({ vlan, vlanTrunk = [], preserveDefaultVlan }: BridgeKeys): PortVlans | undefined {
  if (vlan === 0 && vlanTrunk.length === 0) return undefined
  return { access: vlan, trunk: vlanTrunk, keepDefault: preserveDefaultVlan }
}

/** The gateway's link; undefined where the gateway is on the bridge itself. */
export function vlanGatewayOf({ bridge, isGateway }: BridgeConf): VlanGateway | undefined {
  const { vlan } = bridge
  if (vlan === 0 || !isGateway) return undefined
  const name = shortLinkName(`${bridge.name}.${vlan}`)
  return { name, mac: vlanGatewayMac(name), peer: shortLinkName(`vlan${vlan}.${bridge.name}`), vlan }
}

/** In the reference's order: the default VLAN goes, the access VLAN comes, then the trunk. */
export function portVlanOps(dev: string, { access, trunk, keepDefault }: PortVlans): readonly Op[] {
  // A trunk alone has its untagged traffic on VLAN 1.
  const untagged = access === 0 ? 1 : access
  const add = (vid: number, pvid: boolean): Op => {
    return { place: 'host', kind: 'vlan.add', dev, vid, pvid, why: `add ${dev} to VLAN ${vid}` }
  }
  const removed: readonly Op[] =
    keepDefault || untagged === 1
      ? []
      : [{ place: 'host', kind: 'vlan.delete', dev, vid: 1, tolerate: 'absent', why: `take ${dev} off VLAN 1` }]
  return [...removed, add(untagged, true), ...trunk.filter((vid) => vid !== untagged).map((vid) => add(vid, false))]
}

export function vlanGatewayOps({ name: bridge, mtu, vlanGateway }: BridgeSpec): readonly Op[] {
  if (vlanGateway === undefined) return []
  const { name, mac, peer, vlan } = vlanGateway
  const ends = { name, mac, mtu, peer: { name: peer, mac: vlanGatewayMac(peer), mtu, isInPod: false } }
  return [
    { place: 'host', kind: 'veth.add', ...ends, tolerate: 'exists', why: `create the gateway link ${name}` },
    setLink('host', name, { alias: ownBridgeAlias }, `mark ${name} as ours`),
    setLink('host', peer, { master: bridge, up: true }, `plug ${peer} into ${bridge}`),
    ...portVlanOps(peer, { access: vlan, trunk: [], keepDefault: false }),
  ]
}

/** macspoofchk: frames of the pod with another source MAC are dropped at its port. */
export const macCheck: Feature = {
  elements: ({ host, port }) =>
    host && port?.onlyMac
      ? [
          { set: 'guarded', key: [host.name] },
          { set: 'guardedmac', key: [host.name, port.onlyMac] },
        ]
      : [],
}
