// SPDX-License-Identifier: Apache-2.0
// Container runtimes that run on this node, by /proc: their flags, and where their files are seen from here. Only
// processes of root in our pid namespace: one inside a container is not this node's, and what it says is not believed.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
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

// Flags of kubelet about CNI. They were Docker's (dockershim) and went with it in Kubernetes 1.24: kubelet then ends
// with "unknown flag"; before, with another runtime, they did nothing (kubernetes/kubernetes pull request 106907).

/** A dead flag. `where`: a file, or `kubelet (process PID)`. `isRunning`: a kubelet that was started with it. */
export interface DeadFlag {
  readonly flag: string
  readonly value: string
  readonly where: string
  readonly isRunning: boolean
}

const dead =
  /(?:^|[\s"'=])--(network-plugin-mtu|network-plugin|cni-conf-dir|cni-bin-dir|cni-cache-dir)(?:[=\s]+([^\s"'\\-][^\s"'\\]*))?/g

/** Where kubeadm, packages and people put flags of kubelet; k3s passes its own on with --kubelet-arg. */
const files = ['/var/lib/kubelet/kubeadm-flags.env', '/etc/default/kubelet', '/etc/sysconfig/kubelet']
const units = ['kubelet.service', 'kubelet.service.d', 'k3s.service', 'k3s-agent.service']
const unitDirectories = ['/etc/systemd/system', '/usr/lib/systemd/system']

/** The dead flags of this node's kubelet, each once a place. `root`: what paths of files begin with. */
export function deadKubeletFlags({ root = '', proc = '/proc' } = {}): readonly DeadFlag[] {
  const running = processesOf(['kubelet'], proc).flatMap(({ pid, args }) =>
    flagsIn(args.join(' '), `kubelet (process ${pid})`, true),
  )
  const places = [...files, ...unitDirectories.flatMap((directory) => units.map((name) => join(directory, name)))]
  const written = places
    .flatMap((place) => textsAt(join(root, place)))
    .flatMap(({ file, text }) => {
      return flagsIn(text.replace(/^\s*[#;].*$/gm, ''), file.slice(root.length), false)
    })
  return [...running, ...written]
}

function flagsIn(text: string, where: string, isRunning: boolean): readonly DeadFlag[] {
  return [...text.matchAll(dead)].map(([, flag = '', value = '']) => ({ flag: `--${flag}`, value, where, isRunning }))
}

/** A file, or the files of a directory. What is not there or cannot be read has no flags. */
function textsAt(path: string): readonly { readonly file: string; readonly text: string }[] {
  try {
    return [{ file: path, text: readFileSync(path, 'utf8') }]
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EISDIR') return []
    return readdirSync(path)
      .filter((name) => name.endsWith('.conf'))
      .flatMap((name) => textsAt(join(path, name)))
  }
}
