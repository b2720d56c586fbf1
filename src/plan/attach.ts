// SPDX-License-Identifier: Apache-2.0
// The operations that make one attachment, in order. ADD runs them without looking; CHECK and
// repair compare them with the kernel (difference.ts).

import type { Route } from '../cni/net-conf.ts'
import type { AttachmentSpec, BridgePort, LinkEnd } from './attachment.ts'
import { elementOps, localnetOps, ownPortElements, sharedPortElements } from './host-ports.ts'
import { aliasOf } from './names.ts'
import type { Op } from './op.ts'

/** The host's side: the veth pair and its bridge port. */
export function hostOps(spec: AttachmentSpec): readonly Op[] {
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
      ...(spec.port ? { master: spec.port.bridge } : {}),
      why: `create ${pod.name} in the pod with ${host.name} on the host`,
    },
    { in: 'host', kind: 'link.alias', dev: host.name, alias: aliasOf(spec.key), why: `mark ${host.name} as ours` },
    ...(spec.port ? [portFlags(host, spec.port)] : []),
  ]
}

/** A port that lost its bridge, put back. */
export function portOps(spec: AttachmentSpec): readonly Op[] {
  if (spec.host === undefined || spec.port === undefined) return []
  const { bridge } = spec.port
  return [
    {
      in: 'host',
      kind: 'port.master',
      dev: spec.host.name,
      master: bridge,
      why: `plug ${spec.host.name} into ${bridge}`,
    },
    portFlags(spec.host, spec.port),
  ]
}

/**
 * The pod's side. Default routes come last, each alone: where the pod has one already, the rest is
 * in place. The look at what default routes there were comes first, before ours can be among them.
 */
export function podOps(spec: AttachmentSpec): readonly Op[] {
  const { pod } = spec
  if (pod === undefined || spec.podLinkDown) return []
  const dev = pod.name
  return [
    { in: 'pod', kind: 'link.up', dev: 'lo', why: 'set lo up in the pod' },
    ...spec.defaultRoutes.map((route): Op => showDefault(route)),
    ...spec.ips.map(
      (ip): Op => ({
        in: 'pod',
        kind: 'addr.replace',
        dev,
        cidr: ip.address,
        dad: spec.dad,
        why: `add ${ip.address} to ${dev}`,
      }),
    ),
    { in: 'pod', kind: 'link.up', dev, why: `set ${dev} up in the pod` },
    ...spec.routes.map((route): Op => routeOp(route, dev)),
    ...spec.ips.flatMap((ip): readonly Op[] => announce(ip.address, dev)),
    ...spec.defaultRoutes.map((route): Op => routeOp(route, dev, true)),
  ]
}

/** The pod's own elements of our rules, and those its link shares with other pods. */
export function attachmentRuleOps(spec: AttachmentSpec): readonly Op[] {
  const { hostPorts } = spec
  return hostPorts === undefined ? [] : elementOps([...sharedPortElements(hostPorts), ...ownPortElements(hostPorts)])
}

/** Settings that may only follow the rules which guard them. */
export function afterRuleOps(spec: AttachmentSpec): readonly Op[] {
  return spec.hostPorts === undefined ? [] : localnetOps(spec.hostPorts)
}

/** The operations that leave nothing of the attachment: what is in the pod goes with the host end. */
export function detachOps(spec: AttachmentSpec): readonly Op[] {
  const { host, hostPorts } = spec
  const link: Op[] =
    host === undefined ? [] : [{ in: 'host', kind: 'link.del', dev: host.name, why: `remove ${host.name}` }]
  return [...link, ...(hostPorts === undefined ? [] : elementOps(ownPortElements(hostPorts), 'nft.del'))]
}

function portFlags(host: LinkEnd, port: BridgePort): Op {
  const { hairpin, isolated } = port
  return {
    in: 'host',
    kind: 'port.flags',
    dev: host.name,
    hairpin,
    isolated,
    why: `set hairpin and isolation of ${host.name}`,
  }
}

function showDefault(route: Route): Op {
  const family = route.dst.includes(':') ? 6 : 4
  return { in: 'pod', kind: 'route.show-default', family, why: `see the pod's IPv${family} default routes` }
}

function routeOp(route: Route, dev: string, onlyIfNone = false): Op {
  const via = route.gw === undefined ? '' : ` via ${route.gw}`
  return { in: 'pod', kind: 'route.add', dev, route, onlyIfNone, why: `add the route to ${route.dst}${via}` }
}

function announce(cidr: string, dev: string): readonly Op[] {
  // IPv6 neighbours: the gateway learns from the pod's first solicitation, and the MAC follows the address.
  if (cidr.includes(':')) return []
  const address = cidr.slice(0, cidr.indexOf('/'))
  return [{ in: 'pod', kind: 'neigh.announce', dev, address, why: `announce ${address}` }]
}
