// SPDX-License-Identifier: Apache-2.0
// Results of every protocol version, read into the shape of 1.1.0 and written from it. What each version holds and
// leaves out is that of the reference library (cni pkg/types/020, 040, 100).

import { familyOf, formatAddress, formatCidr, parseAddress, parseCidr } from './addresses.ts'
import { CniError, Code, configError, type KeyPath, notA } from './errors.ts'
import {
  integer,
  keyShapeOf,
  list,
  openGroup,
  optional,
  readAs,
  text,
  texts,
  uint32,
  uint32Max,
  withKnownKeys,
} from './fields.ts'
import { asObject, isObject, type JsonObject, lookUp } from './json.ts'

export interface ResultInterface {
  readonly name: string
  readonly mac?: string
  readonly mtu?: number
  /** The netns path of a pod's interface; absent or empty for one on the host. */
  readonly sandbox?: string
}

export interface ResultIp {
  /** CIDR with the host part kept: 10.1.2.3/24. */
  readonly address: string
  readonly gateway?: string
  readonly interface?: number
}

/** A result. Entries may carry further keys than typed here; they are written back unchanged. */
export interface Result {
  readonly interfaces: readonly ResultInterface[]
  readonly ips: readonly ResultIp[]
  readonly routes: readonly Route[]
  readonly dns?: Dns
  /** Top-level keys of a prevResult that this version of the protocol does not name. */
  readonly others?: Readonly<Record<string, unknown>>
}

// Routes and DNS settings as the protocol has them, in configurations and in results.

/** An IP route as in CNI spec 1.1.0, section 5. `dst` is a canonical CIDR, `gw` an address. */
export interface Route {
  readonly dst: string
  readonly gw?: string
  readonly mtu?: number
  readonly advmss?: number
  readonly priority?: number
  readonly table?: number
  readonly scope?: number
}

/** DNS settings as in CNI spec 1.1.0, section 5. */
export interface Dns {
  readonly nameservers?: readonly string[]
  readonly domain?: string
  readonly search?: readonly string[]
  readonly options?: readonly string[]
}

// The protocol versions trestle speaks, and which verb each has (CNI spec 1.1.0, section 2).

export const supportedVersions = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'] as const

export type CniVersion = (typeof supportedVersions)[number]

export const currentVersion: CniVersion = '1.1.0'

/** Whether `text` is exactly one of the supported version strings (libcni compares exactly). */
export function isSupported(text: unknown): text is CniVersion {
  return typeof text === 'string' && (supportedVersions as readonly string[]).includes(text)
}

export function atLeast(a: CniVersion, b: CniVersion): boolean {
  return supportedVersions.indexOf(a) >= supportedVersions.indexOf(b)
}

// The wire shapes: up to 0.2.0 one `ip4` and one `ip6`, from 0.3.0 on lists. Keys that no version names are kept.

/** A chain of plugins adds to what each of them may be configured with. */
const mostEntries = 4096

const dns = openGroup({ nameservers: texts, domain: text, search: texts, options: texts })

const route = openGroup({
  dst: text,
  gw: text,
  mtu: uint32,
  advmss: uint32,
  priority: uint32,
  table: uint32,
  scope: integer(0, 255, 'a scope'),
})

const resultInterface = openGroup({ name: text, mac: text, mtu: uint32, sandbox: text })

const ip = openGroup({ version: text, address: text, gateway: text, interface: integer(0, uint32Max, 'an index') })

/** 0.3.0 and later. `ips[].version` is there up to 0.4.0. */
const listSchema = openGroup({
  cniVersion: text,
  interfaces: optional(list(resultInterface, mostEntries)),
  ips: optional(list(ip, mostEntries)),
  routes: optional(list(route, mostEntries)),
  dns: optional(dns),
})

const familyEntry = openGroup({ ip: text, gateway: text, routes: optional(list(route, mostEntries)) })

/** 0.1.0 and 0.2.0. */
const pairSchema = openGroup({
  cniVersion: text,
  ip4: optional(familyEntry),
  ip6: optional(familyEntry),
  dns: optional(dns),
})

const listKeys = keyShapeOf(listSchema)
const pairKeys = keyShapeOf(pairSchema)

/** Versions that share one shape (cni pkg/types/020, 040 and 100). */
const shapeFamilies: readonly (readonly CniVersion[])[] = [
  ['0.1.0', '0.2.0'],
  ['0.3.0', '0.3.1', '0.4.0'],
  ['1.0.0', '1.1.0'],
]

