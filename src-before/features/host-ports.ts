// SPDX-License-Identifier: Apache-2.0
// Host ports: one map element per port and family, whatever the number of ports on the machine. On any address:
// `tcp . 8080 : 10.1.2.3 . 80` in anyports4; on one of the node's: `192.0.2.1 . tcp . 8080 : …` in ports4. What the
// upstream portmap does with a dozen rules per pod (docs/design.md, "Upstream portmap").

import type * as z from 'zod/mini'
import { bareAddress, familyOf, formatAddress, isUnspecified, parseAddress } from '../cni/address.ts'
import { configError, type KeyPath, notA, unsupported } from '../cni/error.ts'
import { flag, group, integer, oneOf, text, texts } from '../cni/fields.ts'
import type { HostPort, HostPortSpec, PodAddress } from '../model/attachment.ts'
import type { Element, Op } from '../model/op.ts'
import type { Feature } from './feature.ts'
import { hairpinLink, selfHairpinElements } from './masquerade.ts'
import { conditionalPortElements, conditionOps, portKey, readConditions } from './port-conditions.ts'

const port = integer(1, 65_535, 'a port')

export const portMapping = group({ hostPort: port, containerPort: port, protocol: text, hostIP: text })

export const portmapKeys = group({
  snat: flag,
  masqAll: flag,
  conditionsV4: texts,
  conditionsV6: texts,
  onListening: oneOf(['warn', 'refuse']),
  backend: text,
  markMasqBit: integer(0, 31, 'a bit'),
  externalSetMarkChain: text,
})

type RawPortmap = z.output<typeof portmapKeys>

/** One host port (runtimeConfig.portMappings). `hostIP` absent: every address of the node. */
export interface PortMapping {
  readonly hostPort: number
  readonly containerPort: number
  readonly protocol: 'tcp' | 'udp' | 'sctp'
  readonly hostIP?: string
}

export interface PortmapConf {
  readonly snat: boolean
  readonly masqAll: boolean
  /** nft matches, read and written anew (port-conditions.ts). */
  readonly conditionsV4: readonly string[]
  readonly conditionsV6: readonly string[]
  readonly onListening: 'warn' | 'refuse'
}

export interface PortsConf {
  readonly portMappings: readonly PortMapping[]
  readonly portmap?: PortmapConf
}

/** The pod's host ports, or undefined when it asks for none. A port is served in each family the pod has. */
export function hostPortSpec(conf: PortsConf, ips: readonly PodAddress[], link: string): HostPortSpec | undefined {
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
  const why = `let 127.0.0.1 reach host ports through ${spec.link}`
  return [{ in: 'host', kind: 'sysctl.write', key: localnetKey(spec.link), value: '1', why }]
}

/** Takes the setting back from a link that stays. */
export function withoutLocalnet(link: string): Op {
  return { in: 'host', kind: 'sysctl.write', key: localnetKey(link), value: '0', why: `keep 127.0.0.1 from ${link}` }
}

