// SPDX-License-Identifier: Apache-2.0
// Subnets and gateways of a network: of all ranges where the configuration names them, else of a lease.

import { familyOf, formatAddress, networkOf, networkText, parseCidr } from '../cni/addresses.ts'
import type { OwnConf } from '../config/network-conf.ts'
import type { PodAddress } from './spec.ts'

export function rangesOf({ ipam }: Pick<OwnConf, 'ipam'>, addresses: readonly PodAddress[]): readonly string[] {
  if (ipam.kind === 'pool') return unique(ipam.rangeSets.flat().map(({ subnet }) => subnet))
  return unique(addresses.map(({ address }) => networkText(address)))
}

/** With prefix length. */
export function gatewaysOf({ ipam }: Pick<OwnConf, 'ipam'>, addresses: readonly PodAddress[]): readonly string[] {
  const withLength = (gateway: string, of: string) => `${gateway}/${of.slice(of.indexOf('/') + 1)}`
  if (ipam.kind === 'pool')
    return unique(ipam.rangeSets.flat().map(({ gateway, subnet }) => withLength(gateway, subnet)))
  return unique(
    addresses.flatMap(({ gateway, address }) => (gateway === undefined ? [] : withLength(gateway, address))),
  )
}

/** Without a gateway of its own: the first address of its subnet. */
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
