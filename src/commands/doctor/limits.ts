// SPDX-License-Identifier: Apache-2.0
// Limits of the node that pods run into: inotify instances, connections, threads, disks. Read as root, who sees all of it.

import { statfsSync } from 'node:fs'
import { readSysctl } from '../../kernel/proc.ts'
import { stateRoot } from '../../state/layout.ts'
import { type Finding, findingOf } from '../findings.ts'
import { linkIfThere, namesIfThere, orElse, textIfThere } from '../if-there.ts'

interface Limit {
  readonly id: string
  readonly what: string
  readonly on: string
  readonly used: number
  readonly most: number
  /** The sysctl that raises it. */
  readonly key?: string
}

export function checkLimits(): readonly Finding[] {
  // proc(5), /proc/loadavg: `0.20 0.18 0.12 1/80 11206`, the fourth field has running and all threads.
  const threads = Number(/\/(\d+)/.exec(textIfThere('/proc/loadavg'))?.[1])
  const limits: readonly Limit[] = [
    limit('inotify-limit', 'inotify instances of root', inotifyInstances(), 'fs/inotify/max_user_instances'),
    limit('process-limit', 'processes', threads, 'kernel/pid_max'),
    limit(
      'conntrack-full',
      'connections',
      number('net/netfilter/nf_conntrack_count'),
      'net/netfilter/nf_conntrack_max',
    ),
    ...[stateRoot(), '/var/lib/cni'].flatMap(disk),
  ]
  const found: Finding[] = []
  for (const { id, what, on, used, most, key } of limits) {
    const share = used / most
    if (!(share >= (id === 'disk-full' ? 0.97 : 0.9))) continue
    const enough = 2 ** Math.ceil(Math.log2(Math.max(used, most) * 2))
    const run = key === undefined ? undefined : `sysctl -w ${key.replaceAll('/', '.')}=${enough}`
    const severity = used >= most ? 'error' : 'warning'
    found.push(findingOf({ id, on, message: `${what}: ${used} of ${most} in use`, severity, run }))
  }
  return found
}

function limit(id: string, what: string, used: number, key: string): Limit {
  return { id, what, on: 'the node', used, most: number(key), key }
}

function number(key: string): number {
  return Number.parseInt(readSysctl(key) ?? '', 10)
}

/** A limit is a user's; the runtime is root's. */
function inotifyInstances(): number {
  let count = 0
  for (const pid of namesIfThere('/proc').filter((name) => /^\d+$/.test(name))) {
    if (!/^Uid:\t0\t/m.test(textIfThere(`/proc/${pid}/status`))) continue
    for (const fd of namesIfThere(`/proc/${pid}/fd`)) {
      if (linkIfThere(`/proc/${pid}/fd/${fd}`) === 'anon_inode:inotify') count += 1
    }
  }
  return count
}

function disk(on: string): readonly Limit[] {
  return orElse(() => {
    const { blocks, bavail, bfree, files, ffree } = statfsSync(on)
    const used = blocks - bfree
    return [
      { id: 'disk-full', what: 'disk', on, used, most: used + bavail },
      { id: 'disk-full', what: 'inodes', on, used: files - ffree, most: files },
    ]
  }, [])
}
