// SPDX-License-Identifier: Apache-2.0
// Container runtimes that run on this node, by /proc: their flags, and where their files are seen from here. Only
// processes of root in our pid namespace: one inside a container is not this node's, and what it says is not believed.

import { statSync } from 'node:fs'
import { linkIfThere, namesIfThere, textIfThere } from '../../system/files/if-there.ts'

/** A process of a runtime, of kubelet or of k3s. */
export interface RuntimeProcess {
  readonly pid: number
  /** The name of its program, as /proc/PID/comm has it. */
  readonly name: string
  /** Its arguments, without the program. */
  readonly args: readonly string[]
  /** What its paths begin with from here: empty, or /proc/PID/root where it has a mount namespace of its own. */
  readonly root: string
}

/** The running processes with one of these names, in the order of their ids. `proc`: where proc(5) is mounted. */
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

/**
 * The file of the program that a process runs, where it is the same file for us and only root can change it; else
 * undefined. k3s is one program with many names: the one beside it that is called `name` is taken.
 */
export function programOf({ pid, name, root }: RuntimeProcess): string | undefined {
  if (root !== '') return undefined
  const file = linkIfThere(`/proc/${pid}/exe`)
  if (file === '') return undefined
  const beside = file.endsWith(`/${name}`) ? file : `${file.slice(0, file.lastIndexOf('/'))}/${name}`
  const stat = statSync(beside, { throwIfNoEntry: false })
  const isRoots = stat?.isFile() === true && stat.uid === 0 && (stat.mode & 0o022) === 0
  return isRoots ? beside : undefined
}

/** Of another user's process the namespace cannot be read: then the owner alone counts. */
function isOfNode(pid: number, proc: string): boolean {
  const isRoots = /^Uid:\s+0\s/m.test(textIfThere(`${proc}/${pid}/status`))
  const [theirs, ours] = [linkIfThere(`${proc}/${pid}/ns/pid`), linkIfThere(`${proc}/self/ns/pid`)]
  return isRoots && (theirs === '' || theirs === ours)
}

function rootOf(pid: number, proc: string): string {
  const [theirs, ours] = [linkIfThere(`${proc}/${pid}/ns/mnt`), linkIfThere(`${proc}/self/ns/mnt`)]
  return theirs === '' || theirs === ours ? '' : `${proc}/${pid}/root`
}
