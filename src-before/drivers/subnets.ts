// SPDX-License-Identifier: Apache-2.0
// The subnets and gateways of a network: of all ranges where the configuration names them, else of a lease.

import { canonicalNetwork, familyOf, formatAddress, networkOf, parseCidr } from '../cni/address.ts'
import type { FeatureConf, Range } from '../config/net-conf.ts'
import type { PodAddress } from '../model/attachment.ts'

export function gatewaysOf(conf: Pick<FeatureConf, 'ipam'>, ips: readonly PodAddress[]): readonly string[] {
  if (conf.ipam.kind === 'pool') return unique(conf.ipam.rangeSets.flat().map(gatewayCidr))
  return unique(ips.flatMap((ip) => (ip.gateway === undefined ? [] : [`${ip.gateway}/${prefixOf(ip.address)}`])))
}

export function subnetsOf(conf: Pick<FeatureConf, 'ipam'>, ips: readonly PodAddress[]): readonly string[] {
  if (conf.ipam.kind === 'pool') return unique(conf.ipam.rangeSets.flat().map((range) => range.subnet))
  return unique(ips.map((ip) => canonicalNetwork(ip.address)))
}

/** The address; without a gateway, with the first address of its subnet as its gateway. */
export function withFirstGateway(ip: PodAddress): PodAddress {
  const cidr = parseCidr(ip.address)
  if (ip.gateway !== undefined || cidr === undefined) return ip
  return { ...ip, gateway: formatAddress({ ...cidr, value: networkOf(cidr).value + 1n }) }
}

export function familiesOf(cidrs: readonly string[]): readonly (4 | 6)[] {
  return [...new Set(cidrs.map(familyOf))].sort()
}

export function unique(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)].sort()
}

function gatewayCidr(range: Range): string {
  return `${range.gateway}/${prefixOf(range.subnet)}`
}

function prefixOf(cidr: string): string {
  return cidr.slice(cidr.indexOf('/') + 1)
}
