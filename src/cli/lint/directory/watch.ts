// SPDX-License-Identifier: Apache-2.0
// Whether a running containerd watches the directory that is there now. It watches the one that was there when it
// started and never looks for another (containerd, cni_conf_syncer.go); containerd 2 ends when that one is removed.

import { statfsSync, statSync } from 'node:fs'
import { namesIfThere, textIfThere } from '../../../system/files/if-there.ts'
import { processesOf } from '../../node/runtime-processes.ts'

/** statfs(2): on an overlay the inode of a watch is not the one that stat(2) tells. */
const OVERLAYFS_MAGIC = 0x794c7630

/** The pids of running containerds that watch something, and not this directory. Empty where that cannot be told. */
export function notWatching(directory: string): readonly number[] {
  try {
    if (statfsSync(directory).type === OVERLAYFS_MAGIC) return []
    const { ino } = statSync(directory, { bigint: true })
    const isElsewhere = (pid: number) => {
      const watched = watchedInodes(pid)
      return watched.length > 0 && !watched.includes(ino)
    }
    // In another mount namespace the path is that of another directory: a node in a container.
    const here = processesOf(['containerd']).filter(({ root }) => root === '')
    return here.map(({ pid }) => pid).filter(isElsewhere)
  } catch {
    return []
  }
}

/** The inodes of its inotify watches: proc(5), /proc/PID/fdinfo, `inotify wd:1 ino:9e7e sdev:800013`. */
function watchedInodes(pid: number): readonly bigint[] {
  const files = namesIfThere(`/proc/${pid}/fdinfo`)
  return files.flatMap((fd) => {
    const found = textIfThere(`/proc/${pid}/fdinfo/${fd}`).matchAll(/^inotify wd:\S+ ino:([0-9a-f]+) /gm)
    return [...found].map((match) => BigInt(`0x${match[1]}`))
  })
}
