// SPDX-License-Identifier: Apache-2.0
// Addresses on the host and routes of a routed pod (mode ptp) as the upstream ptp makes them: the gateway
// by the link, all else through a gateway (docs/design.md, "Upstream bridge and ptp").

import {
  bareAddress,
  bitsOf,
  familyOf,
  formatCidr,
  includes,
  networkOf,
  parseAddress,
  parseCidr,
} from '../../cni/model/address.ts'
import { CniError } from '../../cni/model/error.ts'
import type { Route } from '../../cni/model/route.ts'
import type { AttachmentSpec, LinkEnd, PodAddress, PodRoute } from '../model/attachment.ts'
import { linkLocalCidr } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import { linkScope } from '../model/rtnetlink.ts'

/** What podRoutes (pod-routes.ts) gives, or the same for a routed pod. */
interface Routes {
  readonly routes: readonly PodRoute[]
  readonly defaultRoutes: readonly PodRoute[]
}

/**
 * `given` with the routes of the addresses before them. `dad`: the kernel takes an IPv6 source only when it has passed
 * DAD (net/ipv6/route.c), so there is none. Throws CniError invalidConfig for an address without gateway.
 */
export function routedPodRoutes(ips: readonly PodAddress[], given: Routes, dad: boolean): Routes {
  const direct = (route: Route) => (isBeyondGateway(route, ips) ? { ...route, onlink: true as const } : route)
  return {
    routes: [...ips.flatMap((ip) => addressRoutes(ip, dad)), ...given.routes.map(direct)],
    defaultRoutes: given.defaultRoutes.map(direct),
  }
}

/**
 * The upstream ptp's host side: the gateway's address on the pod's own link, and a route to the pod.
 * The link-local address is ours, so that the host can ask for the pod's MAC at once: with a tentative
 * one it asks nothing (net/ipv6/ndisc.c, ndisc_solicit), and forwarded packets wait for DAD.
 */
export function routedHostOps(spec: AttachmentSpec, host: LinkEnd): readonly Op[] {
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
  const cidr = parseCidr(address)
  const subnet = cidr === undefined ? address : formatCidr(networkOf(cidr))
  const isHost = /\/(32|128)$/.test(subnet)
  const toGateway = { dst: `${gateway}/${bitsOf(familyOf(gateway))}`, ...source, scope: linkScope }
  return isHost ? [toGateway] : [toGateway, { dst: subnet, gw: gateway, ...source }]
}

/**
 * A gateway of the subnet that is not the pod's: the kernel would look for it behind the pod's gateway and
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
