// SPDX-License-Identifier: Apache-2.0
// Chains of port conditions go with the last pod whose ports go through them.

import type { AttachmentKey } from '../../plan/model/attachment.ts'
import { sameKey } from '../../plan/model/record.ts'
import { conditionChains } from '../../plan/rules/port-conditions.ts'
import { someRecord } from '../../system/store/records.ts'

/**
 * Those of an attachment's chains that no other one has, but such as are being removed. The kernel has the last word: a
 * chain that somebody uses cannot be deleted. Reads nothing where the ports have no conditions.
 */
export function unusedChains(key: AttachmentKey, chains: readonly string[]): readonly string[] {
  const isUsed = (chain: string) =>
    someRecord(
      ({ record }) =>
        record.pendingCleanup === undefined &&
        !sameKey(record.key, key) &&
        conditionChains(record.spec?.hostPorts).includes(chain),
    )
  return chains.filter((chain) => !isUsed(chain))
}