function versionsLike(version: CniVersion): readonly CniVersion[] {
  return shapeFamilies.find((family) => family.includes(version)) ?? []
}

const namedKeys = [...Object.keys(listSchema.shape), ...Object.keys(pairSchema.shape)]

function without(object: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !names.includes(key)))
}

/** Without what Go's `omitempty` leaves out: empty text, empty lists, and zero for the keys in `zeros`. */
function withoutEmpty(object: JsonObject, zeros: readonly string[] = []): JsonObject {
  const isEmpty = (key: string, value: unknown) =>
    value === undefined ||
    value === '' ||
    (Array.isArray(value) && value.length === 0) ||
    (value === 0 && zeros.includes(key))
  return Object.fromEntries(Object.entries(object).filter(([key, value]) => !isEmpty(key, value)))
}

function readCidrText(text: unknown, path: KeyPath): string {
  const cidr = typeof text === 'string' ? parseCidr(text) : undefined
  if (cidr !== undefined) return formatCidr(cidr)
  const hint = 'a result has addresses like "10.1.2.3/24"'
  throw notA(path, text, { id: 'result-invalid', what: 'in CIDR notation', hint })
}

/** An address as a field, or no field when there is none. */
function readAddressField(object: JsonObject, key: string, path: KeyPath): JsonObject {
  const text = object[key]
  if (text === undefined || text === '') return {}
  const address = typeof text === 'string' ? parseAddress(text) : undefined
  if (address !== undefined) return { [key]: formatAddress(address) }
  const hint = 'a result has addresses like "10.1.2.1"'
  throw notA([...path, key], text, { id: 'result-invalid', what: 'an IP address', hint })
}

function readRoutes(routes: readonly JsonObject[] | undefined, path: KeyPath): readonly Route[] {
  return (routes ?? []).map((route, index) => {
    const at = [...path, index]
    const dst = readCidrText(route['dst'], [...at, 'dst'])
    return { ...without(route, ['dst', 'gw']), dst, ...readAddressField(route, 'gw', at) }
  })
}

function readDnsField(dns: JsonObject | undefined): { readonly dns?: Dns } {
  const filled = withoutEmpty(dns ?? {})
  return Object.keys(filled).length === 0 ? {} : { dns: filled as Dns }
}

/** Keys that no version names: one of another version's shape would be written beside its own. */
function readOthers(root: JsonObject): { readonly others?: JsonObject } {
  const others = without(root, namedKeys)
  return Object.keys(others).length === 0 ? {} : { others }
}

function readList(value: unknown, path: KeyPath): Result {
  const root = readAs(listSchema, withKnownKeys(value, listKeys), path)
  const interfaces = (root.interfaces ?? []).map((entry, index): ResultInterface => {
    if (entry.name) return entry as ResultInterface
    const more = { id: 'result-invalid', hint: 'every interface of a result has a name' } as const
    throw configError([...path, 'interfaces', index, 'name'], 'missing', more)
  })
  const ips = (root.ips ?? []).map((entry, index): ResultIp => {
    const at = [...path, 'ips', index]
    const address = readCidrText(entry.address, [...at, 'address'])
    const rest = without(entry, ['version', 'address', 'gateway'])
    return { ...rest, address, ...readAddressField(entry, 'gateway', at) }
  })
  const routes = readRoutes(root.routes, [...path, 'routes'])
  return { interfaces, ips, routes, ...readDnsField(root.dns), ...readOthers(root) }
}

function readPair(value: unknown, path: KeyPath): Result {
  const root = readAs(pairSchema, withKnownKeys(value, pairKeys), path)
  const ips: ResultIp[] = []
  const routes: Route[] = []
  for (const key of ['ip4', 'ip6'] as const) {
    const entry = root[key]
    if (entry === undefined) continue
    const at = [...path, key]
    ips.push({ address: readCidrText(entry.ip, [...at, 'ip']), ...readAddressField(entry, 'gateway', at) })
    routes.push(...readRoutes(entry.routes, [...at, 'routes']))
  }
  return { interfaces: [], ips, routes, ...readDnsField(root.dns), ...readOthers(root) }
}

/**
 * A result of any version, in the shape of 1.1.0. Its own cniVersion decides how it is read; where it
 * has none, `version` does. `path` is what errors call it. Throws CniError invalidConfig.
 */