function localnetKey(link: string): string {
  return `net/ipv4/conf/${link}/route_localnet`
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

/** Also of a pod without ports that reaches itself through a service: the elements are the same. */
export const hostPorts: Feature = {
  chainOps: ({ hostPorts: ports }) => (ports === undefined ? [] : conditionOps(ports)),
  elements: (spec, isLinkOwn) => {
    const { hostPorts: ports } = spec
    if (ports === undefined) return selfHairpinElements(spec)
    const guards = isLinkOwn ? commonPortElements(ports) : []
    return [...ownPortElements(ports), ...selfHairpinElements(spec), ...guards]
  },
  // A chained attachment's network has no bridge of its own: the way to the pods is what they have in common.
  commonElements: ({ hostPorts: ports }) =>
    ports === undefined ? [] : [...commonPortElements(ports), ...(ports.snat ? [hairpinLink(ports.link)] : [])],
  afterRuleOps: ({ hostPorts: ports }) => (ports === undefined ? [] : localnetOps(ports)),
}

// Host ports: `runtimeConfig.portMappings` and the keys of the upstream portmap plugin.

type RawMapping = z.output<typeof portMapping>

const protocols: readonly PortMapping['protocol'][] = ['tcp', 'udp', 'sctp']

/** Absent or empty is TCP, which is what runtimes mean by it. */
function readProtocol(text: string | undefined, path: KeyPath): PortMapping['protocol'] {
  const protocol = protocols.find((name) => name === (text || 'tcp').toLowerCase())
  if (protocol !== undefined) return protocol
  const hint = 'use "tcp", "udp" or "sctp"'
  throw notA([...path, 'protocol'], text, { id: 'port-protocol', what: 'a protocol', hint })
}

function readMapping(raw: RawMapping, path: KeyPath): PortMapping {
  const incomplete = { id: 'port-mapping-incomplete', hint: 'use a port from 1 to 65535' } as const
  if (raw.hostPort === undefined) throw configError([...path, 'hostPort'], 'missing', incomplete)
  if (raw.containerPort === undefined) throw configError([...path, 'containerPort'], 'missing', incomplete)
  const protocol = readProtocol(raw.protocol, path)
  const mapping = { hostPort: raw.hostPort, containerPort: raw.containerPort, protocol }
  if (raw.hostIP === undefined || raw.hostIP === '') return mapping
  // 0.0.0.0 and :: stay: each means every address of its own family only.
  const hostIP = parseAddress(raw.hostIP)
  if (hostIP !== undefined) return { ...mapping, hostIP: formatAddress(hostIP) }
  const hint = 'use one like "192.0.2.1", or leave it out'
  throw notA([...path, 'hostIP'], raw.hostIP, { id: 'port-host-ip', what: 'an IP address', hint })
}

/** What a mapping takes of the node: a port of an address, or of all those of a family. */
function takenBy({ protocol, hostPort, hostIP }: PortMapping): readonly string[] {
  return (hostIP === undefined ? ['0.0.0.0', '::'] : [hostIP]).map((ip) => `${protocol} ${hostPort} ${ip}`)
}

/** The host ports, each once. Throws CniError invalidConfig, also for one port with two targets. */
export function readPortMappings(raw: readonly RawMapping[] | undefined): readonly PortMapping[] {
  const mappings = new Map<string, PortMapping>()
  const byPort = new Map<string, PortMapping>()
  for (const [index, entry] of (raw ?? []).entries()) {
    const path = ['runtimeConfig', 'portMappings', index]
    const mapping = readMapping(entry, path)
    for (const key of takenBy(mapping)) {
      const other = byPort.get(key)
      if (other !== undefined && other.containerPort !== mapping.containerPort) {
        const message = `host port ${mapping.hostPort}/${mapping.protocol} is given twice`
        const hint = `use one container port, ${other.containerPort} or ${mapping.containerPort}`
        throw configError(path, message, { id: 'port-mapped-twice', hint })
      }
      byPort.set(key, mapping)
    }
    mappings.set(takenBy(mapping).join(), mapping)
  }
  return [...mappings.values()]
}

/** Whether the tokens are meant for iptables: upstream looks at the first token only. */
function isIptables(tokens: readonly string[]): boolean {
  return /^[-!]/.test(tokens[0] ?? '')
}

function conditionsOf(tokens: readonly string[] | undefined, family: 4 | 6): readonly string[] {
  const path = ['portmap', `conditionsV${family}`]
  if (!isIptables(tokens ?? [])) return readConditions(tokens, family, path)
  throw unsupported(path, tokens, 'use nftables matches, like ["ip", "saddr", "!=", "10.0.0.0/8"]')
}

/** Keys of the iptables backend: those that change nothing are accepted (docs/design.md, "Rules"). */
function checkIptablesKeys(raw: RawPortmap): void {
  if (!['', 'iptables', 'nftables'].includes(raw.backend ?? '')) {
    throw unsupported(['portmap', 'backend'], raw.backend, 'leave it out: trestle uses nftables')
  }
  // Kubernetes' own chain only marks for masquerade, which our rules do themselves.
  if (!['', 'KUBE-MARK-MASQ'].includes(raw.externalSetMarkChain ?? '')) {
    throw unsupported(
      ['portmap', 'externalSetMarkChain'],
      raw.externalSetMarkChain,
      'leave it out: trestle masquerades itself',
    )
  }
}

/** Port mapping settings, when there is the key or a mapping. Throws CniError invalidConfig or unsupportedField. */
export function readPortmap(raw: RawPortmap | undefined, mappings: readonly PortMapping[]): PortmapConf | undefined {
  if (raw === undefined && mappings.length === 0) return undefined
  if (raw !== undefined) checkIptablesKeys(raw)
  return {
    snat: raw?.snat ?? true,
    masqAll: raw?.masqAll ?? false,
    conditionsV4: conditionsOf(raw?.conditionsV4, 4),
    conditionsV6: conditionsOf(raw?.conditionsV6, 6),
    onListening: raw?.onListening ?? 'warn',
  }
}
