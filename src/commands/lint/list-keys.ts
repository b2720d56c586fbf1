// SPDX-License-Identifier: Apache-2.0
// The keys of a list beside `plugins`, which reach no plugin.

import { type JsonObject, lookUp } from '../../cni/json.ts'
import { shown } from '../json-text.ts'
import type { Found } from './finding.ts'
import { isRemark, unknownKey } from './unknown-keys.ts'

const switches = ['disableCheck', 'disableGC', 'loadOnlyInlinedPlugins']
/** nerdctl finds its networks by two of these, podman keeps labels in `args`. */
const listKeys = [...['cniVersion', 'cniVersions', 'name', 'plugins'], ...['nerdctlID', 'nerdctlLabels', 'args']]

export function faultyListKeys(root: JsonObject): readonly Found[] {
  // A plugin in the place of a list is one finding.
  if (root['plugins'] === undefined && lookUp(root, 'type') !== undefined) return []
  const names = [...listKeys, ...switches]
  const shape = { keys: new Map(names.map((name) => [name.toLowerCase(), { name, shape: undefined }])) }
  const found: Found[] = []
  for (const [key, value] of Object.entries(root)) {
    if (!names.includes(key) && !isRemark(key)) {
      const unknown = unknownKey([key], { shape, whole: {}, owner: 'a list' })
      // Other tools keep their own data in a list: only a likely misspelling is a warning.
      found.push(unknown.cure === undefined ? { ...unknown, severity: 'note' } : unknown)
    }
    // libcni takes the words "true" and "false" as well.
    if (switches.includes(key) && !/^(true|false)$/i.test(String(value))) {
      const message = `${key}: ${shown(value)} is not true or false`
      found.push({ id: 'wrong-type', message, cure: 'use true or false', steps: [key] })
    }
  }
  return found
}
