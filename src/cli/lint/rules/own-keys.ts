// SPDX-License-Identifier: Apache-2.0
// Keys of an entry of trestle that it does not read.

import { configKeys } from '../../../cni/config/config-schema.ts'
import { lookUp } from '../../../cni/json/json-keys.ts'
import { isObject } from '../../../cni/json/json-object.ts'
import { ownType } from '../../../cni/model/own-type.ts'
import type { Found } from '../checks/finding.ts'
import type { Step } from '../json/json-places.ts'
import { unknownKeys, withKeys } from './unknown-keys.ts'
import { commonKeys } from './upstream-keys.ts'

/** Types of IPAM whose keys trestle reads itself; `type`: its own name here. */
function isInProcess(ipamType: unknown, type: unknown): boolean {
  return ['host-local', 'static', '', ownType, type, undefined, null].includes(ipamType as string)
}

/** What nobody reads; the keys in `ipam` of another plugin are that plugin's. */
export function unknownOwnKeys(conf: Readonly<Record<string, unknown>>, steps: readonly Step[]): readonly Found[] {
  const shape = withKeys(configKeys ?? {}, [...commonKeys, 'labels'])
  const ipam = lookUp(conf, 'ipam')
  const isDelegated = isObject(ipam) && !isInProcess(lookUp(ipam, 'type'), lookUp(conf, 'type'))
  const found = unknownKeys(conf, steps, { shape, whole: shape, what: 'trestle' })
  return isDelegated ? found.filter((each) => String(each.steps?.[steps.length]).toLowerCase() !== 'ipam') : found
}
