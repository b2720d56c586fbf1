// SPDX-License-Identifier: Apache-2.0
// Configuration and lease -> spec: every name, MAC, address, route, port, element, queue and sysctl of an attachment is
// decided here, purely. Everything that acts is a function of the result.

import { bareAddress, familyOf, includes, networkText, parseAddress, toCidr } from '../cni/addresses.ts'
import { CniError, Code } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { Route } from '../cni/results.ts'
import type { InterfaceConf, IpamConf } from '../config/network-conf.ts'
import { bandwidthOf } from '../features/bandwidth.ts'
import { hostPortsOf } from '../features/host-ports.ts'
import { isDefault, routesBySource, subnetRoutes } from '../features/sbr.ts'
import { refuseDisabledIpv6, tuningOf } from '../features/tuning.ts'
import { linkScope } from '../kernel/operation.ts'
import type { Device, NodeFacts, Parts } from './driver.ts'
import { driverOf } from './drivers.ts'
import { addressMac, podLinkMac } from './names.ts'
import type { AttachmentId, Lease, NetworkSpec, PodAddress, PodRoute, Spec } from './spec.ts'
import { withFirstGateway } from './subnets.ts'

export interface Description {
  readonly id: AttachmentId
  readonly conf: InterfaceConf
  readonly lease: Lease
  readonly node: NodeFacts
  readonly device?: Device | undefined
  /** The network as it was set up: a bridge that another program made keeps its MAC and MTU. */
  readonly known?: NetworkSpec | undefined
  /** Routing tables of the pod that are in use; for sbr. */
  readonly usedTables?: ReadonlySet<number>
}

/** The lease of an interface that is made before its addresses are known: dhcp needs it. */
export const noLease: Lease = { addresses: [], routes: [] }

/** All decisions about an attachment that makes an interface. Throws CniError 7. */
export function describe({ id, conf, lease, node, device, known, usedTables = new Set() }: Description): Spec {
  const addresses = conf.isGateway ? lease.addresses.map(withFirstGateway) : lease.addresses
  requireOtherGateway(addresses, conf.ipam)
  const driver = driverOf(conf)
  const ownMac = ownAddressMac(conf.ipam, addresses)
  const mac = conf.tuning?.mac ?? conf.mac ?? ownMac ?? podLinkMac(id)
  const mtu = conf.mtu === 'auto' ? node.mtu : conf.mtu
  const podRoutes = routesOf(lease.routes, addresses, conf.isDefaultGateway)
  if (!driver.isRouted && !conf.disableContainerInterface) requireNearGateways(podRoutes, addresses)
  if (conf.tuning !== undefined && addresses.some(({ address }) => familyOf(address) === 6))
    refuseDisabledIpv6(conf.tuning, id.ifName, 'ipam')
  const { routes, defaultRoutes, wayToPod, ...own } = driver.partsOf(conf, {
    id,
    mac,
    mtu,
    addresses,
    device,
    ...podRoutes,
  })
  // Routes that the kernel adds with the addresses.
  const connected = driver.isRouted ? [] : addresses.flatMap(subnetRoutes)
  const network = keepForeignBridge(driver.networkOf(conf, addresses, node), known)
  const pod = { name: id.ifName, mac, mtu: conf.tuning?.mtu ?? mtu }
  const hostPorts = wayToPod && hostPortsOf(conf, addresses, wayToPod)
  return {
    id,
    mode: conf.mode,
    network,
    addresses,
    ...routesBySource(conf.sbr, { connected, routes, defaultRoutes }, { ips: addresses, usedTables }),
    hasDad: conf.enabledad,
    isLeftDown: conf.disableContainerInterface,
    hasAddressMac: ownMac !== undefined && mac === ownMac,
    reachesItself: reachesItself(conf, own, hostPorts?.snat ?? false),
    ...defined({
      pod: own.device?.driver === undefined ? pod : undefined,
      hostPorts,
      bandwidth: bandwidthOf(conf.bandwidth, { id, link: own.host?.name ?? '', mtu }),
      tuning: tuningOf(conf),
      dns: conf.dns ?? lease.dns,
    }),
    ...own,
  }
}

/** By a host port, and by a Service where the pod has a link of its own or nothing of its bridge reaches it. */
function reachesItself(conf: InterfaceConf, { host, port, fencedLink }: Partial<Parts>, byPort: boolean): boolean {
  if (host === undefined || !conf.portmap.snat) return false
  const isRouted = port === undefined
  return (
    byPort ||
    (isRouted && conf.ipMasq) ||
    (port?.isolated === true && conf.firewall?.ingressPolicy === 'isolated') ||
    fencedLink !== undefined
  )
}

/** A bridge that is there with another MAC stays as it is. */
export function keepForeignBridge(network: NetworkSpec, known: NetworkSpec | undefined): NetworkSpec {
  const [now, before] = [network.bridge, known?.bridge]
  if (now === undefined || before === undefined || before.name !== now.name) return network
  const { mac, mtu, isForeign } = before
  return { ...network, bridge: { ...now, mac, mtu, isForeign } }
}

