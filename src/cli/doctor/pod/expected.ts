// SPDX-License-Identifier: Apache-2.0
// What is expected of a pod by its record, and by the result that libcni keeps: later plugins may have changed it.

import { ownType } from '../../../cni/model/own-type.ts'
import type { Op } from '../../../plan/model/op.ts'
import type { AttachmentRecord } from '../../../plan/model/record.ts'
import { expectedBy, expectedOps, withLaterMtu } from '../../../plan/order/expected.ts'
import { mtuSetLater } from '../../../plan/upstream/libcni-cache.ts'
import { cachedAttachment } from '../../../system/upstream/libcni-cache.ts'

/** Everything that should hold for it, as CHECK compares it with the kernel; nothing of a record without a spec. */
export function expectedOfRecord({ key, spec, netns, network }: AttachmentRecord): readonly Op[] {
  if (spec === undefined) return []
  const cached = cachedAttachment(key)
  const byResult = cached === undefined ? spec : expectedBy(cached.result, spec, netns.path).spec
  const now = withLaterMtu(byResult, cached && mtuSetLater(cached, { type: ownType, role: 'main' }))
  return expectedOps(now, network, { all: network === undefined ? [] : [network] })
}
