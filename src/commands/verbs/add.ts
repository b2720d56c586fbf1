// SPDX-License-Identifier: Apache-2.0
// ADD: intent record, lease, decide, make, finish. The intent record is on disk before anything is reserved, and
// the whole record before anything is made: a later call can settle a killed one from it alone.

import type { Invocation } from '../../cni/model/invocation.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import type { Result } from '../../cni/model/result.ts'
import { networkFiles, requireState } from '../../system/files/state.ts'
import { closeNetns } from '../../system/kernel/netns.ts'
import { requireAllowedSysctls } from '../../system/kernel/sysctl-allowlist.ts'
import { attach, attachChained, lease } from '../attach/attach.ts'
import type { CallContext } from '../call/context.ts'
import { addLoopback } from './loopback.ts'

/**
 * Attaches the pod. Throws CniError: 4 for a namespace or name that cannot be used, 101-105 for
 * addresses, 110 for a range in use, 103 when the attachment exists, 11 when another call holds it, 100 when a tool
 * fails.
 */
export async function add(context: CallContext, call: Invocation, conf: NetConf): Promise<Result> {
  requireState(conf.name)
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  const addition = { context, call, key, files: networkFiles(conf.name) }
  if (conf.mode === 'ipam') return await lease({ ...addition, conf })
  requireAllowedSysctls(Object.keys(conf.tuning?.sysctl ?? {}), call.ifName)
  const netns = context.openNetns(call.netns)
  try {
    switch (conf.mode) {
      case 'loopback':
        return await addLoopback(context, conf, netns)
      case 'chained':
        return await attachChained({ ...addition, conf }, netns)
      default:
        return await attach({ ...addition, conf }, netns)
    }
  } finally {
    closeNetns(netns)
  }
}
