// SPDX-License-Identifier: Apache-2.0
// The use of limited resources: inotify, files, processes, disk, neighbours, connections. Reads /proc; root sees all of
// it.

import { statfsSync } from 'node:fs'
import { linkIfThere, namesIfThere, textIfThere } from '../../system/files/if-there.ts'
import { stateRoot } from '../../system/files/state.ts'
import { readKey } from '../../system/kernel/kernel-files.ts'
import type { LimitFacts } from './facts.ts'

/** Programs whose open files and inotify instances matter to pods. */
const runtimes = ['containerd', 'crio', 'kubelet', 'k3s', 'k3s-server', 'k3s-agent', 'rke2', 'dockerd']

/** `neighbours`: entries by family. */
export function lookAtLimits(neighbours: { readonly 4: number; readonly 6: number }): readonly LimitFacts[] {
  const processes = processesNow()
  return [
    ...inotify(processes),
    ...files(processes),
    ...tasks(),
    ...[stateRoot(), '/var/lib/cni'].flatMap(disk),
    ...([4, 6] as const).flatMap((family) =>
      numbers('neighbours', `IPv${family}`, neighbours[family], key(`net/ipv${family}/neigh/default/gc_thresh3`)),
    ),
    ...numbers('conntrack', 'the node', key('net/netfilter/nf_conntrack_count'), key('net/netfilter/nf_conntrack_max')),
  ]
}

interface Process {
  readonly pid: string
  readonly name: string
  readonly isRoot: boolean
}

function processesNow(): readonly Process[] {
  return namesIfThere('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      const status = textIfThere(`/proc/${pid}/status`)
      return { pid, name: textIfThere(`/proc/${pid}/comm`).trim(), isRoot: /^Uid:\t0\t/m.test(status) }
    })
}

/** A limit is a user's; the runtime is root's. */
function inotify(processes: readonly Process[]): readonly LimitFacts[] {
  const [instances, watches] = [new Set<string>(), { count: 0 }]
  for (const { pid } of processes.filter(({ isRoot }) => isRoot)) {
    for (const fd of namesIfThere(`/proc/${pid}/fd`)) {
      if (linkIfThere(`/proc/${pid}/fd/${fd}`) !== 'anon_inode:inotify') continue
      instances.add(`${pid}/${fd}`)
      watches.count += textIfThere(`/proc/${pid}/fdinfo/${fd}`).match(/^inotify wd:/gm)?.length ?? 0
    }
  }
  return [
    ...numbers('inotify', 'instances of root', instances.size, key('fs/inotify/max_user_instances')),
    ...numbers('watches', 'watches of root', watches.count, key('fs/inotify/max_user_watches')),
  ]
}

function files(processes: readonly Process[]): readonly LimitFacts[] {
  const [allOpen] = (readKey('fs/file-nr') ?? '').split(/\s+/)
  const ofRuntimes = processes
    .filter(({ name }) => runtimes.includes(name))
    .flatMap(({ pid, name }) => {
      const most = Number(/^Max open files +(\d+)/m.exec(textIfThere(`/proc/${pid}/limits`))?.[1])
      const open = namesIfThere(`/proc/${pid}/fd`).length
      return numbers('files', `${name} (process ${pid})`, open, most).map((limit) => ({ ...limit, pid }))
    })
  return [...numbers('files', 'the node', Number(allOpen), key('fs/file-max')), ...ofRuntimes]
}

/** /proc/loadavg: `0.20 0.18 0.12 1/80 11206`, the fourth field has running and all threads (proc(5)). */
function tasks(): readonly LimitFacts[] {
  const threads = Number(/\/(\d+)/.exec(textIfThere('/proc/loadavg'))?.[1])
  const most = Math.min(key('kernel/threads-max'), key('kernel/pid_max'))
  return numbers('processes', 'the node', threads, most)
}

function disk(path: string): readonly LimitFacts[] {
  try {
    const { blocks, bavail, bfree, files: inodes, ffree } = statfsSync(path)
    const used = blocks - bfree
    return [...numbers('disk', path, used, used + bavail), ...numbers('inodes', path, inodes - ffree, inodes)]
  } catch {
    return []
  }
}

/** Empty if a number is unknown, or there is no limit. */
function numbers(what: LimitFacts['what'], on: string, used: number, most: number): readonly LimitFacts[] {
  return Number.isFinite(used) && Number.isFinite(most) && most > 0 ? [{ what, on, used, most }] : []
}

function key(name: string): number {
  return Number.parseInt(readKey(name) ?? '', 10)
}
