// SPDX-License-Identifier: Apache-2.0
// Which plugins of a list are trestle, also under the name of a version beside this one.

import { isObject } from '../../cni/json/json-object.ts'
import { ownType } from '../../cni/model/own-type.ts'
import { ownTypes } from '../../system/ipam/own-types.ts'
import type { PluginConf } from './network-list.ts'

/** Whether a configuration of this type is for trestle: by a name of this program, or by one like "trestle-v2". */
export function isOwnType(type: unknown): type is string {
  return typeof type === 'string' && (ownTypes().includes(type) || /^trestle[._-]/.test(type))
}

/** The plugin's configuration with the name that every version takes for its own, also where it is its own IPAM. */
export function asOwn(plugin: PluginConf): PluginConf {
  const { type, ipam } = plugin
  if (type === ownType) return plugin
  const isOwnIpam = isObject(ipam) && ipam['type'] === type
  return { ...plugin, type: ownType, ...(isOwnIpam ? { ipam: { ...ipam, type: ownType } } : {}) }
}
