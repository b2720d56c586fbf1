// SPDX-License-Identifier: Apache-2.0
// VLANs on the bridge as upstream has them: an access VLAN and a trunk per port, the gateway on
// a veth of its own in that VLAN (docs/design.md, "Upstream bridge and ptp").

import type { BridgeSpec, PortVlans, VlanGateway } from '../model/attachment.ts'
import { localMacOf, shortName } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import type { Feature } from './feature.ts'

interface VlanConf {
  readonly name: string
  readonly vlan: number
  readonly vlanTrunk?: readonly number[]
  readonly preserveDefaultVlan: boolean
}

export function portVlans(conf: VlanConf): PortVlans | undefined {
  const trunk = conf.vlanTrunk ?? []
  if (conf.vlan === 0 && trunk.length === 0) return undefined
  return { access: conf.vlan, trunk, keepDefault: conf.preserveDefaultVlan }
}

/** The gateway's link, or undefined where the gateway is on the bridge itself. */
export function vlanGateway({
  bridge,
  isGateway,
}: {
  readonly bridge: VlanConf
  readonly isGateway: boolean
}): VlanGateway | undefined {
  const { vlan } = bridge
  if (vlan === 0 || !isGateway) return undefined
  const name = shortName(`${bridge.name}.${vlan}`)
  return { name, mac: localMacOf(`gateway ${name}`), peer: shortName(`vlan${vlan}.${bridge.name}`), vlan }
}

/** The link that has the gateways of a bridge's pods: the bridge itself, or its link in a VLAN. */
export function gatewayLink({ name, gateway }: Pick<BridgeSpec, 'name' | 'gateway'>): string {
  return gateway?.name ?? name
}

/** A port's VLANs, in upstream's order: the default goes, access comes, then the trunk. */
export function portVlanOps(dev: string, vlans: PortVlans): readonly Op[] {
  const { access, trunk, keepDefault } = vlans
  // A trunk alone still has its untagged traffic on VLAN 1.
  const untagged = access === 0 ? 1 : access
  return [
    ...(keepDefault || untagged === 1 ? [] : [removal(dev, 1)]),
    addition(dev, untagged, false),
    ...trunk.filter((vid) => vid !== untagged).map((vid) => addition(dev, vid, true)),
  ]
}

export function vlanGatewayOps(bridge: BridgeSpec, gateway: VlanGateway): readonly Op[] {
  const { name, mac, peer, vlan } = gateway
  return [
    { in: 'host', kind: 'vlan.gateway', name, mac, mtu: bridge.mtu, peer, why: `create the gateway link ${name}` },
    { in: 'host', kind: 'port.master', dev: peer, master: bridge.name, why: `plug ${peer} into ${bridge.name}` },
    ...portVlanOps(peer, { access: vlan, trunk: [], keepDefault: false }),
  ]
}

function addition(dev: string, vid: number, tagged: boolean): Op {
  return { in: 'host', kind: 'vlan.add', dev, vid, tagged, why: `add ${dev} to VLAN ${vid}` }
}

function removal(dev: string, vid: number): Op {
  return { in: 'host', kind: 'vlan.del', dev, vid, why: `take ${dev} off VLAN ${vid}` }
}

// macspoofchk: frames of the pod with another source MAC than its own are dropped.

export const macCheck: Feature = {
  elements: ({ host, port }) =>
    host === undefined || port?.onlyMac === undefined
      ? []
      : [
          { set: 'guarded', key: [host.name] },
          { set: 'guardedmac', key: [host.name, port.onlyMac] },
        ],
}
