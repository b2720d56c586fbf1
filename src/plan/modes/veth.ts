// SPDX-License-Identifier: Apache-2.0
// The operations for a veth pair, by which bridge and ptp connect a pod: one end on the host, the other in the pod.

import { familyOf } from '../../cni/model/address.ts'
import type { AttachmentSpec, LinkEnd } from '../model/attachment.ts'
import { aliasOf } from '../model/names.ts'
import type { Op } from '../model/op.ts'

/** The pair, its host end marked as ours. Nothing of a record that has no links. */
export function vethOps(spec: AttachmentSpec): readonly Op[] {
  const { host, pod } = spec
  if (host === undefined || pod === undefined) return []
  return [
    {
      in: 'host',
      kind: 'veth.add',
      name: host.name,
      mac: host.mac,
      mtu: spec.mtu,
      peer: pod.name,
      peerMac: pod.mac,
      peerMtu: pod.mtu ?? spec.mtu,
      ...(spec.port ? { master: spec.port.bridge } : {}),
      why: `create ${pod.name} in the pod with ${host.name} on the host`,
    },
    markOp(spec, host),
  ]
}

/** Marks the host end: a person and `gc` see whose it is. */
export function markOp(spec: AttachmentSpec, { name }: LinkEnd): Op {
  const noLinkLocal = spec.ips.some(({ address }) => familyOf(address) === 6)
  return {
    in: 'host',
    kind: 'link.alias',
    dev: name,
    alias: aliasOf(spec.key),
    noLinkLocal,
    why: `mark ${name} as ours`,
  }
}
