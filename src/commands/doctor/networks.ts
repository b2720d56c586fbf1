// SPDX-License-Identifier: Apache-2.0
// The pod networks of this node: networks in state, and networks of the used configuration.

import { statSync } from 'node:fs'
import { next } from '../../../src-before/cni/address.ts'
import { capacity, countedAddresses, describeSet, type Listed, readinessOf } from '../../../src-before/core.ts'
import type { NetworkSpec } from '../../../src-before/model/attachment.ts'
import type { ObservedNamespace } from '../../../src-before/model/observed.ts'
import type { AttachmentRecord } from '../../../src-before/model/record.ts'
import { identityOfNetns } from '../../../src-before/system/kernel/netns.ts'
import { upstreamLeases } from '../../../src-before/system/upstream/host-local-leases.ts'
import { cachedAttachments } from '../../../src-before/system/upstream/read-libcni-cache.ts'
import { familyOf, firstOf, formatAddress, parseCidr } from '../../cni/addresses.ts'
import { isObject, lookUp } from '../../cni/json.ts'
import type { OwnConf, PoolIpam } from '../../config/network-conf.ts'
import { netnsState } from '../../kernel/netns.ts'
import { readOwn } from '../lint/own-plugin.ts'
import { canonical, overlapOf, subnetsOf } from '../lint/semantics.ts'
import { asOwn } from '../own-type.ts'
import type { ConfigurationFacts, PluginFacts, PodNetwork, PoolFacts, ReadinessFacts } from './facts.ts'

/** `records`: of live pods. */
interface NetworkSources {
  readonly networks: readonly NetworkSpec[]
  readonly records: readonly AttachmentRecord[]
  readonly configurations: readonly ConfigurationFacts[]
  readonly host: ObservedNamespace
}

/** All networks; one in state is not repeated for its configuration. */
export function podNetworks({ networks, records, configurations, host }: NetworkSources): readonly PodNetwork[] {
  const ofState = networks.map((network) => ofSpec(network, records))
  const known = new Set(ofState.map(({ name }) => name))
  const used = configurations.filter(({ network }) => network !== undefined && !known.has(network))
  return [...ofState, ...used.flatMap((each) => ofConfiguration(each, host))]
}

function ofSpec(network: NetworkSpec, records: readonly AttachmentRecord[]): PodNetwork {
  const { name, bridge, masquerade, ranges = [] } = network
  const pods = records.filter(({ key }) => key.network === name.replace(/\/chained$/, ''))
  const ends = bridge === undefined ? pods.flatMap(({ spec }) => spec?.host?.name ?? []) : [bridge.name]
  const gateway = bridge?.gateway === undefined ? [] : [bridge.gateway.name]
  const single = pods.flatMap(({ spec }) =>
    masquerade && spec?.masquerade ? spec.ips.map(({ address }) => address) : [],
  )
  const subnets = [...(masquerade?.subnets ?? []), ...single, ...ranges, ...(bridge?.addresses ?? [])].flatMap(
    canonical,
  )
  return {
    name,
    subnets: [...new Set(subnets)],
    links: [...ends, ...gateway],
    bridges: bridge === undefined ? [] : [bridge.name],
    accepts: 'accept' in network && network.accept !== undefined,
    isSetUp: pods.length > 0,
  }
}

/** A network of another plugin, or of trestle before its first pod. */
function ofConfiguration(
  { network = '', plugins }: ConfigurationFacts,
  host: ObservedNamespace,
): readonly PodNetwork[] {
  const [main] = plugins
  if (main === undefined) return []
  const subnets = plugins.flatMap(({ conf }) => subnetsOf({ conf, steps: [], index: 0 }))
  const links = bridgesOf(main)
  const isThere = links.some((name) => {
    const addresses = host.links.get(name)?.addresses.flatMap(canonical) ?? []
    return overlapOf(subnets, addresses) !== undefined
  })
  const other = isThere ? undefined : otherBridge(main, host, links)
  const ways = { links, bridges: links }
  // The firewall plugin puts an accept for each pod before the tail.
  const accepts = plugins.some(({ type }) => type === 'firewall')
  const known = { name: network, subnets: [...new Set(subnets)], ...ways, accepts, isSetUp: isThere }
  return [{ ...known, ...(other === undefined || subnets.length === 0 ? {} : { otherBridge: other }) }]
}

/** The bridge plugin refuses a bridge with another IPv4 address than the gateway, unless it may flush it. */
function otherBridge({ type, conf }: PluginFacts, host: ObservedNamespace, links: readonly string[]) {
  const isGateway = lookUp(conf, 'isGateway') === true || lookUp(conf, 'isDefaultGateway') === true
  if (type !== 'bridge' || !isGateway || lookUp(conf, 'forceAddress') === true) return undefined
  const [name = ''] = links
  const addresses = (host.links.get(name)?.addresses ?? []).filter((cidr) => familyOf(cidr) === 4)
  if (addresses.length === 0) return undefined
  return { name, addresses, hasPorts: [...host.links.values()].some(({ master }) => master === name) }
}

