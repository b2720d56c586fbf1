// SPDX-License-Identifier: Apache-2.0
// The use of limited resources: inotify instances, files, threads, connections, disks. Reads /proc as root, who sees
// all of it.

import { statfsSync } from 'node:fs'
import { readKey } from '../../../src-before/system/kernel/kernel-files.ts'
import { stateRoot } from '../../state/layout.ts'
import { linkIfThere, namesIfThere, textIfThere } from '../if-there.ts'
import type { LimitFacts } from './facts.ts'

/** Empty of a limit whose numbers are unknown, or which is none. */
export function lookAtLimits(): readonly LimitFacts[] {
  const [open = ''] = (readKey('fs/file-nr') ?? '').split(/\s+/)
  // proc(5), /proc/loadavg: `0.20 0.18 0.12 1/80 11206`, the fourth field has running and all threads.
  const threads = /\/(\d+)/.exec(textIfThere('/proc/loadavg'))?.[1]
  const limits: readonly LimitFacts[] = [
    {
      id: 'inotify-limit',
      what: 'inotify',
      on: 'instances of root',
      used: inotifyInstances(),
      most: key('fs/inotify/max_user_instances'),
      raisedBy: [raised('fs/inotify/max_user_instances')],
    },
    {
      id: 'file-limit',
      what: 'files',
      on: 'the node',
      used: Number(open),
      most: key('fs/file-max'),
      raisedBy: [raised('fs/file-max')],
    },
    {
      id: 'process-limit',
      what: 'processes',
      on: 'the node',
      used: Number(threads),
      most: Math.min(key('kernel/threads-max'), key('kernel/pid_max')),
      raisedBy: [raised('kernel/pid_max'), raised('kernel/threads-max')],
    },
    {
      id: 'conntrack-full',
      what: 'conntrack',
      on: 'the node',
      used: key('net/netfilter/nf_conntrack_count'),
      most: key('net/netfilter/nf_conntrack_max'),
      raisedBy: [raised('net/netfilter/nf_conntrack_max')],
    },
    ...[stateRoot(), '/var/lib/cni'].flatMap(disk),
  ]
  return limits.filter(({ used, most }) => Number.isFinite(used) && Number.isFinite(most) && most > 0)
}

/** A limit is a user's; the runtime is root's. */
function inotifyInstances(): number {
  const pids = namesIfThere('/proc').filter((name) => /^\d+$/.test(name))
  const ofRoot = pids.filter((pid) => /^Uid:\t0\t/m.test(textIfThere(`/proc/${pid}/status`)))
  const links = ofRoot.flatMap((pid) =>
    namesIfThere(`/proc/${pid}/fd`).map((fd) => linkIfThere(`/proc/${pid}/fd/${fd}`)),
  )
  return links.filter((link) => link === 'anon_inode:inotify').length
}

function disk(on: string): readonly LimitFacts[] {
  try {
    const { blocks, bavail, bfree, files, ffree } = statfsSync(on)
    const used = blocks - bfree
    return [
      { id: 'disk-full', what: 'disk', on, used, most: used + bavail },
      { id: 'disk-full', what: 'inodes', on, used: files - ffree, most: files },
    ]
  } catch {
    return []
  }
}

function raised(path: string) {
  return { name: path.replaceAll('/', '.'), value: key(path) }
}

function key(name: string): number {
  return Number.parseInt(readKey(name) ?? '', 10)
}
