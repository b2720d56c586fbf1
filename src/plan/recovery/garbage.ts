// SPDX-License-Identifier: Apache-2.0
// What may be collected without the runtime asking (docs/design.md, "GC"): an attachment goes only when
// the runtime does not list it, its namespace is gone, and it is older than five minutes, since a
// sandbox being made is on no list yet. Everything doubtful stays and is reported.

import type { AttachmentRecord } from '../model/record.ts'

/** Younger attachments may belong to a pod that the runtime is still making. */
export const youngestMs = 5 * 60 * 1000

/** What is known about one attachment. `isListed` is undefined where no runtime could be asked. */
export interface Facts {
  readonly record: AttachmentRecord
  readonly netns: 'live' | 'gone' | 'unknown'
  /**
   * Whose network namespace it was made from: ours, another one that lives, or one that is over, as after a restart.
   */
  readonly host: 'here' | 'elsewhere' | 'ended'
  readonly isListed: boolean | undefined
  /** Whether more than `youngestMs` have passed since ADD; false where that cannot be told. */
  readonly isOld: boolean
}

/** What becomes of an attachment, and why. */
export interface Verdict {
  readonly record: AttachmentRecord
  readonly verdict: 'collect' | 'report' | 'keep'
  readonly why: string
}

/** Decides about one attachment. */
export function judge({ record, netns, host, isListed, isOld }: Facts): Verdict {
  const say = (verdict: Verdict['verdict'], why: string): Verdict => ({ record, verdict, why })
  const lease = leaseLeft(record)
  if (host === 'elsewhere') return say('report', 'it is of another host network namespace: run gc there')
  if (host === 'ended') return say('collect', `the machine was restarted since${lease}`)
  if (isListed === true) return say('keep', 'the runtime lists it')
  if (netns === 'live') {
    return isListed === undefined
      ? say('keep', 'its network namespace exists')
      : say('report', 'the runtime does not list it, but its network namespace exists')
  }
  if (netns === 'unknown') return say('report', 'its network namespace cannot be seen from here')
  if (!isOld) return say('keep', 'younger than five minutes')
  return say('collect', `${isListed === undefined ? 'its' : 'unlisted, and its'} network namespace is gone${lease}`)
}

/** Another plugin's lease needs a DEL or GC with the configuration, which only the runtime has. */
function leaseLeft({ delegatedIpam }: AttachmentRecord): string {
  return delegatedIpam === undefined ? '' : `; its lease stays with the IPAM plugin ${delegatedIpam}`
}
