// SPDX-License-Identifier: Apache-2.0
// Which host a record is of. Links, rules and sysctls are a network namespace's, and the state directory may be seen
// from several: a runtime started in the wrong one, a debug container with the host's /run. What another one has made
// is not ours to tear down: here we would find none of it, and forget it.

import { readdirSync, readlinkSync } from 'node:fs'
import { CniError } from '../../cni/error.ts'
import { type AttachmentRecord, describeHolder, type ProcessIdentity } from '../../model/record.ts'
import { seesNamespaces } from '../process/capabilities.ts'

/** Ours; another one that lives, or may; or one that is over: before a restart, or without a process. */
type HostState = 'here' | 'elsewhere' | 'ended'

/** The initial pid namespace, from which every process is seen (include/linux/proc_ns.h, PROC_PID_INIT_INO). */
const initialPidNamespace = 'pid:[4026531836]'

/** Of each other network namespace that was asked about: a process in it. */
const inhabitants = new Map<string, string | undefined>()

/**
 * The host of a record's or reservation's writer, as the process `self` sees that host; a writer without a network
 * namespace counts as ours. Reads /proc of every process for a writer of another network namespace.
 */
export function hostStateOf(writer: ProcessIdentity, self: ProcessIdentity): HostState {
  if (writer.bootId !== self.bootId) return 'ended'
  if (writer.netNamespace === undefined || writer.netNamespace === self.netNamespace) return 'here'
  if (!seesProcessesOf(writer, self)) return 'elsewhere'
  return inhabitantOf(writer.netNamespace) === undefined ? 'ended' : 'elsewhere'
}

/** Throws CniError 111 when the attachment is of another host network namespace that lives. */
export function requireOwnHost(record: AttachmentRecord, self: ProcessIdentity): void {
  if (hostStateOf(record.writer, self) !== 'elsewhere') return
  const { netNamespace = '' } = record.writer
  const process = seesProcessesOf(record.writer, self) ? inhabitantOf(netNamespace) : undefined
  const there = process === undefined ? 'on the host' : `there: nsenter --net=/proc/${process}/ns/net`
  const { containerId, ifName } = record.key
  throw new CniError(
    'other-host',
    `${ifName} of container ${containerId} is of another host network namespace, ${netNamespace}`,
    {
      details:
        `${describeHolder(record)}; this call runs in ${self.netNamespace} and has changed nothing of it; ` +
        `run it ${there}`,
    },
  )
}

/** From a pid namespace beside the writer's, its processes are not seen, and nothing tells whether they live. */
function seesProcessesOf(writer: ProcessIdentity, self: ProcessIdentity): boolean {
  return self.pidNamespace === writer.pidNamespace || self.pidNamespace === initialPidNamespace
}

function inhabitantOf(netNamespace: string): string | undefined {
  if (!inhabitants.has(netNamespace)) inhabitants.set(netNamespace, findProcessIn(netNamespace))
  return inhabitants.get(netNamespace)
}

/** Without the right to look at others, one that cannot be looked at counts as being there. */
function findProcessIn(netNamespace: string): string | undefined {
  const seesAll = seesNamespaces()
  return readdirSync('/proc').find((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return readlinkSync(`/proc/${name}/ns/net`) === netNamespace
    } catch (error) {
      return !seesAll && ['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')
    }
  })
}
