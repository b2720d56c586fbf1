// SPDX-License-Identifier: Apache-2.0
// What links and tables of the kernel tell of an attachment whose record was lost: of a live one and of its network as
// much as its rules and its place need to be built again after a flush; of any the elements that go with it.

import { asPrefix, bareAddress, bitsOf, familyOf, includes, parseCidr } from '../../cni/address.ts'
import { defined } from '../../cni/json.ts'
import { gatewayLink } from '../../features/bridge-port.ts'
import { reservationName } from '../../features/host-ports.ts'
import type {
  AttachmentKey,
  AttachmentSpec,
  BridgeSpec,
  HostPort,
  NetworkSpec,
  PodAddress,
  VlanGateway,
} from '../../model/attachment.ts'
import { isPodLinkName, linkLocalCidr } from '../../model/names.ts'
import type { ObservedLink, ObservedTable } from '../../model/observed.ts'
import { type Element, elementAt, elementsIn, keyText } from '../../model/op.ts'
import type { SetName } from '../../model/tables.ts'

/** A live pod: its link of the host, and the pod's end of it. */
export interface SeenPod {
  readonly key: AttachmentKey
  readonly link: ObservedLink
  readonly end: ObservedLink
}

/** All links of the host, the elements of our tables, and the families that are forwarded. */
interface Surroundings {
  readonly links: ReadonlyMap<string, ObservedLink>
  readonly table: ObservedTable
  readonly forwarded: readonly (4 | 6)[]
}

/** Whether its link is where it belongs: not where its bridge is gone. A routed pod's link has the gateways. */
export function isPlaced({ link }: Pick<SeenPod, 'link'>): boolean {
  return link.master !== undefined || link.addresses.some(isGlobal)
}

/** The gateways of a pod, with prefix length: a routed pod's link has them, else its bridge. */
export function gatewaysOf(link: ObservedLink, links: Surroundings['links']): readonly string[] {
  const bridge = links.get(link.master ?? '')
  return bridge === undefined ? link.addresses.filter(isGlobal) : bridgeOf(bridge, links).addresses
}

/** The attachment, without what no rule needs: the pod's routes, sysctls, limits. */
export function seenAttachment({ key, link, end }: SeenPod, { links, table }: Surroundings): AttachmentSpec {
  const isRouted = link.master === undefined
  const bridge = link.master === undefined ? undefined : links.get(link.master)
  const way = bridge && (vlanGateway(bridge, links)?.name ?? bridge.name)
  const ips = end.addresses.filter(isGlobal).map((address) => withGateway(address, links.get(way ?? '') ?? link))
  const has = (set: SetName, ...keyed: readonly string[]) =>
    elementsIn(table.elements, set).some(({ key: fields }) => keyed.every((field, at) => fields[at] === field))
  const macs = elementsIn(table.elements, 'guardedmac').flatMap(({ key: [name, mac] }) =>
    name === link.name ? mac : [],
  )
  const ports = portsOf(table, ips)
  const isSelf = ips.some(({ address }) => has(`self${familyOf(address)}`, bareAddress(address)))
  return {
    key,
    mode: isRouted ? 'ptp' : 'bridge',
    mtu: link.mtu,
    host: { name: link.name, mac: link.mac },
    pod: { name: end.name, mac: end.mac, ...(end.mtu === link.mtu ? {} : { mtu: end.mtu }) },
    ...(bridge && {
      port: {
        bridge: bridge.name,
        hairpin: link.hairpin ?? false,
        isolated: link.isolated ?? false,
        ...(macs[0] === undefined ? {} : { onlyMac: macs[0] }),
      },
    }),
    ips,
    routes: [],
    defaultRoutes: [],
    podLinkDown: !end.up,
    dad: false,
    selfHairpin: isSelf,
    // Of one pod's link both policies are the same.
    ...(isRouted && has('fenced', link.name) ? { ingressPolicy: 'isolated' } : {}),
    ...(ports.length > 0
      ? {
          hostPorts: {
            link: way ?? link.name,
            snat: has('loopback', way ?? link.name),
            masqAll: ports.some((port) =>
              has(`masqall${port.family}`, port.podIp, port.protocol, `${port.containerPort}`),
            ),
            ports,
          },
        }
      : {}),
    isPool: true,
    cooldownS: 0,
  }
}

