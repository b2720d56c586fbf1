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
import { type RangeInput, type RangeSetInput, readExclude, readRangeSets } from './ranges.ts'
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
  const listed = (sets: readonly (readonly RangeInput[])[] | undefined, path: KeyPath): readonly RangeSetInput[] =>
    (sets ?? []).map((ranges, set) => ({ ranges, pathOf: (at) => [...path, set, ...(at === undefined ? [] : [at])] }))
  const single: RangeSetInput = { ranges: [{ subnet, rangeStart, rangeEnd, gateway }], pathOf: () => ['ipam'] }
  return [
    ...listed(raw.runtimeConfig?.ipRanges, ['runtimeConfig', 'ipRanges']),
    ...(subnet ? [single] : []),
    ...listed(ipam.ranges, ['ipam', 'ranges']),
  ]
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
  const hint = list.length > 0 ? usual : `where trestle agent took them out, its /readyz says why; else ${usual}`
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
    return { ranges: [{ subnet }], pathOf: () => path }
  })
  const capability = sourceSets({ runtimeConfig: raw.runtimeConfig }, {})
  return readPool(raw, [...capability, ...sets], call)
}

interface StaticAddress {
  readonly cidr: Cidr
  readonly gateway?: string
}

function readCidr(text: string | undefined, complaint: (message: string) => CniError, label: string): Cidr {
  const cidr = parseCidr(text ?? '')
  if (cidr !== undefined) return cidr
  throw complaint(`${label} in CIDR notation, got: '${(text ?? '').slice(0, 64)}'`)
}

/** `ipam.addresses` and the addresses of CNI_ARGS, with the gateways of CNI_ARGS. */
function configuredAddresses(ipam: RawIpam, { args }: Call): readonly StaticAddress[] {
  const hint = 'use an address with its prefix length, like "10.1.2.3/24"'
  const given = (ipam.addresses ?? []).map(({ address, gateway }, index): StaticAddress => {
    const path = ['ipam', 'addresses', index]
    const complaint = (message: string) =>
      configError([...path, 'address'], message, { id: 'static-address-invalid', hint })
    const cidr = readCidr(address, complaint, "the 'address' field is expected to be")
    if (!gateway) return { cidr }
    const parsed = parseAddress(gateway)
    if (parsed?.family === cidr.family) return { cidr, gateway: formatAddress(parsed) }
    const what = `an IPv${cidr.family} address`
    const like = 'use one like the address'
    throw notA([...path, 'gateway'], gateway, { id: 'static-gateway-invalid', what, hint: like })
  })
  const asked = args.ip.map((text): StaticAddress => {
    return { cidr: readCidr(text, (message) => badArgs(message, hint), "the 'ip' field is expected to be") }
  })
  return args.gateway.reduce<readonly StaticAddress[]>(
    (addresses, text) => {
      const gateway = parseAddress(text)
      if (gateway === undefined)
        throw badArgs(`invalid gateway address: ${quote(text)}`, 'use addresses with commas between')
      return addresses.map((a) => (includes(a.cidr, gateway) ? { ...a, gateway: formatAddress(gateway) } : a))
    },
    [...given, ...asked],
  )
}

/** The later source replaces the earlier (upstream static: config and CNI_ARGS < args.cni < runtimeConfig). */
function staticAddresses(raw: IpamSource, ipam: RawIpam, call: Call): readonly StaticAddress[] {
  const replace = (ips: readonly string[], path: KeyPath) =>
    ips.map((text, index): StaticAddress => {
      const hint = 'use an address with its prefix length, like "10.1.2.3/24"'
      const parsed = parseCidr(text)
      if (parsed !== undefined) return { cidr: parsed }
      const message = `an entry in the 'ips' field is NOT in CIDR notation, got: '${text.slice(0, 64)}'`
      throw configError([...path, index], message, { id: 'static-address-invalid', hint })
    })
  const configured = configuredAddresses(ipam, call)
  const inArgs = replace(raw.args?.cni?.ips ?? [], ['args', 'cni', 'ips'])
  const inRuntime = replace(raw.runtimeConfig?.ips ?? [], ['runtimeConfig', 'ips'])
  if (inRuntime.length > 0) return inRuntime
  return inArgs.length > 0 ? inArgs : configured
}

function readStatic(raw: IpamSource, ipam: RawIpam, call: IpamSourceCall): StaticIpam {
  const addresses = staticAddresses(raw, ipam, call.call)
  const dns = readDns(ipam.dns)
  requireOnePerFamily(
    addresses.map((a) => a.cidr.family),
    ['ipam', 'addresses'],
    call.cniVersion,
  )
  return {
    kind: 'static',
    addresses: addresses.map((a) => ({
      address: formatCidr(a.cidr),
      ...(a.gateway === undefined ? {} : { gateway: a.gateway }),
    })),
    routes: readRoutes(ipam.routes ?? [], ['ipam', 'routes']),
    ...(dns === undefined ? {} : { dns }),
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

type RawRoute = NonNullable<RawIpam['routes']>[number]
type RawDns = NonNullable<RawConfig['dns']>

function readRoute(raw: RawRoute, path: KeyPath): Route {
  const dst = parseCidr(raw.dst ?? '')
  if (dst === undefined) {
    const hint = 'use one like "0.0.0.0/0"'
    throw notA([...path, 'dst'], raw.dst, { id: 'route-destination', what: 'a destination in CIDR notation', hint })
  }
  const { mtu, advmss, priority, table, scope } = raw
  const route: Route = { dst: formatCidr(dst), ...defined({ mtu, advmss, priority, table, scope }) }
  if (raw.gw === undefined || raw.gw === '') return route
  const gw = parseAddress(raw.gw)
  if (gw?.family === dst.family) return { ...route, gw: formatAddress(gw) }
  const hint = 'use an address of the same family as dst'
  throw notA([...path, 'gw'], raw.gw, { id: 'route-gateway', what: `an IPv${dst.family} address`, hint })
}

/**
 * Routes with canonical destinations, host bits kept, as upstream prints them; a gateway is of its route's family.
 * Throws CniError invalidConfig.
 */
function readRoutes(raw: readonly RawRoute[], path: KeyPath): readonly Route[] {
  return raw.map((route, index) => readRoute(route, [...path, index]))
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
