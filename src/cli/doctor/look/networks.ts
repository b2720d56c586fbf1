// SPDX-License-Identifier: Apache-2.0
// The networks of pods on this node: those that state knows, and those of the configuration in use.

import { lookUp } from '../../../cni/json/json-keys.ts'
import { familyOf, firstOf, formatAddress, formatCidr, networkOf, next, parseCidr } from '../../../cni/model/address.ts'
import type { NetworkSpec } from '../../../plan/model/attachment.ts'
import type { ObservedNamespace } from '../../../plan/model/observed.ts'
import type { AttachmentRecord } from '../../../plan/model/record.ts'
import { acceptedOf } from '../../../plan/rules/host-accept.ts'
import { overlapOf, subnetsOf } from '../../lint/rules/overlaps.ts'
import type { ConfigurationFacts, PluginFacts, PodNetwork } from './facts.ts'

/** What is known beforehand. `records`: of live pods. */
export interface NetworkSources {
  readonly networks: readonly NetworkSpec[]
  readonly records: readonly AttachmentRecord[]
  readonly configurations: readonly ConfigurationFacts[]
  readonly host: ObservedNamespace
}

/** All of them; one of state is not named again for its configuration. */
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
  const subnets = [...(masquerade?.subnets ?? []), ...ranges, ...(bridge?.addresses ?? [])].flatMap(canonical)
  return {
    name,
    subnets: [...new Set(subnets)],
    links: [...ends, ...gateway],
    accepts: acceptedOf(network).length > 0,
    isSetUp: pods.length > 0,
  }
}

/** Of another plugin, or of trestle before the first pod. */
function ofConfiguration(
  { network = '', plugins }: ConfigurationFacts,
  host: ObservedNamespace,
): readonly PodNetwork[] {
  const [main] = plugins
  if (main === undefined) return []
  const subnets = plugins.flatMap(({ conf }) => subnetsOf({ conf, steps: [], index: 0 }))
  const links = bridgeOf(main)
  const isThere = links.some((name) => {
    const addresses = host.links.get(name)?.addresses.flatMap(canonical) ?? []
    return overlapOf(subnets, addresses) !== undefined
  })
  const other = isThere ? undefined : otherBridge(main, host, links)
  const known = { name: network, subnets: [...new Set(subnets)], links, accepts: false, isSetUp: isThere }
  return [{ ...known, ...(other === undefined || subnets.length === 0 ? {} : { otherBridge: other }) }]
}

/** The bridge plugin refuses one that has another IPv4 address than the gateway, unless it may flush it. */
function otherBridge({ type, conf }: PluginFacts, host: ObservedNamespace, links: readonly string[]) {
  const isGateway = lookUp(conf, 'isGateway') === true || lookUp(conf, 'isDefaultGateway') === true
  if (type !== 'bridge' || !isGateway || lookUp(conf, 'forceAddress') === true) return undefined
  const [name = ''] = links
  const addresses = (host.links.get(name)?.addresses ?? []).filter((cidr) => familyOf(cidr) === 4)
  if (addresses.length === 0) return undefined
  return { name, addresses, hasPorts: [...host.links.values()].some(({ master }) => master === name) }
}

function bridgeOf({ type, conf, isOwn }: PluginFacts): readonly string[] {
  const delegate = lookUp(conf, 'delegate')
  const holder = type === 'flannel' && typeof delegate === 'object' && delegate !== null ? delegate : conf
  const name = lookUp(holder as Readonly<Record<string, unknown>>, 'bridge')
  const hasBridge =
    type === 'bridge' || type === 'flannel' || (isOwn && (lookUp(conf, 'mode') ?? 'bridge') === 'bridge')
  return hasBridge ? [typeof name === 'string' && name !== '' ? name : 'cni0'] : []
}

function canonical(cidr: string): readonly string[] {
  const parsed = parseCidr(cidr)
  return parsed === undefined ? [] : [formatCidr(networkOf(parsed))]
}

/** An address that a pod of the range may have: the third, behind the gateway. */
export function podOf(subnet: string): readonly string[] {
  const cidr = parseCidr(subnet)
  const address = cidr === undefined ? undefined : next(firstOf(cidr))
  const pod = address === undefined ? undefined : next(address)
  return pod === undefined ? [] : [formatAddress(pod)]
}
