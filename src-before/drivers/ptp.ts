// SPDX-License-Identifier: Apache-2.0
// mode `ptp`: a veth pair and no bridge. Addresses on the host and routes of the pod are as the upstream ptp makes
// them: the gateway by the link, all else through a gateway (docs/design.md, "Upstream bridge and ptp").

import {
  asPrefix,
  bareAddress,
  bitsOf,
  canonicalNetwork,
  familyOf,
  includes,
  isSubnet,
  parseAddress,
  parseCidr,
} from '../cni/address.ts'
import { CniError } from '../cni/error.ts'
import { defined } from '../cni/json.ts'
import type { Route } from '../cni/result.ts'
import type { PtpNetConf } from '../config/net-conf.ts'
import { acceptOf, ingressPolicyOf } from '../features/firewall.ts'
import { masqueradeSpec, wantsHairpin } from '../features/masquerade.ts'
import type { AttachmentSpec, LinkEnd, NetworkSpec, PodAddress, PodRoute } from '../model/attachment.ts'
import { hostLinkMac, hostLinkName, linkLocalCidr } from '../model/names.ts'
import { linkScope, type Op } from '../model/op.ts'
import type { Decided, InterfaceDriver, OwnParts, Routes } from './driver.ts'
import { interfacePodOps, markOp, vethOps } from './interface.ts'
import { familiesOf, gatewaysOf, subnetsOf } from './subnets.ts'

function partsOf(conf: PtpNetConf, { key, ips, given }: Decided): OwnParts {
  const host = { name: hostLinkName(key), mac: hostLinkMac(key) }
  return {
    host,
    routes: routedPodRoutes(ips, given, conf.enabledad),
    subnetRoutes: [],
    hostLink: host.name,
    selfHairpin: wantsHairpin(conf),
    ...defined({ ingressPolicy: ingressPolicyOf(conf) }),
  }
}

/** Without a bridge each pod has a link of its own: the network's subnets stand for the links. */
function routedNetwork(conf: PtpNetConf, ips: readonly PodAddress[]): NetworkSpec {
  const subnets = subnetsOf(conf, ips)
  const ranges = gatewaysOf(conf, ips)
  return {
    name: conf.name,
    forwarding: familiesOf(subnets),
    ...defined({ masquerade: masqueradeSpec(conf, subnets) }),
    ...acceptOf(conf, { acceptSubnets: subnets }, subnets),
    ...(ranges.length > 0 ? { ranges } : {}),
    removeWhenEmpty: conf.removeWhenEmpty,
  }
}

function hostOps(spec: AttachmentSpec): readonly Op[] {
  const { host } = spec
  const pair = vethOps(spec)
  if (host === undefined || pair.length === 0) return []
  return [...pair, ...routedHostOps(spec, host)]
}

function leasedHostOps(spec: AttachmentSpec): readonly Op[] {
  return spec.host === undefined ? [] : [markOp(spec, spec.host), ...routedHostOps(spec, spec.host)]
}

/**
 * `given` behind the routes of the addresses. `dad`: no IPv6 source, which the kernel takes only after DAD
 * (net/ipv6/route.c). Throws CniError invalidConfig for an address without gateway.
 */
function routedPodRoutes(ips: readonly PodAddress[], given: Routes, dad: boolean): Routes {
  const direct = (route: Route) => (isBeyondGateway(route, ips) ? { ...route, onlink: true as const } : route)
  return {
    routes: [...ips.flatMap((ip) => addressRoutes(ip, dad)), ...given.routes.map(direct)],
    defaultRoutes: given.defaultRoutes.map(direct),
  }
}

/**
 * The upstream ptp's host side: the gateway's address on the pod's own link, and a route to the pod. With a link-local
 * address of ours the host can ask for the pod's MAC at once, with a tentative one after DAD (net/ipv6/ndisc.c,
 * ndisc_solicit).
 */
function routedHostOps(spec: AttachmentSpec, host: LinkEnd): readonly Op[] {
  const local = spec.ips.some(({ address }) => familyOf(address) === 6)
    ? [hostAddress(linkLocalCidr(host.mac), host.name)]
    : []
  const perAddress = spec.ips.flatMap(({ address, gateway }): readonly Op[] => {
    const bits = bitsOf(familyOf(address))
    const dst = `${bareAddress(address)}/${bits}`
    return [
      ...(gateway === undefined ? [] : [hostAddress(`${gateway}/${bits}`, host.name)]),
      { in: 'host', kind: 'hostroute.replace', dev: host.name, dst, why: `route ${dst} to the pod` },
    ]
  })
  return [...local, ...perAddress]
}

function hostAddress(cidr: string, dev: string): Op {
  return { in: 'host', kind: 'addr.replace', dev, cidr, dad: false, why: `add ${cidr} to ${dev}` }
}

function addressRoutes({ address, gateway }: PodAddress, dad: boolean): readonly PodRoute[] {
  if (gateway === undefined) throw noGateway(address)
  const source = dad && familyOf(address) === 6 ? {} : { src: bareAddress(address) }
  const subnet = canonicalNetwork(address)
  const toGateway = { dst: asPrefix(gateway), ...source, scope: linkScope }
  return isSubnet(subnet) ? [toGateway, { dst: subnet, gw: gateway, ...source }] : [toGateway]
}

/**
 * Whether the gateway is in the subnet and is not the pod's: the kernel would look for it behind the pod's gateway and
 * refuse the route. Upstream adds routes while the subnet is still on the link.
 */
function isBeyondGateway({ gw }: Route, ips: readonly PodAddress[]): boolean {
  const at = gw === undefined ? undefined : parseAddress(gw)
  if (at === undefined || ips.some(({ gateway }) => gateway === gw)) return false
  return ips.some(({ address }) => {
    const cidr = parseCidr(address)
    return cidr !== undefined && includes(cidr, at)
  })
}

function noGateway(address: string): CniError {
  return new CniError('gateway-missing', `ipam: ${address} has no gateway, and mode ptp routes through one`, {
    details: 'give the address a "gateway" (ipam.addresses, or GATEWAY in CNI_ARGS), or use mode bridge',
  })
}

export const ptp: InterfaceDriver<PtpNetConf> = {
  isRouted: true,
  hostOps,
  leasedHostOps,
  podOps: (spec) => interfacePodOps(spec, true),
  partsOf,
  gatewaySide: (conf, ips) => ({ name: conf.name, ranges: gatewaysOf(conf, ips) }),
  networkOf: routedNetwork,
}
