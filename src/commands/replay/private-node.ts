// SPDX-License-Identifier: Apache-2.0
// The node of `replay` and `plan`: a process in network, mount and pid namespaces of its own, where every file system of
// the machine is read-only. It has an uplink, nothing of trestle's and an empty pod. All ends with the process.

import { spawnSync } from 'node:child_process'
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { toCniError } from '../../cni/errors.ts'
import { writeAll } from '../../process/stdio.ts'
import { exitCode } from '../command.ts'
import { failureOf } from '../failure.ts'
import { orElse } from '../if-there.ts'
import { requireRoot } from '../self.ts'
import { runUnshared } from '../unshared.ts'

/** What the inner process makes. `programs`: executables that are run, also below a directory that is hidden. */
export interface PrivateNode {
  readonly programs: readonly string[]
  /** Of the uplink, in bytes. */
  readonly mtu: number
  /** The pod's namespace, as the call names it; empty: none. */
  readonly netns: string
  /** Further links of the node, by name. */
  readonly links: readonly string[]
}

/** Starts this program again on a private node, as the internal command `word`. Returns what it printed. */
export async function runOnPrivateNode<T, Input extends PrivateNode>(word: string, input: Input): Promise<T> {
  requireRoot(word === '__plan-inside' ? 'plan' : 'replay', 'it makes network namespaces')
  const { code, stdout, why } = await runUnshared(word, input, 'pipe')
  if (code === exitCode.fine) return JSON.parse(stdout) as T
  throw failureOf('replay-not-possible', 'the private node cannot be made', { details: why })
}

/** The inner process: makes the node that standard input describes, and prints what `body` returns. */
export async function insideNode<Input extends PrivateNode>(
  body: (input: Input, netns: string) => object | Promise<object>,
) {
  const input = JSON.parse(readFileSync(0, 'utf8')) as Input
  try {
    separate(input.programs)
    makeLinks(input)
    writeAll(1, `${JSON.stringify(await body(input, makePod(input.netns)))}\n`)
    return exitCode.fine
  } catch (thrown) {
    const { message, details = '' } = toCniError(thrown)
    writeAll(2, `${message}\n${details}\n`)
    return exitCode.couldNotLook
  }
}

/** Empty on the private node, and writable. */
const scratch = ['/run', '/var/lib']

/** A plugin may write where its configuration says, so that nothing of the machine is writable. */
function separate(programs: readonly string[]): void {
  const isBelow = (path: string) => scratch.some((top) => path.startsWith(`${top}/`))
  const hidden = programs.map((path) => resolve(path)).filter((path) => isBelow(orElse(() => realpathSync(path), path)))
  const shown = [...new Set(hidden)].map((path) => ({ path, fd: openSync(path, 'r') }))
  const own = /^\/(?:run|var\/lib|sys|proc)(?:\/|$)/
  for (const line of readFileSync('/proc/self/mountinfo', 'utf8').trimEnd().split('\n')) {
    const [id = '', , , , escaped = ''] = line.split(' ')
    const path = escaped.replaceAll('\\040', ' ')
    // A mount hidden below a later one cannot be remounted, and nobody reaches it.
    if (!own.test(path) && mountAt(path) === id) must('mount', ['-o', 'remount,bind,ro', path])
  }
  for (const path of scratch) must('mount', ['-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', path])
  for (const { path, fd } of shown) showAgain(path, fd)
  must('mount', ['-t', 'sysfs', '-o', 'ro', 'sysfs', '/sys'])
  // Settings of the network are those of the namespace; all others are the machine's.
  must('mount', ['--bind', '/proc/sys', '/proc/sys'])
  must('mount', ['-o', 'remount,bind,ro', '/proc/sys'])
  must('mount', ['--bind', '/proc/sys/net', '/proc/sys/net'])
  must('mount', ['-o', 'remount,bind,rw', '/proc/sys/net'])
  for (const path of ['/run/lock', '/run/netns', '/var/lib/cni']) mkdirSync(path, { recursive: true })
}

/** The id of the mount that a path leads to (proc_pid_fdinfo(5)); undefined: no such path. */
function mountAt(path: string): string | undefined {
  const pathOnly = 0o10000000
  const fd = orElse(() => openSync(path, pathOnly), undefined)
  if (fd === undefined) return undefined
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1]
  closeSync(fd)
  return id
}

/** mount(8) would look for a descriptor's name, which is hidden by now. */
function showAgain(path: string, fd: number): void {
  mkdirSync(fstatSync(fd).isDirectory() ? path : dirname(path), { recursive: true })
  if (!fstatSync(fd).isDirectory()) writeFileSync(path, '')
  must('mount', ['--no-canonicalize', '--bind', '/proc/self/fd/3', path], fd)
  must('mount', ['-o', 'remount,bind,ro', path])
}

/** Nothing behind the uplink answers. */
function makeLinks({ mtu, links }: PrivateNode): void {
  const names = ['node0', ...links.filter((name) => name !== 'node0')]
  for (const [at, name] of names.entries()) {
    const far = ['peer', 'name', `far${at}`, 'mtu', `${mtu}`]
    must('ip', ['link', 'add', 'name', name, 'mtu', `${mtu}`, 'type', 'veth', ...far])
    for (const link of [name, `far${at}`]) must('ip', ['link', 'set', link, 'up'])
  }
  must('ip', ['link', 'set', 'lo', 'up'])
  must('ip', ['address', 'add', '198.51.100.2/24', 'dev', 'node0'])
  must('ip', ['route', 'add', 'default', 'via', '198.51.100.1'])
  // A kernel without IPv6 has none.
  for (const words of ['address add 2001:db8:0:2::2/64 dev node0 nodad', '-6 route add default via 2001:db8:0:2::1']) {
    spawnSync('ip', words.split(' '))
  }
}

/** The path of an empty namespace: as the call names it, where that is a path of ip-netns(8). */
function makePod(netns: string): string {
  if (netns === '') return ''
  const name = /^(?:\/var)?\/run\/netns\/([A-Za-z\d_][\w.-]{0,200})$/.exec(netns)?.[1]
  must('ip', ['netns', 'add', name ?? 'pod'])
  return name === undefined ? '/run/netns/pod' : netns
}

/** `fd`: descriptor 3 of the program. */
function must(file: string, args: readonly string[], fd?: number): void {
  const stdio = ['ignore' as const, 'pipe' as const, 'pipe' as const, ...(fd === undefined ? [] : [fd])]
  const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8', stdio })
  if (status === 0) return
  const details = `${[file, ...args].join(' ')}: ${error?.message ?? String(stderr).trim()}`
  throw failureOf('replay-not-possible', 'the private node cannot be made', { details })
}