/** The MAC that follows an address of ours: the requested one, which comes again, else the first. */
function ownAddressMac(ipam: IpamConf, addresses: readonly PodAddress[]): string | undefined {
  if (ipam.kind !== 'pool' && ipam.kind !== 'static') return undefined
  const requested = ipam.kind === 'pool' ? ipam.requested : []
  const address = addresses.find((ip) => requested.includes(bareAddress(ip.address))) ?? addresses[0]
  return address && addressMac(toCidr(address.address))
}

/** A pool gives no pod its gateway; an address that is its own gateway would be the host's. */
function requireOtherGateway(addresses: readonly PodAddress[], { kind }: IpamConf): void {
  const own = addresses.find(({ address, gateway }) => gateway === bareAddress(address))
  if (own === undefined) return
  const [code, id] =
    kind === 'delegated'
      ? [Code.addressUnavailable, 'requested-gateway']
      : [Code.invalidConfig, 'static-gateway-invalid']
  throw new CniError(code, id, `${own.address} is its own gateway`, {
    details: 'use another address for the pod or another gateway; the default is the first address of the subnet',
  })
}

interface PodRoutes {
  readonly routes: readonly PodRoute[]
  readonly defaultRoutes: readonly PodRoute[]
}

/**
 * The kernel refuses a route whose gateway is on no link (net/ipv4/fib_semantics.c, fib_check_nh); by then the gateway
 * would be on the bridge. Link-local IPv6 addresses are on every link.
 */
function requireNearGateways({ routes, defaultRoutes }: PodRoutes, addresses: readonly PodAddress[]): void {
  const onLink = routes.flatMap(({ gw, dst }) => (gw === undefined ? dst : []))
  const near = [...addresses.map(({ address }) => address), ...onLink, 'fe80::/64'].map(toCidr)
  const far = [...routes, ...defaultRoutes].find(({ gw }) => {
    const at = gw === undefined ? undefined : parseAddress(gw)
    return at !== undefined && !near.some((cidr) => includes(cidr, at))
  })
  if (far === undefined) return
  const list = addresses.map(({ address }) => address).join(', ')
  const message = `ipam: gateway ${far.gw} is in no subnet of the pod (${list})`
  throw new CniError(Code.invalidConfig, 'gateway-unreachable', message, {
    details: `the route to ${far.dst} goes through it; give the addresses a gateway of their subnet, or use mode ptp`,
  })
}

/** The pod's routes, with gateways filled in. Plain default routes stand apart: they never replace one of the pod. */
function routesOf(leased: readonly Route[], addresses: readonly PodAddress[], isDefaultGateway: boolean): PodRoutes {
  const given = leased.map((route) => ({ ...route, dst: networkText(route.dst) }))
  const complete = given.map((route) => throughGateway(withoutZeros(route), addresses))
  const wanted = isDefaultGateway ? addresses.flatMap(defaultThrough) : []
  // As in the reference bridge: a default route with a gateway of its own, in whatever table, is the one meant.
  const named = given.filter((route) => isDefault(route) && route.gw !== undefined)
  const families = new Set([...complete.filter(isPlainDefault), ...named].map(({ dst }) => dst))
  const missing = wanted.filter(
    ({ dst }, at) => !families.has(dst) && wanted.findIndex((other) => other.dst === dst) === at,
  )
  return {
    routes: distinct(complete.filter((route) => !isPlainDefault(route))),
    defaultRoutes: [...distinct(complete.filter(isPlainDefault)), ...missing],
  }
}

/** 0 is "not set": the kernel takes table 0 for the main one, and shows none of the others. */
function withoutZeros({ priority, mtu, advmss, table, ...route }: Route): Route {
  const set = { priority: priority || undefined, mtu: mtu || undefined, advmss: advmss || undefined }
  return { ...route, ...defined({ ...set, table: table || undefined }) }
}

/** A route without a gateway takes the first of its family, but for IPv4 routes on the link (fib_check_nh). */
function throughGateway(route: Route, addresses: readonly PodAddress[]): Route {
  const family = familyOf(route.dst)
  const isOnLink = family === 4 && route.scope !== undefined && route.scope >= linkScope
  if (route.gw !== undefined || isOnLink) return route
  const gw = addresses.find(({ gateway }) => gateway !== undefined && familyOf(gateway) === family)?.gateway
  return gw === undefined ? route : { ...route, gw }
}

function defaultThrough({ gateway: gw }: PodAddress): readonly Route[] {
  return gw === undefined ? [] : [{ dst: familyOf(gw) === 6 ? '::/0' : '0.0.0.0/0', gw }]
}

/** In the main table with the default metric; another table or metric is asked for on purpose. */
function isPlainDefault(route: Route): boolean {
  return isDefault(route) && route.table === undefined && route.priority === undefined
}

function distinct(routes: readonly Route[]): readonly Route[] {
  const seen = new Set<string>()
  return routes.filter(({ dst, gw, priority, table }) => {
    const text = JSON.stringify([dst, gw, priority, table])
    return !seen.has(text) && seen.add(text)
  })
}
