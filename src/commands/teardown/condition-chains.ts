// SPDX-License-Identifier: Apache-2.0
// Chains of port conditions go with the last pod whose ports go through them.

import type { Op } from '../../plan/model/op.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { chainRemovals, conditionChains } from '../../plan/rules/port-conditions.ts'
import { someRecord } from '../../system/store/records.ts'

/**
 * Removals of the record's chains that no other attachment has, but such as are being removed. The kernel has the last
 * word: a chain that somebody uses cannot be deleted. Reads nothing where the ports have no conditions.
 */
export function unusedChains(record: AttachmentRecord): readonly Op[] {
  const chains = conditionChains(record.spec?.hostPorts)
  const isOther = ({ network, containerId, ifName, role }: AttachmentRecord['key']) =>
    network !== record.key.network ||
    containerId !== record.key.containerId ||
    ifName !== record.key.ifName ||
    role !== record.key.role
  const isUsed = (chain: string) =>
    someRecord(
      ({ record: { key, pendingCleanup, spec } }) =>
        pendingCleanup === undefined && isOther(key) && conditionChains(spec?.hostPorts).includes(chain),
    )
  return chainRemovals(chains.filter((chain) => !isUsed(chain)))
}
