// SPDX-License-Identifier: Apache-2.0
// What libcni keeps of each attachment (docs/design.md, "libcni's cache"): the list it ran, what the runtime
// added to it, and the result. Before cniCacheV1 (libcni 0.8, 2020) it kept the result alone, which is not read.

import { bareAddress, formatAddress, parseAddress } from '../../cni/address.ts'
import { orElse } from '../../cni/error.ts'
import { ownType } from '../../cni/invocation.ts'
import { asObject } from '../../cni/json.ts'
import type { Result } from '../../cni/result.ts'
import { readResult } from '../../cni/result-shapes.ts'
import type { NetConf } from '../../config/net-conf.ts'
import type { PortMapping } from '../../features/host-ports.ts'
import { hostLinkName } from '../../model/names.ts'

/** An attachment as libcni remembers it. `netns` empty and `list` undefined where the entry has none. */
export interface CachedAttachment {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly netns: string
  readonly args: readonly (readonly [string, string])[]
  readonly capabilityArgs: Readonly<Record<string, unknown>>
  readonly list?: unknown
  readonly result: Result
}

type Json = Readonly<Record<string, unknown>>

export function cacheFileName(network: string, containerId: string, ifName: string): string {
  return `${network}-${containerId}-${ifName}`
}

/** An entry of cniCacheV1, of `network` where that is given; undefined for what is none. */
export function readCached(text: string, network?: string): CachedAttachment | undefined {
  const cached = orElse(() => readV1(asObject(JSON.parse(text))), undefined)
  return network === undefined || cached?.network === network ? cached : undefined
}

/** The types of the plugins that made the attachment; empty where the entry does not tell. */
export function cachedTypes(cached: CachedAttachment): readonly string[] {
  return pluginsOf(cached)
    .map((plugin) => plugin['type'])
    .filter((type) => typeof type === 'string')
}

function pluginsOf({ list }: CachedAttachment): readonly Json[] {
  const { plugins } = asObject(list)
  return (Array.isArray(plugins) ? plugins : [list]).map(asObject)
}

/** The names of this executable that a call tells: of its configuration, unless another plugin delegates to us. */
type OwnConf = Pick<NetConf, 'type' | 'role'>

/** The types that mean this executable; without `conf` the one that always does. */
function ownTypesOf(conf: OwnConf | undefined): readonly string[] {
  return conf === undefined || conf.role === 'ipam' ? [ownType] : [ownType, conf.type]
}

/** Whether trestle is one of the attachment's plugins. Under another name it is known by the link it made. */
export function isPartOurs(cached: CachedAttachment, conf?: OwnConf): boolean {
  const ownTypes = ownTypesOf(conf)
  return cachedTypes(cached).some((type) => ownTypes.includes(type)) || hasOurLink(cached)
}

export function isMainOurs(cached: CachedAttachment, conf?: OwnConf): boolean {
  return ownTypesOf(conf).includes(cachedTypes(cached)[0] ?? '') || hasOurLink(cached)
}

/** Whether trestle, behind another plugin, made the attachment's host ports. */
export function hasOurPorts(cached: CachedAttachment, conf: OwnConf): boolean {
  const [, ...chained] = pluginsOf(cached)
  const isOurs = ({ type }: Json) => ownTypesOf(conf).includes(String(type))
  return chained.some((plugin) => isOurs(plugin) && asObject(plugin['capabilities'])['portMappings'] === true)
}

/** Whether trestle gave the attachment's addresses, as the IPAM plugin of another one. */
export function isLeaseOurs(cached: CachedAttachment): boolean {
  return pluginsOf(cached).some(({ ipam }) => asObject(ipam)['type'] === ownType)
}

function hasOurLink(cached: CachedAttachment): boolean {
  const { network, containerId, ifName } = cached
  return endsOf(cached).host?.name === hostLinkName({ network, containerId, ifName, role: 'main' })
}

/** The MTU that upstream tuning set behind trestle: it prints prevResult as it got it (plugins/meta/tuning). */
export function mtuSetLater({ list }: CachedAttachment, conf: OwnConf): number | undefined {
  const { plugins } = asObject(list)
  const entries = (Array.isArray(plugins) ? plugins : []).map(asObject)
  const after = entries.slice(entries.findIndex(({ type }) => ownTypesOf(conf).includes(String(type))) + 1)
  const mtus = after.flatMap((entry) => {
    if (entry['type'] !== 'tuning') return []
    return [asObject(asObject(entry['args'])['cni'])['mtu'] ?? entry['mtu']]
  })
  return mtus.filter((mtu) => typeof mtu === 'number' && mtu > 0).at(-1) as number | undefined
}

export function endsOf({ result, ifName }: Pick<CachedAttachment, 'result' | 'ifName'>) {
  const pod = result.interfaces.find((entry) => entry.name === ifName && (entry.sandbox ?? '') !== '')
  const host = result.interfaces.find((entry) => /^veth/.test(entry.name) && (entry.sandbox ?? '') === '')
  return { pod, host }
}

/** The pod's addresses, without prefix length; those of other interfaces in the result are left out. */
export function cachedAddresses(cached: Pick<CachedAttachment, 'result' | 'ifName'>): readonly string[] {
  return podIpsOf(cached).map(({ address }) => bareAddress(address))
}

export function podIpsOf({ result, ifName }: Pick<CachedAttachment, 'result' | 'ifName'>): Result['ips'] {
  return result.ips.filter(({ interface: at }) => at === undefined || result.interfaces[at]?.name === ifName)
}

function readV1(root: Json): CachedAttachment | undefined {
  const { kind, containerId, ifName, networkName, netns, config } = root
  if (kind !== 'cniCacheV1') return undefined
  if (typeof containerId !== 'string' || typeof ifName !== 'string' || typeof networkName !== 'string') return undefined
  const list: unknown = typeof config === 'string' ? JSON.parse(Buffer.from(config, 'base64').toString()) : undefined
  return {
    network: networkName,
    containerId,
    ifName,
    netns: typeof netns === 'string' ? netns : '',
    args: pairsOf(root['cniArgs']),
    capabilityArgs: asObject(root['capabilityArgs']),
    ...(list === undefined ? {} : { list }),
    result: readResult(root['result'], '0.1.0'),
  }
}

function pairsOf(value: unknown): CachedAttachment['args'] {
  const pairs = Array.isArray(value) ? value : []
  return pairs.filter(
    (pair): pair is readonly [string, string] => Array.isArray(pair) && pair.every((part) => typeof part === 'string'),
  )
}

// Host ports as runtimes handed them to libcni: containerd writes `HostPort`, others `hostPort`.

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
