// SPDX-License-Identifier: Apache-2.0
// Which cniVersion to write: one that the plugins of the file speak. To name the newest of the specification where a
// plugin stops before it would break the node.

import { lookUp } from '../../../cni/json/json-keys.ts'
import { supportedVersions } from '../../../cni/model/version.ts'
import type { Found } from '../checks/finding.ts'
import type { ListRead } from './list.ts'
import type { Programs } from './programs.ts'

/**
 * The findings about an old or missing cniVersion with a cure that the plugins allow, or without those that have none.
 */
export function withVersionCures(found: readonly Found[], list: ListRead, programs: Programs): readonly Found[] {
  if (!programs.hasDirectory) return found
  const types = list.plugins.map(({ conf }) => lookUp(conf, 'type')).filter((type) => typeof type === 'string')
  // One that is not there, or does not answer, may be older than all of them.
  const haveAllAnswered = types.every((type) => programs.problemOf(type, undefined) === undefined)
  const newest = supportedVersions.findLast((version) =>
    types.every((type) => programs.problemOf(type, version)?.id !== 'plugin-version'),
  )
  if (newest === undefined) return found
  return found.flatMap((each): readonly Found[] => {
    if (!haveAllAnswered) return each.id === 'cni-version-old' && newest === list.version ? [] : [each]
    if (each.id === 'cni-version-missing') return [{ ...each, cure: `add "cniVersion": "${newest}"` }]
    if (each.id !== 'cni-version-old') return [each]
    return newest === list.version ? [] : [{ ...each, cure: `use "cniVersion": "${newest}"` }]
  })
}
