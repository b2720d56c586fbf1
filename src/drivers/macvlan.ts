// SPDX-License-Identifier: Apache-2.0
// mode `macvlan`: the pod's interface is on a link of the host, with a MAC of its own. The pod is a neighbour of that
// link's neighbours: nothing of it is on the host, which forwards nothing for it and does not reach it.

import { CniError, Code } from '../cni/errors.ts'
import type { MacvlanConf } from '../config/network-conf.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import { type Op, setLink } from '../kernel/operation.ts'
import type { Decided, Device, Driver, Parts } from './driver.ts'
import { inPodAlone } from './interface.ts'
import { podLinkGroup, temporaryLinkName } from './names.ts'
import type { Spec } from './spec.ts'

function partsOf(conf: MacvlanConf, { id, mac, routes, defaultRoutes, device }: Decided): Parts {
  const mode = conf.macvlanMode
  const link = usableMaster(device)
  const mtu = conf.mtu === 'auto' ? link.mtu : conf.mtu
  requireNoLargerMtu(mtu, link, 'mtu')
  requireNoLargerMtu(conf.tuning?.mtu ?? 0, link, 'tuning.mtu')
  return {
    // With passthru the kernel gives it the master's MAC, whatever is asked for (drivers/net/macvlan.c).
    pod: { name: id.ifName, mac: mode === 'passthru' ? link.mac : mac, mtu: conf.tuning?.mtu ?? mtu },
    macvlan: { master: link.name, mode },
    routes,
    defaultRoutes,
  }
}

/** Under another name: before Linux 6.14 the kernel also looks for the name in our namespace (net/core/rtnetlink.c). */
function hostOps({ id, pod, macvlan: on }: Spec): readonly Op[] {
  if (pod === undefined || on === undefined) return []
  const made = { name: temporaryLinkName(id), mac: pod.mac, mtu: pod.mtu, ...on, group: podLinkGroup(id) }
  return [{ place: 'host', kind: 'macvlan.add', ...made, why: `create ${pod.name} in the pod on ${on.master}` }]
}

function nameOps({ id, pod, macvlan: on }: Spec): readonly Op[] {
  if (pod === undefined || on === undefined) return []
  const dev = temporaryLinkName(id)
  return [setLink('pod', dev, { name: pod.name }, `call the new interface ${pod.name}`)]
}

/** By its group: an ADD that was killed or refused the name left it under another one. */
function undoInPod({ id }: Spec): readonly Op[] {
  const about = { place: 'pod', tolerate: 'absent', why: `remove ${id.ifName} from the pod` } as const
  return [{ ...about, kind: 'group.delete', group: podLinkGroup(id), devs: [] }]
}

function usableMaster(master: Device | undefined): ObservedLink {
  const { name = '', link } = master ?? {}
  if (link === undefined) {
    const why =
      name === '' ? 'none is given, and no interface has a default route' : `the node has no interface ${name}`
    const details = 'name the interface of the node that the pods are to be on: "master": "eth0"; see ip -br link'
    throw new CniError(Code.invalidConfig, 'master-not-there', `master: ${why}`, { details })
  }
  if (name === 'lo') throw unusableMaster(name, 'it is the loopback interface')
  return link
}

function requireNoLargerMtu(mtu: number, link: ObservedLink, key: string): void {
  if (mtu <= link.mtu) return
  const message = `${key}: ${mtu} is more than the ${link.mtu} of master ${link.name}`
  throw new CniError(Code.invalidConfig, 'mtu-above-master', message, { details: `use "auto", or at most ${link.mtu}` })
}

function unusableMaster(name: string, why: string, more = '', cause?: Error): CniError {
  return new CniError(Code.invalidConfig, 'master-unusable', `master: ${name} can have no macvlan: ${why}`, {
    details: `${more}use a wired Ethernet interface, a bond, a VLAN or a bridge of the node; see ip -d link show ${name}`,
    cause,
  })
}

export const macvlan: Driver<MacvlanConf> = {
  ...inPodAlone,
  deviceOf: ({ master }) => ({ key: 'master', ...(master === undefined ? {} : { value: master }) }),
  partsOf,
  hostOps,
  nameOps,
  undoInPod,
  refusalOf: ({ macvlan: on }, { op, reason, error }) => {
    if (op.kind !== 'macvlan.add' || (reason !== 'busy' && reason !== 'invalid')) return undefined
    const busy = 'it is a port of a bridge or bond, or has an ipvlan'
    const why = reason === 'busy' ? busy : 'it is no Ethernet, or has a passthru'
    return unusableMaster(on?.master ?? '', why, `${error.details ?? ''}\n`, error)
  },
}
