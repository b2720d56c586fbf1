// SPDX-License-Identifier: Apache-2.0
// Host ports: one map element for each port and family, whatever the number of ports on the machine. On any address:
// `tcp . 8080 : 10.1.2.3 . 80` in anyports4; on one of the node's: `192.0.2.1 . tcp . 8080 : …` in ports4.

import { bareAddress, familyOf, formatAddress, parseAddress } from '../cni/addresses.ts'
import { configError, type KeyPath, notA, unsupported } from '../cni/errors.ts'
import type { OwnConf, PortMapping } from '../config/network-conf.ts'
import type { RawConfig } from '../config/schema.ts'
import type { HostPort, HostPorts, PodAddress } from '../drivers/spec.ts'
import { setSysctl } from '../kernel/operation.ts'
import type { BareElement, Feature } from './feature.ts'

type RawMapping = NonNullable<NonNullable<RawConfig['runtimeConfig']>['portMappings']>[number]

/** The host ports, each once. Throws CniError 7, also for one port with two targets. */
export function readPortMappings(raw: readonly RawMapping[] | undefined): readonly PortMapping[] {
  const mappings = new Map<string, PortMapping>()
  const byPort = new Map<string, PortMapping>()
  for (const [index, entry] of (raw ?? []).entries()) {
    const path = ['runtimeConfig', 'portMappings', index]
    const mapping = readMapping(entry, path)
    // Without an address it takes the port of every address of both families.
    const ips = mapping.hostIP === undefined ? ['0.0.0.0', '::'] : [mapping.hostIP]
    const names = ips.map((ip) => `${mapping.protocol} ${mapping.hostPort} ${ip}`)
    for (const name of names) {
      const other = byPort.get(name)
      if (other !== undefined && other.containerPort !== mapping.containerPort) {
        const hint = `use one container port, ${other.containerPort} or ${mapping.containerPort}`
        const message = `host port ${mapping.hostPort}/${mapping.protocol} is given twice`
        throw configError(path, message, { id: 'port-mapped-twice', hint })
      }
      byPort.set(name, mapping)
    }
    mappings.set(names.join(), mapping)
  }
  return [...mappings.values()]
}

function readMapping(raw: RawMapping, path: KeyPath): PortMapping {
  const incomplete = { id: 'port-mapping-incomplete', hint: 'use a port from 1 to 65535' }
  if (raw.hostPort === undefined) throw configError([...path, 'hostPort'], 'missing', incomplete)
  if (raw.containerPort === undefined) throw configError([...path, 'containerPort'], 'missing', incomplete)
  const protocol = (['tcp', 'udp', 'sctp'] as const).find((word) => word === (raw.protocol || 'tcp').toLowerCase())
  if (protocol === undefined) {
    const hint = 'use "tcp", "udp" or "sctp"'
    throw notA([...path, 'protocol'], raw.protocol, { id: 'port-protocol', what: 'a protocol', hint })
  }
  const mapping = { hostPort: raw.hostPort, containerPort: raw.containerPort, protocol }
  if (raw.hostIP === undefined || raw.hostIP === '') return mapping
  // 0.0.0.0 and :: stay: each means every address of its own family only.
  const hostIP = parseAddress(raw.hostIP)
  if (hostIP !== undefined) return { ...mapping, hostIP: formatAddress(hostIP) }
  const hint = 'use one like "192.0.2.1", or leave it out'
  throw notA([...path, 'hostIP'], raw.hostIP, { id: 'port-host-ip', what: 'an IP address', hint })
}

/** Keys of the iptables backend are accepted where leaving them out changes nothing. Throws CniError 2 for the others. */
export function readPortmap(raw: RawConfig['portmap']): OwnConf['portmap'] {
  const refuse = (key: keyof NonNullable<RawConfig['portmap']>, hint: string) => {
    throw unsupported(['portmap', key], raw?.[key], `leave it out${hint}`)
  }
  if (!['', 'iptables', 'nftables'].includes(raw?.backend ?? '')) refuse('backend', ': trestle uses nftables')
  for (const key of ['conditionsV4', 'conditionsV6'] as const)
    if (raw?.[key]?.length) refuse(key, ', and limit who reaches the port in a firewall of the node')
  for (const key of ['externalSetMarkChain', 'markMasqBit'] as const)
    if (raw?.[key] !== undefined && raw[key] !== '') refuse(key, ': trestle masquerades itself')
  return { snat: raw?.snat ?? true, masqAll: raw?.masqAll ?? false }
}

/** The pod's host ports; a port is served in each family that the pod has. `link`: the way of packets to the pod. */
export function hostPortsOf(
  { portMappings, portmap }: Pick<OwnConf, 'portMappings' | 'portmap'>,
  ips: readonly PodAddress[],
  { link, isOwnLink }: Pick<HostPorts, 'link' | 'isOwnLink'>,
): HostPorts | undefined {
  const ports = portMappings.flatMap((mapping) => portsOf(mapping, ips))
  return ports.length === 0 ? undefined : { link, isOwnLink, ...portmap, ports }
}

function portsOf(
  { protocol, hostPort, containerPort, hostIP }: PortMapping,
  ips: readonly PodAddress[],
): readonly HostPort[] {
  const hostIp = hostIP === undefined ? undefined : parseAddress(hostIP)
  const ports: HostPort[] = []
  for (const family of [4, 6] as const) {
    const ip = ips.find(({ address }) => familyOf(address) === family)
    if (ip === undefined || (hostIp !== undefined && hostIp.family !== family)) continue
    const isAny = hostIp === undefined || hostIp.value === 0n
    const port = { family, protocol, hostPort, podIp: bareAddress(ip.address), containerPort }
    ports.push(isAny || hostIP === undefined ? port : { ...port, hostIp: hostIP })
  }
  return ports
}

export const hostPorts: Feature = {
  elements: ({ hostPorts: own }) => {
    const elements: BareElement[] = []
    for (const { family, protocol, hostPort, hostIp, podIp, containerPort } of own?.ports ?? []) {
      const value = [podIp, `${containerPort}`]
      if (hostIp === undefined) elements.push({ set: `anyports${family}`, key: [protocol, `${hostPort}`], value })
      else elements.push({ set: `ports${family}`, key: [hostIp, protocol, `${hostPort}`], value })
      if (own?.masqAll) elements.push({ set: `masqall${family}`, key: [podIp, protocol, `${containerPort}`] })
    }
    return elements
  },
  // 127.0.0.1 of the node reaches a pod only by a link with route_localnet (net/ipv4/route.c, __mkroute_output). It is
  // written after the rule that closes it for the pods themselves.
  ops: ({ hostPorts: own }) => {
    if (!hasLocalnet(own)) return []
    const key = `net/ipv4/conf/${own.link}/route_localnet`
    return [setSysctl('host', key, '1', 'last', `let 127.0.0.1 reach host ports through ${own.link}`)]
  },
}

/** Whether the node's 127.0.0.1 is to reach the ports. There is no such way for ::1. */
function hasLocalnet(own: HostPorts | undefined): own is HostPorts {
  return own?.snat === true && own.ports.some(({ family }) => family === 4)
}

/** What guards a link with route_localnet. On a link that pods share it stays when the last port is gone. */
export function loopbackGuard(own: HostPorts | undefined): readonly BareElement[] {
  return hasLocalnet(own) ? [{ set: 'loopback', key: [own.link] }] : []
}
