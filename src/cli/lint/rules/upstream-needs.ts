// SPDX-License-Identifier: Apache-2.0
// What the upstream plugins need beside their keys: a type in ipam, and a cniVersion that they speak
// (containernetworking/plugins 1.9.1).

import { lookUp } from '../../../cni/json/json-keys.ts'
import { isObject } from '../../../cni/json/json-object.ts'
import { atLeast, type CniVersion } from '../../../cni/model/version.ts'
import type { Found } from '../checks/finding.ts'
import { shown } from '../json/key-path.ts'
import { nearestWord } from '../json/nearest-word.ts'
import type { PluginEntry } from './list.ts'
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
