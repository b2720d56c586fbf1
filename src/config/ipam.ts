// SPDX-License-Identifier: Apache-2.0
// `ipam`, `podcidr` and the requested addresses: where a pod's addresses come from. Sources and their order are those of
// the reference host-local and static plugins (backend/allocator/config.go, static/main.go).

import { type Cidr, familyOf, formatAddress, formatCidr, includes, parseAddress, parseCidr } from '../cni/addresses.ts'
import type { Call } from '../cni/call.ts'
import { isPluginType } from '../cni/config-head.ts'
import { CniError, Code, configError, type KeyPath, notA, quote } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import { atLeast, type CniVersion, type Dns, type Route } from '../cni/results.ts'
import type { IpamConf, PoolIpam, StaticIpam } from './network-conf.ts'
import { type RangeSetInput, readExclude, readRangeSets } from './ranges.ts'
import type { RawConfig } from './schema.ts'

type RawIpam = NonNullable<RawConfig['ipam']>

type IpamSource = Pick<RawConfig, 'ipam' | 'podcidr'> & {
  readonly args?: { readonly cni?: { readonly ips?: readonly string[] | undefined } | undefined } | undefined
  readonly runtimeConfig?: Pick<NonNullable<RawConfig['runtimeConfig']>, 'ipRanges' | 'ips'> | undefined
}

interface IpamSourceCall {
  readonly call: Call
  readonly cniVersion: CniVersion
}

/** Where the upstream host-local keeps its reservations. */
export const defaultDataDir = '/var/lib/cni/networks'

function badArgs(message: string, details: string): CniError {
  return new CniError(Code.invalidEnvironment, 'cni-args-invalid', `CNI_ARGS: ${message}`, { details })
}

/** Results below 0.3.0 have one `ip4` and one `ip6`. */
function requireOnePerFamily(families: readonly (4 | 6)[], path: KeyPath, version: CniVersion): void {
  const isOnePerFamily = new Set(families).size === families.length
  if (atLeast(version, '0.3.0') || isOnePerFamily) return
  const message = `CNI version ${version} does not support more than 1 address per family`
  const hint = 'use cniVersion "1.0.0", or one address of each family'
  throw configError(path, message, { id: 'address-per-family', hint })
}

/** In the reference's order, on which `last_reserved_ip.<index>` depends: capability, single range, `ranges`. */
function sourceSets(raw: IpamSource, ipam: RawIpam): readonly RangeSetInput[] {
  const { subnet, rangeStart, rangeEnd, gateway } = ipam
  const path = ['ipam']
  return [
    ...listedSets(raw.runtimeConfig?.ipRanges, ['runtimeConfig', 'ipRanges']),
    ...(subnet ? [{ path, ranges: [{ path, subnet, rangeStart, rangeEnd, gateway }] }] : []),
    ...listedSets(ipam.ranges, ['ipam', 'ranges']),
  ]
}

function listedSets(sets: RawIpam['ranges'], path: KeyPath): readonly RangeSetInput[] {
  return (sets ?? []).map((ranges, set) => {
    return { path: [...path, set], ranges: ranges.map((range, at) => ({ ...range, path: [...path, set, at] })) }
  })
}

/** Addresses asked for, of all three sources one after the other; a prefix length is ignored. */
function readRequested(raw: IpamSource, call: Call): readonly string[] {
  const hint = 'use an address like "10.1.2.3"'
  const read = (text: string, path?: KeyPath) => {
    const address = parseAddress(text) ?? parseCidr(text)
    if (address !== undefined) return formatAddress(address)
    if (path === undefined) throw badArgs(`IP ${quote(text)} is not an IP address`, hint)
    throw notA(path, text, { id: 'requested-address-invalid', what: 'an IP address', hint })
  }
  const all = [
    ...call.args.ip.map((text) => read(text)),
    ...(raw.args?.cni?.ips ?? []).map((text, i) => read(text, ['args', 'cni', 'ips', i])),
    ...(raw.runtimeConfig?.ips ?? []).map((text, i) => read(text, ['runtimeConfig', 'ips', i])),
  ]
  return [...new Set(all)]
}

function readPool(raw: IpamSource, sets: readonly RangeSetInput[], { call, cniVersion }: IpamSourceCall): PoolIpam {
  const ipam = raw.ipam ?? {}
  // A range of the capability ipRanges comes with ADD only: libcni sends GC and STATUS no runtimeConfig.
  const rangeSets = sets.length === 0 && call.verb !== 'ADD' ? [] : readRangeSets(sets)
  const families = rangeSets.map(([first]) => (first === undefined ? 4 : familyOf(first.subnet)))
  requireOnePerFamily(families, raw.ipam === undefined ? ['podcidr'] : ['ipam', 'ranges'], cniVersion)
  return {
    kind: 'pool',
    rangeSets,
    requested: readRequested(raw, call),
    exclude: readExclude(ipam.exclude ?? []),
    routes: readRoutes(ipam.routes ?? [], ['ipam', 'routes']),
    ...(ipam.resolvConf ? { resolvConf: ipam.resolvConf } : {}),
    dataDir: ipam.dataDir || defaultDataDir,
  }
}

