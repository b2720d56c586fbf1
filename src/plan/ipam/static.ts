// SPDX-License-Identifier: Apache-2.0
// The addresses of ipam.type `static`: what the configuration says.

import type { StaticIpam } from '../../config/net-conf.ts'
import type { Lease } from '../../model/lease.ts'

/**
 * The lease of a static configuration: its addresses in order, each with its own gateway if it has
 * one. The edge has already put together addresses from the configuration, CNI_ARGS and
 * runtimeConfig, and given each CNI_ARGS GATEWAY to the addresses whose subnet holds it.
 */
export function staticLease(conf: StaticIpam): Lease {
  const ips = conf.addresses.map(({ address, gateway }) => (gateway === undefined ? { address } : { address, gateway }))
  const lease = { ips, routes: conf.routes }
  return conf.dns === undefined ? lease : { ...lease, dns: conf.dns }
}
