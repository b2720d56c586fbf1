// SPDX-License-Identifier: Apache-2.0
// The node of `try`, `plan` and `replay`: a process in network, mount and pid namespaces of its own, where every file
// system of the machine is read-only. It has nothing of trestle's, and an uplink to a host beyond it, the namespace
// `outside`. All ends with the process.

import { spawnSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { toCniError } from '../cni/errors.ts'
import { writeAll } from '../process/stdio.ts'
import { exitCode } from './command.ts'
import { failureOf } from './failure.ts'
import { orElse } from './if-there.ts'
import { runUnshared } from './unshared.ts'

/** What the inner process makes. `programs`: executables that are run, also below a directory that is hidden. */
export interface PrivateNode {
  readonly programs: readonly string[]
  /** Of the uplink: its name, and its MTU in bytes. */
  readonly uplink: string
  readonly mtu: number
  /** Further links of the node, by name. */
  readonly links: readonly string[]
}

/** The addresses of both ends of the uplink, without prefix lengths. */
export interface Uplink {
  readonly name: string
  readonly node: { readonly 4: string; readonly 6: string }
  readonly outside: { readonly 4: string; readonly 6: string }
}

/** The namespace of ip-netns(8) behind the uplink. */
export const outside = 'outside'

/** Starts this program again on a private node, as the internal command `word`, which prints JSON. Returns that. */
export async function runOnPrivateNode<T, Input extends PrivateNode>(word: string, input: Input): Promise<T> {
  const { code, stdout, why } = await runUnshared(word, input, 'pipe')
  if (code === exitCode.fine) return JSON.parse(stdout) as T
  throw failureOf('replay-not-possible', 'the private node cannot be made', { details: why })
}

/** The inner process: makes the node that standard input describes. Returns the exit code of `body`, or prints its object. */
export async function insideNode<Input extends PrivateNode>(
  body: (input: Input, uplink: Uplink) => Promise<object | number> | object,
): Promise<number> {
  const input = JSON.parse(readFileSync(0, 'utf8')) as Input
  try {
    separate(input.programs)
    const answer = await body(input, makeLinks(input))
    if (typeof answer === 'number') return answer
    writeAll(1, `${JSON.stringify(answer)}\n`)
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
  must('mount', ['--no-canonicalize', '--bind', '/proc/self/fd/3', path], { fd })
  must('mount', ['-o', 'remount,bind,ro', path])
}

/** Addresses for documentation (RFC 5737, RFC 3849): no network under test has them. */
const node = { 4: '198.51.100.2', 6: '2001:db8:ffff::2' } as const
const far = { 4: '198.51.100.1', 6: '2001:db8:ffff::1' } as const

/** Whether the kernel has IPv6 at all (ipv6.disable=1 leaves the file out). */
export function hasIpv6(): boolean {
  return existsSync('/proc/net/if_inet6')
}

function makeLinks({ uplink: name, mtu, links }: PrivateNode): Uplink {
  const others = links.filter((link) => link !== name)
  must('ip', ['netns', 'add', outside])
  const onNode = [
    'link set lo up',
    `link add name ${name} mtu ${mtu} type veth peer name uplink mtu ${mtu} netns ${outside}`,
    `link set ${name} up`,
    ...others.flatMap((link, at) => [
      `link add name ${link} mtu ${mtu} type veth peer name far${at} mtu ${mtu}`,
      `link set ${link} up`,
      `link set far${at} up`,
    ]),
    `addr add ${node[4]}/24 dev ${name}`,
    `route add default via ${far[4]}`,
    ...(hasIpv6() ? [`addr add ${node[6]}/64 dev ${name} nodad`, `route add default via ${far[6]}`] : []),
  ]
  const beyond = [
    'link set lo up',
    'link set uplink up',
    `addr add ${far[4]}/24 dev uplink`,
    ...(hasIpv6() ? [`addr add ${far[6]}/64 dev uplink nodad`] : []),
  ]
  must('ip', ['-batch', '-'], { input: `${onNode.join('\n')}\n` })
  must('ip', ['-n', outside, '-batch', '-'], { input: `${beyond.join('\n')}\n` })
  return { name, node, outside: far }
}

/** Makes an empty pod, and returns its path. */
export function makePod(): string {
  must('ip', ['netns', 'add', 'pod'])
  return '/run/netns/pod'
}

/** `fd`: descriptor 3 of the program. */
function must(file: string, args: readonly string[], { fd, input }: { fd?: number; input?: string } = {}): void {
  const stdio = [
    input === undefined ? ('ignore' as const) : ('pipe' as const),
    ...['pipe' as const, 'pipe' as const],
    ...(fd === undefined ? [] : [fd]),
  ]
  const { status, stderr, error } = spawnSync(file, args, {
    encoding: 'utf8',
    stdio,
    ...(input === undefined ? {} : { input }),
  })
  if (status === 0) return
  const details = `${[file, ...args].join(' ')}: ${error?.message ?? String(stderr).trim()}`
  throw failureOf('replay-not-possible', 'the private node cannot be made', { details })
}