function readPodcidr(raw: IpamSource, call: IpamSourceCall): PoolIpam {
  const list = typeof raw.podcidr === 'string' ? [raw.podcidr] : (raw.podcidr ?? [])
  const usual = 'use one range, or one of IPv4 and one of IPv6; for others use ipam.ranges'
  const hint = list.length > 0 ? usual : `if trestle agent removed the ranges, its /readyz says why; else ${usual}`
  const refuse = (message: string) => configError(['podcidr'], message, { id: 'podcidr-count', hint })
  if (list.length === 0 || list.length > 2) throw refuse(`${list.length} ranges given`)
  const families = new Set(list.map(familyOf))
  if (families.size < list.length) throw refuse('two ranges of one address family')
  const sets = list.map((subnet, index) => {
    const path = typeof raw.podcidr === 'string' ? ['podcidr'] : ['podcidr', index]
    if (parseCidr(subnet) === undefined) {
      const hint = 'use one like "10.240.0.0/24"'
      throw notA(path, subnet, { id: 'podcidr-invalid', what: 'a range in CIDR notation', hint })
    }
    return { path, ranges: [{ path, subnet }] }
  })
  return readPool(raw, [...listedSets(raw.runtimeConfig?.ipRanges, ['runtimeConfig', 'ipRanges']), ...sets], call)
}

interface StaticAddress {
  readonly cidr: Cidr
  readonly gateway?: string
}

const addressHint = 'use an address with its prefix length, like "10.1.2.3/24"'

/** `ipam.addresses` and the addresses of CNI_ARGS, with the gateways of CNI_ARGS. */
function configuredAddresses(ipam: RawIpam, { args }: Call): readonly StaticAddress[] {
  const addresses = (ipam.addresses ?? []).map(({ address, gateway }, index): StaticAddress => {
    const path = ['ipam', 'addresses', index]
    const cidr = parseCidr(address ?? '')
    if (cidr === undefined) {
      const message = `the 'address' field is expected to be in CIDR notation, got: '${(address ?? '').slice(0, 64)}'`
      throw configError([...path, 'address'], message, { id: 'static-address-invalid', hint: addressHint })
    }
    if (!gateway) return { cidr }
    const parsed = parseAddress(gateway)
    if (parsed?.family === cidr.family) return { cidr, gateway: formatAddress(parsed) }
    const what = `an IPv${cidr.family} address`
    throw notA([...path, 'gateway'], gateway, { id: 'static-gateway-invalid', what, hint: 'use one like the address' })
  })
  for (const text of args.ip) {
    const cidr = parseCidr(text)
    if (cidr !== undefined) addresses.push({ cidr })
    else throw badArgs(`the 'ip' field is expected to be in CIDR notation, got: '${text.slice(0, 64)}'`, addressHint)
  }
  for (const text of args.gateway) {
    const gateway = parseAddress(text)
    if (gateway === undefined)
      throw badArgs(`invalid gateway address: ${quote(text)}`, 'use addresses with commas between')
    for (const [at, { cidr }] of addresses.entries())
      if (includes(cidr, gateway)) addresses[at] = { cidr, gateway: formatAddress(gateway) }
  }
  return addresses
}

/** The later source replaces the earlier (upstream static: config and CNI_ARGS < args.cni < runtimeConfig). */
function staticAddresses(raw: IpamSource, ipam: RawIpam, call: Call): readonly StaticAddress[] {
  const read = (ips: readonly string[] | undefined, path: KeyPath) =>
    (ips ?? []).map((text, index): StaticAddress => {
      const cidr = parseCidr(text)
      if (cidr !== undefined) return { cidr }
      const message = `an entry in the 'ips' field is NOT in CIDR notation, got: '${text.slice(0, 64)}'`
      throw configError([...path, index], message, { id: 'static-address-invalid', hint: addressHint })
    })
  const sources = [
    read(raw.runtimeConfig?.ips, ['runtimeConfig', 'ips']),
    read(raw.args?.cni?.ips, ['args', 'cni', 'ips']),
    configuredAddresses(ipam, call),
  ]
  return sources.find((addresses) => addresses.length > 0) ?? []
}