/** What the live pods of one network share. */
export function seenNetwork(name: string, pods: readonly SeenPod[], around: Surroundings): NetworkSpec {
  const { links, table, forwarded } = around
  const [master] = pods.flatMap(({ link }) => link.master ?? [])
  const found = master === undefined ? undefined : links.get(master)
  const bridge = found && bridgeOf(found, links)
  const own = pods.flatMap(({ end }) => end.addresses.filter(isGlobal))
  // Where nothing tells a pod's address of a family, its gateway is in the same prefixes.
  const gateways = [...(bridge?.addresses ?? []), ...pods.flatMap(({ link }) => link.addresses.filter(isGlobal))]
  const isUnknown = (gateway: string) => !own.some((address) => familyOf(address) === familyOf(gateway))
  const addresses = [...own, ...gateways.filter(isUnknown)]
  const families = new Set(addresses.map(familyOf))
  const prefixes = (set: 'masq' | 'acceptnet' | 'keep' | 'hairpin' | 'acceptnew') =>
    ([4, 6] as const)
      .flatMap((family) => elementsIn(table.elements, `${set}${family}`))
      // A prefix of one address is listed without its length.
      .map(({ key }) => key.map(asPrefix))
      .filter(([first = '']) => addresses.some((address) => isIn(first, address)))
  const firsts = (all: readonly (readonly string[])[]) => [...new Set(all.flatMap(([first]) => first ?? []))].sort()
  const seconds = (all: readonly (readonly string[])[]) =>
    [...new Set(all.flatMap(([, second]) => second ?? []))].sort()
  const hasLink = (set: SetName) =>
    elementsIn(table.elements, set).some(({ key: [link] }) => bridge !== undefined && link === gatewayLink(bridge))
  const subnets = firsts(prefixes('masq'))
  const hairpin = firsts(prefixes('hairpin'))
  const accepted = firsts(prefixes('acceptnet'))
  const pairs = prefixes('acceptnew')
  const to = firsts(pairs)
  const isAccepting = hasLink('acceptlinks') || accepted.length > 0
  const ranges = bridge === undefined ? rangesOf(pods) : []
  return {
    name,
    ...(bridge && { bridge }),
    forwarding: forwarded.filter((family) => families.has(family)),
    ...(subnets.length > 0 ? { masquerade: { subnets, noMasquerade: seconds(prefixes('keep')) } } : {}),
    ...(bridge && hairpin.length > 0 ? { hairpin } : {}),
    ...(hasLink('fenced') ? { ingressPolicy: hasLink('fencedpair') ? 'same-bridge' : 'isolated' } : {}),
    ...(bridge && hasLink('acceptlinks') ? { hostAccept: bridge.name } : {}),
    ...(bridge === undefined && accepted.length > 0 ? { acceptSubnets: accepted } : {}),
    ...(ranges.length > 0 ? { ranges } : {}),
    ...(isAccepting
      ? { acceptNew: to.length === 0 ? 'none' : { to, from: seconds(pairs).filter((each) => !to.includes(each)) } }
      : {}),
    removeWhenEmpty: false,
  }
}

/** Host ports without conditions: a chain of conditions does not tell what it is made of. */
function portsOf(table: ObservedTable, ips: readonly PodAddress[]): readonly HostPort[] {
  const own = new Set(ips.map(({ address }) => bareAddress(address)))
  return portsIn(table).flatMap(({ port, gate }) => (own.has(port.podIp) && gate === undefined ? [port] : []))
}

function bridgeOf(link: ObservedLink, links: Surroundings['links']): BridgeSpec {
  const gateway = vlanGateway(link, links)
  const holder = gateway === undefined ? link : (links.get(gateway.name) ?? link)
  return {
    name: link.name,
    mac: link.mac,
    mtu: link.mtu,
    addresses: holder.addresses.filter(isGlobal).filter((cidr) => cidr !== linkLocalCidr(holder.mac)),
    forceAddress: false,
    promisc: link.promisc,
    vlanFiltering: link.vlanFiltering ?? false,
    ...(gateway && { gateway }),
  }
}

/** The veth `BRIDGE.VLAN`, whose other end is a port of the bridge. */
function vlanGateway(bridge: ObservedLink, links: Surroundings['links']): VlanGateway | undefined {
  for (const { name, kind, mac, peerIndex } of links.values()) {
    const vlan = name.startsWith(`${bridge.name}.`) ? Number(name.slice(bridge.name.length + 1)) : Number.NaN
    const peer = [...links.values()].find(({ index, master }) => index === peerIndex && master === bridge.name)
    if (kind === 'veth' && Number.isInteger(vlan) && peer !== undefined) return { name, mac, peer: peer.name, vlan }
  }
  return undefined
}

/** The gateways of routed pods, with the prefix length of the pod's address. */
function rangesOf(pods: readonly SeenPod[]): readonly string[] {
  const gateways = pods.flatMap(({ end, link }) =>
    end.addresses.filter(isGlobal).flatMap((address) => {
      const { gateway } = withGateway(address, link)
      const [, length] = address.split('/')
      return gateway === undefined || length === `${bitsOf(familyOf(address))}` ? [] : [`${gateway}/${length}`]
    }),
  )
  return [...new Set(gateways)].sort()
}

/** The gateway is the address of the same family that the pod's way out has. */
function withGateway(address: string, way: ObservedLink): PodAddress {
  const those = way.addresses.filter((each) => isGlobal(each) && familyOf(each) === familyOf(address))
  const [gateway] = [...those.filter((each) => isIn(each, address)), ...those]
  return gateway === undefined ? { address } : { address, gateway: bareAddress(gateway) }
}

