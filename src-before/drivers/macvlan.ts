// SPDX-License-Identifier: Apache-2.0
// mode `macvlan`: the pod's interface is on a link of the host, with a MAC of its own, as the upstream macvlan plugin
// makes it (docs/design.md, "Upstream macvlan"). The pod is a neighbour of that link's neighbours: nothing of it is on
// the host, which forwards nothing for it and does not reach it.

import { CniError } from '../cni/error.ts'
import type { MacvlanNetConf } from '../config/net-conf.ts'
import { subnetRoutes } from '../features/sbr.ts'
import type { AttachmentKey, AttachmentSpec } from '../model/attachment.ts'
import { newPodLinkName, podLinkGroup } from '../model/names.ts'
import type { ObservedLink } from '../model/observed.ts'
import type { Op } from '../model/op.ts'
import type { Decided, Device, InterfaceDriver, OwnParts, Refused } from './driver.ts'
import { inPodAlone, interfacePodOps } from './interface.ts'

function partsOf(conf: MacvlanNetConf, { mac, ips, given, device }: Decided): OwnParts {
  const { mode } = conf.macvlan
  const link = usable(device, mode)
  const mtu = conf.mtu === 'auto' ? link.mtu : conf.mtu
  requireNoMore(mtu, link, 'mtu')
  requireNoMore(conf.tuning?.mtu ?? 0, link, 'tuning.mtu')
  return {
    // The kernel gives it the master's MAC, whatever MAC is asked for (drivers/net/macvlan.c, macvlan_common_newlink).
    mac: mode === 'passthru' ? link.mac : mac,
    mtu,
    only: { macvlan: { master: link.name, mode } },
    routes: given,
    subnetRoutes: ips.flatMap(subnetRoutes),
    selfHairpin: false,
  }
}

function hostOps({ key, pod, macvlan: on, mtu }: AttachmentSpec): readonly Op[] {
  if (pod === undefined || on === undefined) return []
  return [
    {
      in: 'host',
      kind: 'macvlan.add',
      dev: on.master,
      name: newPodLinkName(key),
      ifName: pod.name,
      mac: pod.mac,
      mtu: pod.mtu ?? mtu,
      group: podLinkGroup(key),
      mode: on.mode,
      why: `create ${pod.name} in the pod on ${on.master}`,
    },
  ]
}

function nameOps({ key, pod }: AttachmentSpec): readonly Op[] {
  if (pod === undefined) return []
  const { name } = pod
  return [{ in: 'pod', kind: 'link.name', dev: newPodLinkName(key), name, why: `call the new interface ${name}` }]
}

/** Removes the interface by its group: an ADD that was killed, or refused the name, left it under another name. */
function podTeardownOps(spec: AttachmentSpec): readonly Op[] {
  const removal: Op = {
    in: 'pod',
    kind: 'group.del',
    group: podLinkGroup(spec.key),
    why: `remove ${spec.key.ifName} from the pod`,
  }
  return [removal]
}

function specSeen(key: AttachmentKey, link: ObservedLink | undefined): AttachmentSpec | undefined {
  if (link?.kind !== 'macvlan') return undefined
  const nothing = { ips: [], routes: [], defaultRoutes: [], podLinkDown: false, dad: false, selfHairpin: false }
  return { key, mode: 'macvlan', mtu: link.mtu, ...nothing, isPool: false, cooldownS: 0 }
}

function usable(master: Device | undefined, mode: string): ObservedLink {
  const { name = '', link, isWireless = false } = master ?? {}
  if (link === undefined) throw missing(name)
  if (name === 'lo') throw unusable(name, 'it is the loopback interface')
  if (isWireless && mode !== 'passthru') throw unusable(name, 'an access point takes no frames of other MACs from it')
  return link
}

function requireNoMore(mtu: number, link: ObservedLink, key: string): void {
  if (mtu <= link.mtu) return
  throw new CniError('mtu-above-master', `${key}: ${mtu} is more than the ${link.mtu} of master ${link.name}`, {
    details: `use "auto", or at most ${link.mtu}`,
  })
}

function missing(name: string): CniError {
  if (name === '')
    return new CniError('master-not-there', 'master: none is given, and no interface has a default route', {
      details: 'name the interface of the node that the pods are to be on: "master": "eth0"',
    })
  return new CniError('master-not-there', `master: the node has no interface ${name}`, {
    details: 'see what it has: ip -br link',
  })
}

function unusable(name: string, why: string): CniError {
  return new CniError('master-unusable', `master: ${name} can have no macvlan: ${why}`, {
    details: 'use a wired Ethernet interface, a bond, a VLAN or a bridge of the node',
  })
}

/** The kernel refused to put an interface on the master. */
function refusalOf({ macvlan: on }: AttachmentSpec, { op, reason, error: cause }: Refused): CniError | undefined {
  if (op.kind !== 'macvlan.add' || (reason !== 'busy' && reason !== 'invalid')) return undefined
  const why =
    reason === 'busy' ? 'it is a port of a bridge or bond, or has an ipvlan' : 'it is no Ethernet, or has a passthru'
  return new CniError('master-unusable', `master: ${on?.master} can have no macvlan: ${why}`, {
    details:
      `${cause instanceof CniError ? `${cause.details}\n` : ''}see what is on it: ` +
      `ip -d link show ${on?.master}; use another master, or the bridge for its port`,
    cause,
  })
}

export const macvlan: InterfaceDriver<MacvlanNetConf> = {
  ...inPodAlone,
  hostOps,
  nameOps,
  podOps: (spec) => interfacePodOps(spec, false),
  podTeardownOps,
  specSeen,
  refusalOf,
  deviceOf: ({ macvlan: { master } }) => ({ key: 'master', ...(master === undefined ? {} : { value: master }) }),
  partsOf,
}
