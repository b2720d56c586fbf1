// SPDX-License-Identifier: Apache-2.0
// Running container runtimes, from /proc: flags, and the prefix of their files' paths. Only processes of root in this
// pid namespace count: a runtime inside a container is not the node's, and its data may be forged.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { linkIfThere, namesIfThere, textIfThere } from '../../system/files/if-there.ts'

/** A process of a runtime, of kubelet or of k3s. */
export interface RuntimeProcess {
  readonly pid: number
  /** The name in /proc/PID/comm. */
  readonly name: string
  /** The arguments without the program. */
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

/**
 * The executable of a process, if this mount namespace has the same file and root alone can change it; else undefined.
 * k3s is one program with many names, so the file called `name` beside it is taken.
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

// CNI flags of kubelet. Kubernetes 1.24 removed them with dockershim: kubelet then exits with "unknown flag". Before,
// they had no effect with other runtimes (kubernetes/kubernetes pull request 106907).

/** A dead flag. `where`: a file, or `kubelet (process PID)`. `isRunning`: a running kubelet has the flag. */
export interface DeadFlag {
  readonly flag: string
  readonly value: string
  readonly where: string
  readonly isRunning: boolean
}

const dead =
  /(?:^|[\s"'=])--(network-plugin-mtu|network-plugin|cni-conf-dir|cni-bin-dir|cni-cache-dir)(?:[=\s]+([^\s"'\\-][^\s"'\\]*))?/g

/** Files with kubelet flags of kubeadm, packages and administrators; k3s has --kubelet-arg. */
const files = ['/var/lib/kubelet/kubeadm-flags.env', '/etc/default/kubelet', '/etc/sysconfig/kubelet']
const units = ['kubelet.service', 'kubelet.service.d', 'k3s.service', 'k3s-agent.service']
const unitDirectories = ['/etc/systemd/system', '/usr/lib/systemd/system']

/** The dead flags of this node's kubelet, each once per place. `root`: prefix of the files' paths. */
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

/** The texts of a file, or of all files of a directory. A missing or unreadable file has no flags. */
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
