// SPDX-License-Identifier: Apache-2.0
// Host ports: `runtimeConfig.portMappings` and the keys of the upstream portmap plugin.

import { formatAddress, parseAddress } from '../cni/address.ts'
import { configError, type KeyPath, notA, unsupported } from '../cni/invalid-config.ts'
import type { PortMapping, PortmapConf } from '../config/net-conf.ts'
import type { RawConfig } from '../config/schema.ts'
import { readConditions } from './conditions.ts'

type RawMapping = NonNullable<NonNullable<RawConfig['runtimeConfig']>['portMappings']>[number]

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
function checkIptablesKeys(raw: NonNullable<RawConfig['portmap']>): void {
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
export function readPortmap(raw: RawConfig['portmap'], mappings: readonly PortMapping[]): PortmapConf | undefined {
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
