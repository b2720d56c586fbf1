// SPDX-License-Identifier: Apache-2.0
// Whether a running containerd watches the directory that is there now. It watches the one that was there when it
// started and never looks for another (containerd, cni_conf_syncer.go); containerd 2 ends when that one is removed.

import { readdirSync, readFileSync, readlinkSync, statfsSync, statSync } from 'node:fs'

/** statfs(2): on an overlay the inode of a watch is not the one that stat(2) tells. */
const OVERLAYFS_MAGIC = 0x794c7630

/** The pids of running containerds that watch something, and not this directory. Empty where that cannot be told. */
export function notWatching(directory: string): readonly number[] {
  try {
    if (statfsSync(directory).type === OVERLAYFS_MAGIC) return []
    const { ino } = statSync(directory, { bigint: true })
    return pidsOf('containerd').filter((pid) => {
      // In another mount namespace the path is that of another directory: a node in a container.
      if (mountNamespaceOf(pid) !== mountNamespaceOf('self')) return false
      const watched = watchedInodes(pid)
      return watched.length > 0 && !watched.includes(ino)
    })
  } catch {
    return []
  }
}

function pidsOf(name: string): readonly number[] {
  const pids = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))
  return pids.filter((pid) => textOf(`/proc/${pid}/comm`).trim() === name).map(Number)
}

/** The inodes of its inotify watches: proc(5), /proc/PID/fdinfo, `inotify wd:1 ino:9e7e sdev:800013`. */
function watchedInodes(pid: number): readonly bigint[] {
  const files = listed(`/proc/${pid}/fdinfo`)
  return files.flatMap((fd) => {
    const found = textOf(`/proc/${pid}/fdinfo/${fd}`).matchAll(/^inotify wd:\S+ ino:([0-9a-f]+) /gm)
    return [...found].map((match) => BigInt(`0x${match[1]}`))
  })
}

function mountNamespaceOf(pid: number | 'self'): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`)
  } catch {
    return ''
  }
}

/** A process may end between two looks. */
function listed(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
