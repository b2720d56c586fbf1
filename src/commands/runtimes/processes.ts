// SPDX-License-Identifier: Apache-2.0
// Running container runtimes, from /proc: the sockets on which they listen, and the prefix of their files' paths. Only
// processes of root in this pid namespace count: a runtime inside a container is not the node's, and its data may be
// forged.

import { linkIfThere, namesIfThere, textIfThere } from '../if-there.ts'

/** A process of a runtime, of kubelet or of k3s. */
export interface RuntimeProcess {
  readonly pid: number
  readonly name: string
  /** Paths of the sockets on which it listens, as this process sees them; none without root. */
  readonly sockets: readonly string[]
  /** Prefix of the process's paths: empty, or /proc/PID/root if it has a mount namespace of its own. */
  readonly root: string
}

/** The running processes with one of these names, in the order of their ids. `proc`: mount point of proc(5). */
export function processesOf(names: readonly string[], proc = '/proc'): readonly RuntimeProcess[] {
  const pids = namesIfThere(proc).filter((name) => /^\d+$/.test(name))
  return pids
    .map(Number)
    .toSorted((a, b) => a - b)
    .flatMap((pid) => {
      const name = textIfThere(`${proc}/${pid}/comm`).trim()
      if (!names.includes(name) || !isOfNode(pid, proc)) return []
      const root = rootOf(pid, proc)
      return [{ pid, name, root, sockets: socketsOf(`${proc}/${pid}`).map((path) => `${root}${path}`) }]
    })
}

/** __SO_ACCEPTCON in the fourth column of net/unix (proc_net(5), include/uapi/linux/net.h). */
const listening = '00010000'

function socketsOf(directory: string): readonly string[] {
  const own = new Set(namesIfThere(`${directory}/fd`).map((fd) => linkIfThere(`${directory}/fd/${fd}`)))
  return textIfThere(`${directory}/net/unix`)
    .split('\n')
    .map((line) => line.split(/\s+/))
    .flatMap(([, , , flags, , , inode, path = '']) => {
      return flags === listening && own.has(`socket:[${inode}]`) && path.startsWith('/') ? [path] : []
    })
}

/** Without root the pid namespace of the process is unreadable; then its owner alone decides. */
function isOfNode(pid: number, proc: string): boolean {
  const isRoots = /^Uid:\s+0\s/m.test(textIfThere(`${proc}/${pid}/status`))
  const [theirs, ours] = [linkIfThere(`${proc}/${pid}/ns/pid`), linkIfThere(`${proc}/self/ns/pid`)]
  return isRoots && (theirs === '' || theirs === ours)
}

function rootOf(pid: number, proc: string): string {
  const [theirs, ours] = [linkIfThere(`${proc}/${pid}/ns/mnt`), linkIfThere(`${proc}/self/ns/mnt`)]
  return theirs === '' || theirs === ours ? '' : `${proc}/${pid}/root`
}
