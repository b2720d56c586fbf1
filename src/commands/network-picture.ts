// SPDX-License-Identifier: Apache-2.0
// What the network of this node looks like, for `ps` and `map`: pods by trestle's records, pods of other plugins by what
// libcni remembers, the node's links and routes by the kernel.

import { hostname } from 'node:os'
import { bareAddress } from '../cni/addresses.ts'
import type { HostPort } from '../drivers/spec.ts'
import { lookAtHost } from '../kernel/look.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import { isUplink } from '../kernel/proc.ts'
import type { Machine } from '../process/machine.ts'
import { type AttachmentRecord, allRecords, isDead, knownNetworks } from '../state/records.ts'
import { type CachedAttachment, cachedAddresses, cachedAttachments } from './by-hand/libcni-cache.ts'
import { inodeOf } from './by-hand/pod.ts'
import { orElse } from './if-there.ts'
import { type PoolUse, poolUse } from './pools.ts'

/** An interface of a pod. `link`: its end on the node; `since`: ISO 8601, of pods of trestle. */
export interface PodInterface {
  readonly pod: string
  readonly containerId: string
  readonly ifName: string
  readonly addresses: readonly string[]
  readonly ports: readonly string[]
  readonly network: string
  readonly link?: string
  readonly master?: string
  readonly since?: string
  readonly isOurs: boolean
}

export interface NodeLink {
  readonly name: string
  readonly addresses: readonly string[]
  readonly kind: 'uplink' | 'bridge' | 'other'
}

export interface Picture {
  readonly node: string
  readonly pods: readonly PodInterface[]
  readonly pools: readonly (PoolUse & { readonly network: string })[]
  readonly links: readonly NodeLink[]
  /** To pods of other nodes: `10.244.2.0/24 via 192.0.2.12`. */
  readonly routes: readonly string[]
}

/** Changes nothing. Throws CniError where the node cannot be looked at. */
export async function lookAtPicture(machine: Machine): Promise<Picture> {
  const { links, routes } = await lookAtHost(machine, 'all', true)
  const pods = podsIn([...links.values()])
  const used = new Set(pods.flatMap(({ link, master }) => [link, master]))
  const networks = knownNetworks().filter(({ role }) => role === 'main')
  return {
    node: hostname(),
    pods,
    pools: networks.flatMap(({ name, ranges }) =>
      orElse(() => poolUse(name, ranges), []).map((pool) => ({ ...pool, network: name })),
    ),
    links: [...links.values()].flatMap((link) => nodeLink(link, used)),
    // What leads by a gateway to somewhere else than everywhere.
    routes: routes.flatMap(({ dst, gw, dev, table }) =>
      table === 254 && gw !== undefined && !/^(?:0\.0\.0\.0|::)\/0$/.test(dst) ? [`${dst} via ${gw} dev ${dev}`] : [],
    ),
  }
}

function nodeLink(link: ObservedLink, used: ReadonlySet<string | undefined>): readonly NodeLink[] {
  const { name, addresses, kind } = link
  const global = addresses.filter((address) => !address.startsWith('fe80:'))
  if (name === 'lo' || (global.length === 0 && !used.has(name))) return []
  if (kind === 'bridge') return [{ name, addresses: global, kind: 'bridge' }]
  if (isUplink(name)) return [{ name, addresses: global, kind: 'uplink' }]
  return kind === 'veth' && used.has(name) ? [] : [{ name, addresses: global, kind: 'other' }]
}

/** The interfaces of pods, of trestle and of other plugins, by their names. */
export function podsIn(links: readonly ObservedLink[]): readonly PodInterface[] {
  const masterOf = (name: string | undefined) => links.find((link) => link.name === name)?.master
  const own = allRecords().filter((record) => record.id.role === 'main' && !isDead(record))
  const ours = own.map((record): PodInterface => {
    const { id, spec, createdAt } = record
    const link = spec?.host?.name
    const master = masterOf(link)
    return {
      pod: podNameOf(record),
      containerId: id.containerId,
      ifName: id.ifName,
      addresses: (spec?.addresses ?? []).map(({ address }) => bareAddress(address)),
      ports: [...new Set((spec?.hostPorts?.ports ?? []).map(portText))],
      network: id.network,
      ...(link === undefined ? {} : { link }),
      ...(master === undefined ? {} : { master }),
      since: createdAt,
      isOurs: true,
    }
  })
  const known = new Set(own.map(({ id }) => `${id.network} ${id.containerId} ${id.ifName}`))
  const others = cachedAttachments().filter(({ network, containerId, ifName, netns }) => {
    return !known.has(`${network} ${containerId} ${ifName}`) && inodeOf(netns) !== undefined
  })
  const theirs = others.map((cached): PodInterface => {
    const addresses = cachedAddresses(cached)
    const host = cached.result.interfaces.find((each) => !each.sandbox && /^(?:veth|cali|lxc)/.test(each.name))?.name
    const master = masterOf(host)
    return {
      pod: podNameOfCached(cached),
      containerId: cached.containerId,
      ifName: cached.ifName,
      addresses,
      ports: [],
      network: cached.network,
      ...(host === undefined ? {} : { link: host }),
      ...(master === undefined ? {} : { master }),
      isOurs: false,
    }
  })
  return [...ours, ...theirs].sort((a, b) => (a.pod < b.pod ? -1 : a.pod > b.pod ? 1 : a.ifName < b.ifName ? -1 : 1))
}

/** NAMESPACE/NAME; a pod without a name of Kubernetes has that of its network namespace, or its container's id. */
function podNameOf({ pod, netns, id }: AttachmentRecord): string {
  return pod === undefined ? nameOf(netns.path, id.containerId) : `${pod.namespace}/${pod.name}`
}

function podNameOfCached({ args, netns, containerId }: CachedAttachment): string {
  const of = new Map(args)
  const name = of.get('K8S_POD_NAME')
  return name === undefined ? nameOf(netns, containerId) : `${of.get('K8S_POD_NAMESPACE')}/${name}`
}

/** A namespace that has no name is that of a process: /proc/PID/ns/net. */
function nameOf(netns: string, containerId: string): string {
  return netns.endsWith('/ns/net') ? containerId : netns.slice(netns.lastIndexOf('/') + 1)
}

function portText({ protocol, hostPort, hostIp, containerPort }: HostPort): string {
  const at = hostIp === undefined ? '' : `${hostIp.includes(':') ? `[${hostIp}]` : hostIp}:`
  return `${at}${hostPort}/${protocol} -> ${containerPort}`
}
