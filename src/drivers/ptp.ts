// SPDX-License-Identifier: Apache-2.0
// mode `ptp`: a veth pair and no bridge. Addresses and routes are those of the reference ptp plugin: the gateway by the
// link, all else through the gateway.

import {
  asPrefix,
  bareAddress,
  familyOf,
  includes,
  isSubnet,
  networkText,
  parseAddress,
  toCidr,
} from '../cni/addresses.ts'
import { CniError, Code } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { Route } from '../cni/results.ts'
import type { PtpConf } from '../config/network-conf.ts'
import { acceptOf } from '../features/firewall.ts'
import { masqueradeOf } from '../features/masquerade.ts'
import { addHostAddress, linkScope, type Op } from '../kernel/operation.ts'
import type { Decided, Driver, Parts } from './driver.ts'
import { hasIpv6, vethOps } from './interface.ts'
import { hostLinkMac, hostLinkName, linkLocalPrefix } from './names.ts'
import { emptyNetwork, type NetworkSpec, type PodAddress, type PodRoute, type Spec } from './spec.ts'
import { familiesOf, rangesOf } from './subnets.ts'

function partsOf(conf: PtpConf, { id, mtu, addresses, routes, defaultRoutes }: Decided): Parts {
  const name = hostLinkName(id)
  const direct = (route: PodRoute): PodRoute => (isBehindGateway(route, addresses) ? { ...route, onlink: true } : route)
  return {
    host: { name, mac: hostLinkMac(id), mtu },
    routes: [...addresses.flatMap((ip) => addressRoutes(ip, conf.enabledad)), ...routes.map(direct)],
    defaultRoutes: defaultRoutes.map(direct),
    wayToPod: { link: name, isOwnLink: true },
    ...defined({ fencedLink: conf.firewall?.ingressPolicy && name }),
  }
}

/** Without a bridge there is no link that pods share, so rules match the network's subnets. */
function networkSpec(conf: PtpConf, addresses: readonly PodAddress[]): NetworkSpec {
  const ranges = rangesOf(conf, addresses)
  return {
    ...emptyNetwork,
    name: conf.name,
    mode: 'ptp',
    ranges,
    isLearned: conf.ipam.kind !== 'pool',
    forwarding: familiesOf(ranges),
    allowOverlap: conf.allowOverlap,
    ...defined({ masquerade: masqueradeOf(conf, ranges), accept: acceptOf(conf, [], ranges) }),
    removeWhenEmpty: conf.removeWhenEmpty,
  }
}

/** The gateway's address on the pod's own link, and a route to each address of the pod. */
function hostOps(spec: Spec): readonly Op[] {
  const { host, addresses } = spec
  if (host === undefined) return []
  const dev = host.name
  const ops: Op[] = [...vethOps(spec)]
  // With an address of ours the host can ask for the pod's MAC at once, with a tentative one only after DAD.
  if (hasIpv6(spec)) ops.push(addHostAddress(dev, linkLocalPrefix(host.mac)))
  for (const { address, gateway } of addresses) {
    const dst = asPrefix(bareAddress(address))
    if (gateway !== undefined) ops.push(addHostAddress(dev, asPrefix(gateway)))
    ops.push({ place: 'host', kind: 'route.add', dev, route: { dst }, how: 'replace', why: `route ${dst} to the pod` })
  }
  return ops
}

/** Throws CniError 7 for an address without a gateway. */
function addressRoutes({ address, gateway }: PodAddress, hasDad: boolean): readonly PodRoute[] {
  if (gateway === undefined) {
    const message = `ipam: ${address} has no gateway, and mode ptp routes through one`
    throw new CniError(Code.invalidConfig, 'gateway-missing', message, {
      details: 'give the address a "gateway" (ipam.addresses, or GATEWAY in CNI_ARGS), or use mode bridge',
    })
  }
  // The kernel takes an IPv6 source only after duplicate address detection (net/ipv6/route.c).
  const source = hasDad && familyOf(address) === 6 ? {} : { src: bareAddress(address) }
  const toGateway = { dst: asPrefix(gateway), ...source, scope: linkScope }
  const subnet = networkText(address)
  return isSubnet(subnet) ? [toGateway, { dst: subnet, gw: gateway, ...source }] : [toGateway]
}

/** A gateway in the subnet that is not the pod's own: the kernel would look for it behind the pod's gateway. */
function isBehindGateway({ gw }: Route, addresses: readonly PodAddress[]): boolean {
  const at = gw === undefined ? undefined : parseAddress(gw)
  if (at === undefined || addresses.some(({ gateway }) => gateway === gw)) return false
  return addresses.some(({ address }) => includes(toCidr(address), at))
}

export const ptp: Driver<PtpConf> = { partsOf, networkOf: networkSpec, hostOps, isRouted: true }
