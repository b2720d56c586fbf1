// SPDX-License-Identifier: Apache-2.0
// What a teardown does apart from operations, as its order asks (plan/order/teardown.ts): looks, state, waits.

import type { AttachmentKey } from '../../plan/model/attachment.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import type { Learnt } from '../../plan/order/facts.ts'
import type { OtherRun, TeardownRun } from '../../plan/order/stage.ts'
import { isDiskRefusal } from '../../system/files/files.ts'
import type { NetworkFiles } from '../../system/files/state.ts'
import { deleteFlows } from '../../system/kernel/conntrack.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import type { Door } from '../../system/kernel/run-plan.ts'
import { releaseAddresses } from '../../system/store/addresses.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { releasePorts } from '../../system/store/ports.ts'
import { forget, forgetFinished, writePending } from '../../system/store/records.ts'
import { removeUpstream } from '../../system/upstream/attachment.ts'
import type { CallContext } from '../call/context.ts'
import { machineLock } from '../call/machine-lock.ts'
import { unusedChains } from './condition-chains.ts'
import { elementsWithoutRecord } from './orphan-elements.ts'

/** An attachment that goes. `record`: where it has one, as it is by now; its lock is held. */
export interface Leaving {
  readonly context: CallContext
  readonly files: NetworkFiles
  readonly key: AttachmentKey
  readonly record?: AttachmentRecord
}

/** The door of one teardown. */
export function doorOf(leaving: Leaving): Door {
  const { context, files, key } = leaving
  return async (run: OtherRun): Promise<Learnt | undefined> => {
    switch (run.kind) {
      case 'look':
        if (run.what === 'orphan elements') return { orphans: await elementsWithoutRecord(context, files, key) }
        if (run.what !== 'present') throw new Error(`a teardown does not look at ${run.what}`)
        return { present: { links: new Set(run.links.filter(linkExists)), unused: unusedChains(key, run.chains) } }
      case 'state':
        await write(leaving, run as TeardownRun)
        return undefined
      case 'wait':
        return await waitForRebuilds(context, key)
      case 'flows':
        if (run.verb === 'delete') await deleteFlows(context.cleanup, run.flows)
        return undefined
      case 'upstream': {
        const failures = await removeUpstream(context.cleanup, { ...run, key })
        if (failures.length > 0) throw new AggregateError(failures)
        return undefined
      }
      default:
        throw new Error(`a teardown has nothing to do with ${run.kind}`)
    }
  }
}

async function write({ context, files, key, record }: Leaving, run: TeardownRun): Promise<void> {
  const { identity, whole } = context
  const of = { key, owner: identity, deadline: whole }
  if (run.what === 'free ports') return await releasePorts(of, run.ports)
  if (run.what === 'free addresses') return await releaseAddresses(files, of, run)
  if (run.what === 'forgotten') return forget(files, key)
  if (record === undefined) throw new Error('there is no record to write')
  const own = { ...record, writer: identity }
  switch (run.what) {
    case 'leaving':
      return mark(files, { ...own, pendingCleanup: ['its removal has not ended'] })
    case 'pending cleanup':
      writePending(files, { ...own, pendingCleanup: run.texts })
      return forgetFinished(files, key)
    case 'withdrawn':
      return withdraw(files, reservationsAlone(own))
    default:
      run satisfies never
  }
}

/** A full disk must not keep links and rules: they go, and the record stays (del.ts, orPending). */
function mark(files: NetworkFiles, record: AttachmentRecord): void {
  try {
    writePending(files, record)
    forgetFinished(files, record.key)
  } catch {}
}

/**
 * Who rebuilds the rules of all pods reads the records under the machine's lock. Throws CniError 11 when it takes too
 * long, 106 when a signal ends the wait: the mark stays, and a later call takes the rest away.
 */
async function waitForRebuilds(context: CallContext, { ifName, containerId }: AttachmentKey): Promise<undefined> {
  const purpose = `remove the rules of ${ifName} of container ${containerId}`
  await waitForHolder({ ...machineLock(context, purpose), deadline: context.waits })
}

/**
 * On a full disk there is no record from here on: a killed DEL is sent again, and finds what is reserved by what the
 * reservations say themselves.
 */
function withdraw(files: NetworkFiles, record: AttachmentRecord): void {
  try {
    writePending(files, record)
    forgetFinished(files, record.key)
  } catch (error) {
    if (!isDiskRefusal(error)) throw error
    forget(files, record.key)
  }
}

/** A record of reservations alone, as before anything was made. */
function reservationsAlone({ spec: _, network: __, pendingCleanup: ___, ...intent }: AttachmentRecord) {
  return intent
}