function bridgesOf({ type, conf, isOwn }: PluginFacts): readonly string[] {
  const isBridge = ['bridge', 'flannel'].includes(type) || (isOwn && (lookUp(conf, 'mode') ?? 'bridge') === 'bridge')
  return isBridge ? [bridgeOf(conf) ?? 'cni0'] : []
}

/** The bridge of a plugin; by default cni0 (bridge.go; flannel delegates to bridge). */
export function bridgeOf(conf: Readonly<Record<string, unknown>>): string | undefined {
  const type = lookUp(conf, 'type')
  if (type === 'flannel') {
    const given = lookUp(conf, 'delegate')
    const delegate = isObject(given) ? given : {}
    return bridgeOf({ ...delegate, type: lookUp(delegate, 'type') ?? 'bridge' })
  }
  const name = lookUp(conf, 'bridge')
  if (typeof name === 'string' && name !== '') return name
  return type === 'bridge' ? 'cni0' : undefined
}

/** A likely pod address of the range: the third, behind the gateway. */
export function podOf(subnet: string): readonly string[] {
  const cidr = parseCidr(subnet)
  const address = cidr === undefined ? undefined : next(firstOf(cidr))
  const pod = address === undefined ? undefined : next(address)
  return pod === undefined ? [] : [formatAddress(pod)]
}

// The use of the ranges, and STATUS of the used configuration, asked in this process.

/** The configuration that trestle would read; of another plugin with host-local the ranges alone. */
function confOf({ conf }: PluginFacts, network: string): OwnConf | undefined {
  const own = { ...asOwn({ ...conf, type: 'trestle' }) }
  return readOwn({ conf: own, steps: [], index: 0 }, { name: network, version: '1.0.0' }).conf
}

/** The pools of host-local; STATUS looks at trestle's own. */
export function lookAtPools({ network = '', plugins }: ConfigurationFacts, listed: Listed): readonly PoolFacts[] {
  return plugins.flatMap((plugin) => {
    if (plugin.isOwn || plugin.ipamType !== 'host-local') return []
    const ipam = confOf({ ...plugin, conf: { ipam: plugin.conf['ipam'] } }, network)?.ipam
    return ipam?.kind === 'pool' ? poolsOf(network, ipam, listed) : []
  })
}

function poolsOf(network: string, { dataDir, rangeSets, exclude }: PoolIpam, listed: Listed): readonly PoolFacts[] {
  const leases = upstreamLeases(dataDir, network)
  const directory = `${dataDir}/${network}`
  const mayLive = attachedContainers(network)
  const lost = leases.filter(({ containerId, address }) => {
    return listed?.has(containerId) === false && !mayLive.has(containerId) && isOld(`${directory}/${address}`)
  })
  return rangeSets.map((set) => {
    const countedIn = (some: typeof leases) =>
      countedAddresses(set, exclude, new Set(some.map(({ address }) => address)))
    return {
      network,
      ranges: describeSet(set),
      taken: countedIn(leases).length,
      total: capacity(set, exclude),
      leaked: countedIn(lost),
      isAnyListed: listed !== undefined,
      directory,
    }
  })
}

/** Containers of the network that libcni remembers, and whose namespace is not known to be gone: podman's, say. */
function attachedContainers(network: string): ReadonlySet<string> {
  const known = cachedAttachments(network).filter(({ netns: path }) => {
    const identity = identityOfNetns(path)
    return netnsState(identity.path === '' ? { path, inode: 0 } : identity) !== 'gone'
  })
  return new Set(known.map(({ containerId }) => containerId))
}

/** host-local reserves an address before a runtime lists the container. */
const youngestMs = 5 * 60 * 1000

function isOld(file: string): boolean {
  const madeMs = statSync(file, { throwIfNoEntry: false })?.mtimeMs
  return madeMs !== undefined && madeMs < Date.now() - youngestMs
}

export async function lookAtReadiness({
  network = '',
  plugins,
  runtime,
}: ConfigurationFacts): Promise<readonly ReadinessFacts[]> {
  const all: ReadinessFacts[] = []
  for (const plugin of plugins.filter(({ isOwn }) => isOwn)) {
    const conf = { ...asOwn({ ...plugin.conf, type: 'trestle' }), name: network, cniVersion: '1.1.0' }
    if (confOf(plugin, network) === undefined) continue
    const found = await readinessOf(JSON.stringify(conf), runtime.binDirs)
    if (found !== undefined) all.push({ network, ...found } as ReadinessFacts)
  }
  return all
}