function readStatic(raw: IpamSource, ipam: RawIpam, { call, cniVersion }: IpamSourceCall): StaticIpam {
  const addresses = staticAddresses(raw, ipam, call)
  const families = addresses.map(({ cidr }) => cidr.family)
  requireOnePerFamily(families, ['ipam', 'addresses'], cniVersion)
  return {
    kind: 'static',
    addresses: addresses.map(({ cidr, gateway }) => ({ address: formatCidr(cidr), ...defined({ gateway }) })),
    routes: readRoutes(ipam.routes ?? [], ['ipam', 'routes']),
    ...defined({ dns: readDns(ipam.dns) }),
  }
}

/** No `ipam.type`: layer 2 only, unless other keys show that one was forgotten. */
function readUntyped(ipam: RawIpam): IpamConf {
  const key = (['subnet', 'ranges', 'addresses'] as const).find((name) => ipam[name] !== undefined)
  if (key === undefined) return { kind: 'none' }
  const hint = 'use "trestle" for ranges, "static" for addresses'
  throw configError(['ipam', 'type'], `missing, but ipam.${key} is given`, { id: 'ipam-type-missing', hint })
}

/**
 * Where the addresses come from. Throws CniError invalidConfig, or invalidEnvironment for CNI_ARGS.
 * Source: plugins/ipam/host-local/backend/allocator/config.go, plugins/ipam/static/main.go.
 */
export function readIpam(raw: IpamSource, call: IpamSourceCall): IpamConf {
  const { ipam } = raw
  if (raw.podcidr !== undefined) {
    if (ipam === undefined) return readPodcidr(raw, call)
    const hint = 'use one of the two; podcidr is a short form of ipam'
    throw configError(['podcidr'], 'given together with ipam', { id: 'podcidr-with-ipam', hint })
  }
  const type = ipam?.type ?? ''
  if (ipam === undefined) return { kind: 'none' }
  if (type === '') return readUntyped(ipam)
  if (type === 'host-local' || call.call.ownTypes.includes(type)) return readPool(raw, sourceSets(raw, ipam), call)
  if (type === 'static') return readStatic(raw, ipam, call)
  if (isPluginType(type)) return { kind: 'delegated', type }
  const hint = 'use a file name of CNI_PATH, without /'
  throw notA(['ipam', 'type'], type, { id: 'plugin-type-invalid', what: 'the name of a plugin', hint })
}

// Routes, DNS and lists of prefixes of a configuration, in canonical text.

type RawDns = NonNullable<RawConfig['dns']>

/**
 * Routes with canonical destinations, host bits kept, as upstream prints them; a gateway is of its route's family.
 * Throws CniError invalidConfig.
 */
function readRoutes(raw: NonNullable<RawIpam['routes']>, path: KeyPath): readonly Route[] {
  return raw.map(({ dst: text, gw: through, mtu, advmss, priority, table, scope }, index) => {
    const dst = parseCidr(text ?? '')
    if (dst === undefined) {
      const expected = {
        id: 'route-destination',
        what: 'a destination in CIDR notation',
        hint: 'use one like "0.0.0.0/0"',
      }
      throw notA([...path, index, 'dst'], text, expected)
    }
    const route: Route = { dst: formatCidr(dst), ...defined({ mtu, advmss, priority, table, scope }) }
    if (!through) return route
    const gw = parseAddress(through)
    if (gw?.family === dst.family) return { ...route, gw: formatAddress(gw) }
    const hint = 'use an address of the same family as dst'
    throw notA([...path, index, 'gw'], through, { id: 'route-gateway', what: `an IPv${dst.family} address`, hint })
  })
}

/** The DNS settings, or undefined when none are set. An empty list counts as set, as in upstream. */
function readDns(raw: RawDns | undefined): Dns | undefined {
  if (raw === undefined) return undefined
  const { nameservers, domain, search, options } = raw
  const dns: Dns = defined({ nameservers, domain: domain || undefined, search, options })
  return Object.keys(dns).length === 0 ? undefined : dns
}

/** `dns` with what the runtime asks for (capability `dns`, CONVENTIONS.md) in place of the same field. */
export function readTopDns(raw: Pick<RawConfig, 'dns' | 'runtimeConfig'>): Dns | undefined {
  const asked = raw.runtimeConfig?.dns
  const filled = (list: readonly string[] | undefined) => (list === undefined || list.length === 0 ? undefined : list)
  const runtime = defined({
    nameservers: filled(asked?.servers),
    search: filled(asked?.searches),
    options: filled(asked?.options),
  })
  const dns: Dns = { ...readDns(raw.dns), ...runtime }
  return Object.keys(dns).length === 0 ? undefined : dns
}
