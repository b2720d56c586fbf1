// SPDX-License-Identifier: Apache-2.0
// Host ports as runtimes handed them to libcni: containerd writes `HostPort`, others `hostPort`.

import { formatAddress, parseAddress } from '../../cni/model/address.ts'
import type { PortMapping } from '../../cni/model/net-conf.ts'

const protocols: readonly PortMapping['protocol'][] = ['tcp', 'udp', 'sctp']

/** The port mappings of an attachment's capability arguments; what is none is passed over. */
export function mappingsOf(capabilityArgs: Readonly<Record<string, unknown>>): readonly PortMapping[] {
  const list: unknown = capabilityArgs['portMappings']
  return (Array.isArray(list) ? list : []).flatMap((entry) => mappingOf(entry) ?? [])
}

function mappingOf(entry: unknown): PortMapping | undefined {
  if (typeof entry !== 'object' || entry === null) return undefined
  const fields = new Map(Object.entries(entry).map(([name, value]) => [name.toLowerCase(), value as unknown]))
  const [hostPort, containerPort] = [fields.get('hostport'), fields.get('containerport')]
  const named = fields.get('protocol') || 'tcp'
  const protocol = protocols.find((name) => typeof named === 'string' && name === named.toLowerCase())
  if (typeof hostPort !== 'number' || typeof containerPort !== 'number' || protocol === undefined) return undefined
  const given = fields.get('hostip')
  const hostIP = typeof given === 'string' ? parseAddress(given) : undefined
  const mapping = { hostPort, containerPort, protocol }
  return hostIP === undefined ? mapping : { ...mapping, hostIP: formatAddress(hostIP) }
}
