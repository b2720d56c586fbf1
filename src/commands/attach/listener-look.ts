// SPDX-License-Identifier: Apache-2.0
// When an ADD looks for processes of the node on the pod's host ports. To refuse them it must know before anything is
// made (claim.ts). To warn it looks beside the last tool: the kernel walks a table of sockets as large as the machine's
// memory allows, 1.5 ms to 11 ms and more (net/ipv4/tcp_ipv4.c, established_get_first), while no tool waits for us.

import type { NetConf } from '../../cni/model/net-conf.ts'
import type { AttachmentSpec } from '../../plan/model/attachment.ts'
import { podSysctlOps } from '../../plan/modes/attach.ts'
import { flowsToList } from '../../plan/recovery/stale-flows.ts'
import { tellListeners } from '../../system/kernel/listening.ts'

/** Tools of an ADD that may be the last to get their input. nft is where no interface is made. */
type LastTool = 'ip' | 'sysctl' | 'nft' | 'conntrack'

/**
 * The look of one attachment, to be called with each tool right after it has got its input, and awaited with it:
 * only that beside the last one looks. Never rejects.
 */
export function listenerLook(conf: Pick<NetConf, 'portmap'>, spec: AttachmentSpec): (tool: LastTool) => Promise<void> {
  const ports = spec.hostPorts?.ports ?? []
  if (ports.length === 0 || conf.portmap?.onListening === 'refuse') return async () => undefined
  const last = lastToolOf(spec)
  return async (tool) => {
    if (tool !== last) return
    // A tool that was started ahead gets its input in a microtask.
    await new Promise((resolve) => setImmediate(resolve))
    tellListeners(ports)
  }
}

function lastToolOf(spec: AttachmentSpec): LastTool {
  if (flowsToList(spec.hostPorts?.ports ?? []).length > 0) return 'conntrack'
  if (spec.chained) return 'nft'
  return podSysctlOps(spec).length > 0 ? 'sysctl' : 'ip'
}
