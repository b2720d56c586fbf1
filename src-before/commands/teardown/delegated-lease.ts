// SPDX-License-Identifier: Apache-2.0
// Leases of a delegated IPAM plugin for attachments that a call settles though it is not theirs: of killed ADDs no DEL
// may ever come, since the runtime tries again with a new container id.

import type { Invocation } from '../../cni/invocation.ts'
import { asObject } from '../../cni/json.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { withIpam, withNetworkName } from '../../plan/state/config-digest.ts'
import { networkFiles } from '../../system/files/state.ts'
import { type Delegation, delegate } from '../../system/ipam/delegate.ts'
import { withLock } from '../../system/store/lock.ts'
import { findRecords } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { attachmentLock } from '../call/locks.ts'

const purpose = 'give a lease back'

/** Gives the lease of an attachment back that is gone; never throws. */
export type Release = (record: AttachmentRecord) => Promise<void>

/** By the configuration of the call, which is of the same network. `delegates`: it has a delegated plugin, too. */
export function releaseWith(
  context: CallContext,
  { path }: Invocation,
  { stdin, delegates }: { readonly stdin: string; readonly delegates: boolean },
): Release {
  return async (record) => {
    const { key, netns, pod, delegatedIpam: type } = record
    if (type === undefined || (record.ipam === undefined && !delegates)) return
    const { containerId, ifName } = key
    const attachment = { containerId, ifName, netns: netns.path, cniArgs: argsOf(pod) }
    try {
      await withLock(attachmentLock(context, key, purpose), async () => {
        // What an attachment with a record has is its own: of a new ADD, or of the live one beside an intent record
        // that was refused.
        if (findRecords(networkFiles(key.network), key).length > 0) return
        await returnLease(context, { type, path, stdin: withoutPrevious(configurationOf(record, stdin)), attachment })
      })
    } catch (error) {
      process.stderr.write(`trestle: the lease of ${ifName} of container ${containerId}: ${(error as Error).message}\n`)
    }
  }
}

/** A call's configuration as the plugin knows the lease: with the network's name at ADD, and the `ipam` of then. */
export function configurationOf({ key, ipam }: AttachmentRecord, stdin: string): string {
  return withIpam(withNetworkName(stdin, key.network), ipam)
}

/** A delegated plugin's DEL, when all our own work is done. `attachment`: of the lease. Throws the plugin's error. */
export async function returnLease(context: CallContext, lease: Omit<Delegation, 'verb'>): Promise<void> {
  await delegate(context.cleanup, { ...lease, verb: 'DEL' })
}

/** prevResult is that of the call's own attachment. */
function withoutPrevious(stdin: string): string {
  const { prevResult: _, ...rest } = asObject(JSON.parse(stdin))
  return JSON.stringify(rest)
}

/** CNI_ARGS as a runtime would send them for that pod, where its names can be said in them. */
function argsOf(pod: AttachmentRecord['pod']): string {
  const isPlain = pod !== undefined && [pod.namespace, pod.name].every((text) => /^[\w.-]+$/.test(text))
  const names = isPlain ? [`K8S_POD_NAMESPACE=${pod.namespace}`, `K8S_POD_NAME=${pod.name}`] : []
  return ['IgnoreUnknown=1', ...names].join(';')
}