export function readResult(value: unknown, version: CniVersion, path: KeyPath = ['result']): Result {
  if (!isObject(value)) {
    const hint = 'use a result of CNI spec section 5'
    throw notA(path, value, { id: 'result-invalid', what: 'an object', hint })
  }
  const givenVersion = lookUp(value, 'cniVersion') ?? ''
  if (givenVersion !== '' && !isSupported(givenVersion)) {
    throw configError(path, `unsupported CNI result version ${JSON.stringify(givenVersion)}`, { id: 'result-invalid' })
  }
  return atLeast(givenVersion === '' ? version : givenVersion, '0.3.0') ? readList(value, path) : readPair(value, path)
}

/**
 * `prevResult` of a configuration of version `version`; its own cniVersion must be of the same shape,
 * as in upstream. Throws CniError invalidConfig "could not parse prevResult: ...".
 */
export function readPrevResult(value: unknown, version: CniVersion): Result {
  try {
    const givenVersion = lookUp(asObject(value), 'cniVersion') ?? ''
    const family: readonly unknown[] = versionsLike(version)
    if (givenVersion !== '' && !family.includes(givenVersion)) {
      const given = JSON.stringify(givenVersion)
      const message = `result type supports [${family.join(' ')}] but unmarshalled CNIVersion is ${given}`
      throw new CniError(Code.invalidConfig, 'prev-result-invalid', message, { path: ['prevResult'] })
    }
    return readResult(value, version, ['prevResult'])
  } catch (cause) {
    if (!(cause instanceof CniError)) throw cause
    const { message, details, path } = cause
    const more = { details, path, cause }
    throw new CniError(Code.invalidConfig, 'prev-result-invalid', `could not parse prevResult: ${message}`, more)
  }
}

function writeInterface(entry: ResultInterface, version: CniVersion): JsonObject {
  const later = ['mtu', 'socketPath', 'pciID']
  return withoutEmpty(atLeast(version, '1.0.0') ? { ...entry } : without({ ...entry }, later), ['mtu'])
}

function writeIp(ip: ResultIp, version: CniVersion): JsonObject {
  if (atLeast(version, '1.0.0')) return withoutEmpty({ ...ip })
  return withoutEmpty({ version: familyOf(ip.address) === 6 ? '6' : '4', ...ip })
}

function writeRoute(route: Route): JsonObject {
  return withoutEmpty({ ...route }, ['mtu', 'advmss', 'priority'])
}

/** From 1.0.0 on `dns` is left out when it is empty, before it is always there. */
function writeDns(dns: Dns | undefined, version: CniVersion): JsonObject {
  const filled = withoutEmpty({ ...dns })
  return Object.keys(filled).length === 0 && atLeast(version, '1.0.0') ? {} : { dns: filled }
}

function listOf(result: Result, version: CniVersion): JsonObject {
  const lists = {
    interfaces: result.interfaces.map((entry) => writeInterface(entry, version)),
    ips: result.ips.map((ip) => writeIp(ip, version)),
    routes: result.routes.map(writeRoute),
  }
  return { ...withoutEmpty(lists), ...writeDns(result.dns, version) }
}

/** The first address of each family, with the routes of that family; routes have `dst` and `gw` only. */
function pairOf(result: Result, version: CniVersion): JsonObject {
  const entryOf = (isFamily: (text: string) => boolean) => {
    const ip = result.ips.find((candidate) => isFamily(candidate.address))
    if (ip === undefined) return undefined
    const routes = result.routes.filter((route) => isFamily(route.dst)).map(({ dst, gw }) => withoutEmpty({ dst, gw }))
    return withoutEmpty({ ip: ip.address, gateway: ip.gateway, routes })
  }
  const ip6 = entryOf((text) => familyOf(text) === 6)
  const ip4 = entryOf((text) => familyOf(text) === 4)
  return { ...withoutEmpty({ ip4, ip6 }), ...writeDns(result.dns, version) }
}

/**
 * The result as the one line of JSON that a runtime of `version` expects, with a line break. Throws
 * CniError invalidConfig when the version cannot hold it: 0.1.0 and 0.2.0 need an address.
 */
export function writeResult(result: Result, version: CniVersion): string {
  if (!atLeast(version, '0.3.0') && result.ips.length === 0) throw noAddress(version)
  const shape = atLeast(version, '0.3.0') ? listOf(result, version) : pairOf(result, version)
  return `${JSON.stringify({ cniVersion: version, ...result.others, ...shape })}\n`
}

export function noAddress(version: CniVersion): CniError {
  const details = `A result of cniVersion ${version} needs an address: use "0.3.1" or newer, or configure ipam.`
  return new CniError(Code.invalidConfig, 'version-needs-address', 'cannot convert: no valid IP addresses', { details })
}
