// SPDX-License-Identifier: Apache-2.0
// Types by which a configuration names trestle. The agent's bundle has this file, and no reader of lists.

import { ownType } from '../cni/call.ts'
import { isObject } from '../cni/json.ts'
import { ownTypes } from '../process/executable.ts'
import type { PluginConf } from './network-list.ts'

/** True if the type names trestle: by a name of this executable, or by a name like "trestle-v2". */
export function isOwnType(type: unknown): type is string {
  return typeof type === 'string' && (ownTypes().includes(type) || /^trestle[._-]/.test(type))
}

/** The configuration with type "trestle", which every version of trestle accepts, also in `ipam`. */
export function asOwn(plugin: PluginConf): PluginConf {
  const { type, ipam } = plugin
  if (type === ownType) return plugin
  const isOwnIpam = isObject(ipam) && ipam['type'] === type
  return { ...plugin, type: ownType, ...(isOwnIpam ? { ipam: { ...ipam, type: ownType } } : {}) }
}
