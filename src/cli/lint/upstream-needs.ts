// SPDX-License-Identifier: Apache-2.0
// What the upstream plugins need beside their keys: a type in ipam, and a cniVersion that they speak
// (containernetworking/plugins 1.9.1).

import { lookUp } from '../../cni/json/json-keys.ts'
import { isObject } from '../../cni/json/json-object.ts'
import { atLeast, type CniVersion } from '../../cni/model/version.ts'
import { nearestWord } from '../shell/nearest-word.ts'
import type { Found } from './finding.ts'
import type { Step } from './json.ts'
import { keyPathOf, shown } from './json.ts'
import type { PluginEntry } from './list.ts'
import { type Kind, text, texts, valueProblem } from './other-values.ts'
import { unknownKeys } from './unknown-keys.ts'
import { flannelIpam, flannelWhole, mainTypes } from './upstream-keys.ts'

/** The first version of plugins that do not speak every one, in all releases (version.VersionsStartingFrom). */
const firstVersions: Readonly<Record<string, CniVersion>> = { firewall: '0.4.0', vrf: '0.3.1', bandwidth: '0.3.0' }

/** A cniVersion that the plugin does not speak, where its program is not there to be asked. */
export function versionProblem(
  { steps }: PluginEntry,
  type: string,
  version: CniVersion | undefined,
): readonly Found[] {
  const first = Object.hasOwn(firstVersions, type) ? firstVersions[type] : undefined
  if (first === undefined || version === undefined || atLeast(version, first)) return []
  const message = `${type} does not support cniVersion ${version}: it has ${first} and later`
  const cure = `use "cniVersion": "${first}" or a later one that all plugins of the file support`
  return [{ id: 'plugin-version', message, cure, steps: [...steps, 'type'], isAboutValue: true }]
}

/** Plugins that refuse an ADD without the type of an IPAM plugin; others then give the pod no address. */
const refusing: readonly string[] = ['ptp', 'ipvlan', 'vlan', 'dummy']

/** Addresses in `ipam`, and nobody who is to give them. */
export function ipamTypeMissing({ conf, steps }: PluginEntry, type: string): readonly Found[] {
  const ipam = lookUp(conf, 'ipam')
  if (!mainTypes.includes(type) || !isObject(ipam)) return []
  const ipamType = lookUp(ipam, 'type')
  const keys = Object.keys(ipam).filter((key) => key.toLowerCase() !== 'type')
  if ((ipamType !== undefined && ipamType !== null && ipamType !== '') || keys.length === 0) return []
  const message = `ipam has ${shown(keys[0])} and no type: ${type} reads none of it`
  const meant = keys.find((key) => nearestWord(key, ['type']) !== undefined)
  const cure = meant === undefined ? undefined : `write "type" for ${shown(meant)}`
  const found: Found = { id: 'ipam-type-missing', message, cure, steps: [...steps, 'ipam'] }
  if (!refusing.includes(type)) return [found]
  return [{ ...found, severity: 'error', cause: `${type} asks a plugin without a name: ADD is refused` }]
}

/** Keys in `ipam` of flannel, which host-local gets and does not know: those of the bridge belong to `delegate`. */
export function flannelKeys({ conf, steps }: PluginEntry, type: string): readonly Found[] {
  const ipam = lookUp(conf, 'ipam')
  const ipamType = isObject(ipam) ? lookUp(ipam, 'type') : undefined
  if (type !== 'flannel' || (ipamType !== undefined && ipamType !== 'host-local')) return []
  return unknownKeys(ipam, [...steps, 'ipam'], { shape: flannelIpam, whole: flannelWhole, what: 'host-local' })
}

// What libcni itself wants of a plugin, whoever made it: values that Go's decoder reads (types.PluginConf; with one of
// another type the whole file is refused) and types that are names of files (pkg/invoke/find.go, FindInPath).

const object = (cure: string): Kind => ({ what: 'an object', isType: isObject, cure })
const capabilities = object('use "capabilities": { "portMappings": true }, each name with true')
const ipam = object('use "ipam": { "type": "host-local", … }')
const dns = object('use "dns": { "nameservers": [ "…" ] }')
const ofDns = { nameservers: texts, domain: text, search: texts, options: texts }

const cause = 'libcni refuses the whole file: "error parsing configuration"'

/** Values of the keys that every plugin has. Those in `capabilities` are another rule's. */
export function libcniProblems({ conf, steps }: PluginEntry): readonly Found[] {
  const check = (value: unknown, kind: Kind, path: readonly string[]): readonly Found[] =>
    valueProblem(value, kind, [...steps, ...path])
  const [ipamValue, dnsValue] = [lookUp(conf, 'ipam'), lookUp(conf, 'dns')]
  const found = [
    ...check(lookUp(conf, 'capabilities'), capabilities, ['capabilities']),
    ...check(ipamValue, ipam, ['ipam']),
    ...(isObject(ipamValue) ? check(lookUp(ipamValue, 'type'), text, ['ipam', 'type']) : []),
    ...check(dnsValue, dns, ['dns']),
    ...(isObject(dnsValue)
      ? Object.entries(ofDns).flatMap(([key, kind]) => check(lookUp(dnsValue, key), kind, ['dns', key]))
      : []),
  ]
  return found.map((each) => ({ ...each, cause }))
}

type PathFound = Found & { readonly cause: string; readonly cure: string }

/** A path where the name of a file has to be; undefined where it is a name. */
export function pathAsType(type: unknown, steps: readonly Step[]): PathFound | undefined {
  if (typeof type !== 'string' || !type.includes('/')) return undefined
  const name = type.split('/').findLast((part) => part !== '') ?? ''
  const message = `${keyPathOf(steps)}: ${shown(type)} is a path, and has to be the name of a file`
  const why = 'runtimes look for it in their directories of plugins: "invalid plugin name"'
  return { id: 'invalid-value', message, cause: why, cure: `write ${shown(name)}`, steps, isAboutValue: true }
}