export function isGlobal(cidr: string): boolean {
  return !cidr.startsWith('fe80:')
}

function isIn(prefix: string, address: string): boolean {
  const [cidr, at] = [parseCidr(prefix), parseCidr(address)]
  return cidr !== undefined && at !== undefined && cidr.family === at.family && includes(cidr, at)
}

// Elements are found by what is still known of the attachment, and removed as they are there. A map refuses a second
// target for a port, so they would keep the port from its next owner.

/** What is still known of an attachment: names of its host ports' reservations, its addresses, the link of its own. */
interface OrphanOwner {
  readonly portNames: readonly string[]
  readonly addresses: readonly string[]
  readonly link: string
}

const linkSets = ['loopback', 'fenced', 'fencedpair', 'guarded', 'guardedmac'] as const
const addressSets = ['self4', 'self6', 'masqhost4', 'masqhost6', 'keephost4', 'keephost6'] as const
const masqallSets = ['masqall4', 'masqall6'] as const

/** The elements of an attachment without a record. */
export function orphanElements(table: ObservedTable, owner: OrphanOwner): readonly Element[] {
  const ports = portsIn(table).filter(
    ({ port }) => owner.portNames.includes(reservationName(port)) || owner.addresses.includes(port.podIp),
  )
  const podPorts = new Set(
    ports.map(({ port: { podIp, protocol, containerPort } }) => `${podIp} ${protocol} ${containerPort}`),
  )
  // A chained attachment has reserved no address: its ports say whose they are.
  const addresses = new Set([...owner.addresses, ...ports.map(({ port }) => port.podIp)])
  return [
    ...ports.map(({ element }) => element),
    ...ports.flatMap(({ gate }) => gate ?? []),
    ...allIn(table, masqallSets).filter((element) => podPorts.has(keyText(element))),
    ...allIn(table, addressSets).filter(({ key: [address = ''] }) => addresses.has(address)),
    ...allIn(table, linkSets).filter(({ key: [link] }) => link === owner.link),
  ]
}

/** What the elements of pods name: addresses, and links that a pod's host end may have the name of. */
export function namedIn(table: ObservedTable): { addresses: ReadonlySet<string>; links: ReadonlySet<string> } {
  const firsts = (sets: readonly SetName[]) => allIn(table, sets).map(({ key: [first = ''] }) => first)
  return {
    addresses: new Set([...portsIn(table).map(({ port }) => port.podIp), ...firsts(addressSets)]),
    links: new Set(firsts(linkSets).filter(isPodLinkName)),
  }
}

/** The addresses in these prefixes that elements of pods name. */
export function addressesIn(table: ObservedTable, prefixes: readonly string[]): readonly string[] {
  if (prefixes.length === 0) return []
  return [...namedIn(table).addresses].filter((address) => prefixes.some((prefix) => isIn(prefix, asPrefix(address))))
}

/** The names that the host ports which lead to one of `addresses` are reserved under. */
export function portNamesTo(table: ObservedTable, addresses: readonly string[]): readonly string[] {
  return portsIn(table).flatMap(({ port }) => (addresses.includes(port.podIp) ? [reservationName(port)] : []))
}

/** The addresses of the other family that the same host ports lead to: a port without an address is of both. */
export function addressesByPort(table: ObservedTable, known: readonly string[]): readonly string[] {
  const own = new Set(known.map(bareAddress))
  const all = portsIn(table).flatMap(({ port }) => (port.hostIp === undefined ? [port] : []))
  const theirs = all.filter(({ podIp }) => own.has(podIp))
  const isSame = (port: HostPort) =>
    theirs.some((other) => other.protocol === port.protocol && other.hostPort === port.hostPort)
  return all.filter((port) => isSame(port) && !own.has(port.podIp)).map(({ podIp }) => podIp)
}

/** A host port, the element that leads to its pod, and the one of its conditions. */
interface PortElement {
  readonly port: HostPort
  readonly element: Element
  readonly gate: Element | undefined
}

function portsIn({ elements }: ObservedTable): readonly PortElement[] {
  return ([4, 6] as const).flatMap((family) =>
    (['', 'any'] as const).flatMap((any) =>
      elementsIn(elements, `${any}ports${family}`).flatMap((element): readonly PortElement[] => {
        const { key, value: [podIp = '', containerPort = ''] = [] } = element
        const [hostPort, protocol, hostIp] = key.toReversed()
        if (!isProtocol(protocol)) return []
        const to = { hostPort: Number(hostPort), podIp, containerPort: Number(containerPort) }
        const port = { family, protocol, ...defined({ hostIp }), ...to }
        return [{ port, element, gate: elementAt(elements, { set: `${any}gates${family}`, key }) }]
      }),
    ),
  )
}

function isProtocol(text = ''): text is HostPort['protocol'] {
  return ['tcp', 'udp', 'sctp'].includes(text)
}

function allIn({ elements }: ObservedTable, sets: readonly SetName[]): readonly Element[] {
  return sets.flatMap((set) => elementsIn(elements, set))
}
