// SPDX-License-Identifier: Apache-2.0
// Running container runtimes, from /proc: flags, and the prefix of their files' paths. Only processes of root in this
// pid namespace count: a runtime inside a container is not the node's, and its data may be forged.

import { linkIfThere, namesIfThere, textIfThere } from '../if-there.ts'

/** A process of a runtime, of kubelet or of k3s. */
export interface RuntimeProcess {
  readonly pid: number
  readonly name: string
  readonly args: readonly string[]
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
      const args = textIfThere(`${proc}/${pid}/cmdline`).replace(/\0$/, '').split('\0').slice(1)
      return [{ pid, name, args, root: rootOf(pid, proc) }]
    })
}

/** The value of a flag: `-c FILE`, `--config FILE` or `--config=FILE`; the last one counts. */
export function flagOf(args: readonly string[], names: readonly string[]): string | undefined {
  const values = args.flatMap((arg, at) => {
    const [flag = '', ...value] = arg.split('=')
    const name = flag.replace(/^--?/, '')
    if (!flag.startsWith('-') || !names.includes(name)) return []
    return [value.length > 0 ? value.join('=') : (args[at + 1] ?? '')]
  })
  return values.at(-1)
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
