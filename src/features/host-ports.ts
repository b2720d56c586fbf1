// SPDX-License-Identifier: Apache-2.0
// Host ports: one map element per port and family, whatever the number of ports on the machine. On any address:
// `tcp . 8080 : 10.1.2.3 . 80` in anyports4; on one of the node's: `192.0.2.1 . tcp . 8080 : …` in ports4. What the
// upstream portmap does with a dozen rules per pod (docs/design.md, "Upstream portmap").

import { bareAddress, familyOf, isUnspecified, parseAddress } from '../cni/address.ts'
import type { FeatureConf, PortMapping } from '../config/net-conf.ts'
import type { HostPort, HostPortSpec, PodAddress } from '../model/attachment.ts'
import type { Element } from '../model/elements.ts'
import type { Op } from '../model/op.ts'
import type { Feature } from './feature.ts'
import { hairpinLink } from './hairpin.ts'
import { conditionalPortElements, conditionOps, portKey } from './port-conditions.ts'

/** The pod's host ports, or undefined when it asks for none. A port is served in each family the pod has. */
export function hostPortSpec(conf: FeatureConf, ips: readonly PodAddress[], link: string): HostPortSpec | undefined {
  const ports = conf.portMappings.flatMap((mapping) => hostPortsOf(mapping, ips))
  if (ports.length === 0) return undefined
  const { snat = true, masqAll = false, conditionsV4 = [], conditionsV6 = [] } = conf.portmap ?? {}
  return {
    link,
    snat,
    masqAll,
    ...(conditionsV4.length > 0 ? { conditionsV4 } : {}),
    ...(conditionsV6.length > 0 ? { conditionsV6 } : {}),
    ports,
  }
}

/** The elements of the pod alone: gone with the pod. */
export function ownPortElements(spec: HostPortSpec): readonly Element[] {
  const translated = spec.ports.flatMap((port) => [toElement(port), ...(spec.masqAll ? [masqAllElement(port)] : [])])
  return [...conditionalPortElements(spec), ...translated]
}

/** What the pods of a link share: the guard of its loopback addresses. */
export function commonPortElements(spec: HostPortSpec): readonly Element[] {
  return spec.snat ? [loopbackGuard(spec.link)] : []
}

/** Guards the node's loopback addresses from the pods behind `link`. */
export function loopbackGuard(link: string): Element {
  return { set: 'loopback', key: [link] }
}

/**
 * 127.0.0.1 on the node reaches a pod only through a link with route_localnet (net/ipv4/route.c,
 * __mkroute_output). Written after the guard's rule is there, which closes it for the pods.
 */
export function localnetOps(spec: HostPortSpec): readonly Op[] {
  const hasIpv4 = spec.ports.some((port) => port.family === 4)
  if (!spec.snat || !hasIpv4) return []
  const key = `net/ipv4/conf/${spec.link}/route_localnet`
  return [
    { in: 'host', kind: 'sysctl.write', key, value: '1', why: `let 127.0.0.1 reach host ports through ${spec.link}` },
  ]
}

/** The name a port is reserved under, node-wide: `tcp:8080:4:any`. */
export function reservationName(port: HostPort): string {
  return `${port.protocol}:${port.hostPort}:${port.family}:${port.hostIp ?? 'any'}`
}

/** A reservation name without its address: names that differ here never conflict. */
export function portOf(name: string): string {
  return name.split(':', 3).join(':')
}

/** Whether two reservation names ask for the same packets: an address is part of "any". */
export function isPortConflict(a: string, b: string): boolean {
  const port = portOf(a)
  const addresses = [a, b].map((name) => name.slice(port.length + 1))
  return portOf(b) === port && (addresses[0] === addresses[1] || addresses.includes('any'))
}

/** One mapping as host ports, one for each family that the pod has. */
export function hostPortsOf(mapping: PortMapping, ips: readonly PodAddress[]): readonly HostPort[] {
  const hostIp = mapping.hostIP === undefined ? undefined : parseAddress(mapping.hostIP)
  return ([4, 6] as const).flatMap((family) => {
    const ip = ips.find(({ address }) => familyOf(address) === family)
    if (ip === undefined || (hostIp !== undefined && hostIp.family !== family)) return []
    const { protocol, hostPort, containerPort } = mapping
    const podIp = bareAddress(ip.address)
    const isAny = hostIp === undefined || isUnspecified(hostIp)
    return [
      {
        family,
        protocol,
        hostPort,
        containerPort,
        podIp,
        ...(isAny || mapping.hostIP === undefined ? {} : { hostIp: mapping.hostIP }),
      },
    ]
  })
}

function toElement(port: HostPort): Element {
  const value = [port.podIp, String(port.containerPort)]
  return { set: `${port.hostIp === undefined ? 'anyports' : 'ports'}${port.family}`, key: portKey(port), value }
}

function masqAllElement(port: HostPort): Element {
  return { set: `masqall${port.family}`, key: [port.podIp, port.protocol, String(port.containerPort)] }
}

export const hostPorts: Feature = {
  chainOps: ({ hostPorts: ports }) => (ports === undefined ? [] : conditionOps(ports)),
  elements: ({ hostPorts: ports }) => (ports === undefined ? [] : ownPortElements(ports)),
  afterRuleOps: ({ hostPorts: ports }) => (ports === undefined ? [] : localnetOps(ports)),
}

/** A chained attachment's network has no bridge of its own: the way to the pods is what they have in common. */
export const hostPortGuard: Feature = {
  elements: ({ hostPorts: ports }, isLinkOwn) => (ports === undefined || !isLinkOwn ? [] : commonPortElements(ports)),
  commonElements: ({ hostPorts: ports }) =>
    ports === undefined ? [] : [...commonPortElements(ports), ...(ports.snat ? [hairpinLink(ports.link)] : [])],
}
