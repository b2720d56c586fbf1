// SPDX-License-Identifier: Apache-2.0
// An MTU that is too small for the addresses: IPv6 is not there on such a link.

import { familyOf } from '../cni/address.ts'
import { configError } from '../cni/invalid-config.ts'
import type { FeatureConf, IpamConf } from './net-conf.ts'

/** RFC 8200, section 5; the kernel takes IPv6 off a link with less (net/ipv6/addrconf.c). */
const LEAST_IPV6_MTU = 1280

/** Whether the configuration gives pods IPv6 addresses; a delegated plugin's are not known. */
export function hasIpv6(ipam: IpamConf): boolean {
  if (ipam.kind === 'pool') return ipam.rangeSets.some((ranges) => ranges.some(({ subnet }) => familyOf(subnet) === 6))
  return ipam.kind === 'static' && ipam.addresses.some(({ address }) => familyOf(address) === 6)
}

/** Whether pods are known to have IPv4 alone; a delegated plugin's addresses are not known, nor is a pod without any. */
export function isIpv4Only(ipam: IpamConf): boolean {
  return (ipam.kind === 'pool' || ipam.kind === 'static') && !hasIpv6(ipam)
}

/** Throws CniError invalidConfig where the pod is to have an IPv6 address and an MTU that allows none. */
export function checkIpv6Mtu({ ipam, mtu, tuning }: Pick<FeatureConf, 'ipam' | 'mtu' | 'tuning'>): void {
  if (!hasIpv6(ipam)) return
  for (const [path, value] of [[['mtu'], mtu] as const, [['tuning', 'mtu'], tuning?.mtu] as const]) {
    if (typeof value !== 'number' || value >= LEAST_IPV6_MTU) continue
    const hint = `use ${LEAST_IPV6_MTU} or more, or no IPv6 range`
    throw configError(path, `${value} is too small for IPv6`, { id: 'mtu-below-ipv6', hint })
  }
}
