// SPDX-License-Identifier: Apache-2.0
// The node of a replay: a process in network, mount and pid namespaces of its own, where every file system of the
// machine is read-only. It has an uplink, nothing of trestle's and an empty pod, and runs the call once.

import { spawnSync } from 'node:child_process'
import { fstatSync, mkdirSync, openSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { toCniError } from '../../cni/errors.ts'
import { toolPath } from '../../process/runner.ts'
import { writeAll } from '../../process/stdio.ts'
import { exitCode } from '../command.ts'
import { failureOf } from '../failure.ts'
import { orElse } from '../if-there.ts'
import { pathOfRecord, readRecord } from '../record/read-record.ts'
import type { CallLine, ExecLine } from '../record/record-schema.ts'

/** What the process reads from standard input. `file`: the program that gets the call. */
export interface ReplayInput {
  readonly file: string
  readonly call: CallLine
  readonly stdin: string
  /** Of the uplink. Bytes. */
  readonly mtu: number
  readonly cniPath: string
  readonly isKept: boolean
}

/** What a run left. `executions`: of trestle, which records its own call. */
export interface ReplayRun {
  readonly exit: number
  readonly stdout: string
  readonly stderr: string
  readonly executions?: readonly ExecLine[]
  readonly kernel: Readonly<Record<string, readonly string[]>>
}

const stateDirectory = '/run/trestle'

/** Runs the call of standard input. Prints the run as a line of JSON; with `isKept` it then waits for its end. */
export async function runReplay(): Promise<number> {
  const input = JSON.parse(readFileSync(0, 'utf8')) as ReplayInput
  try {
    separate([...input.cniPath.split(':'), input.file])
    makeUplink(input.mtu)
    // trestle then records its own call: its processes are compared.
    mkdirSync(stateDirectory, { mode: 0o700 })
    writeFileSync(`${stateDirectory}/recording.json`, '{"record":{}}')
    const netns = makePod(input.call.netns ?? '')
    writeAll(1, `${JSON.stringify(callOnce(input, netns))}\n`)
  } catch (thrown) {
    const { message, details = '' } = toCniError(thrown)
    writeAll(2, `${message}\n${details}\n`)
    return exitCode.couldNotLook
  }
  if (input.isKept) await new Promise(() => setInterval(() => undefined, 60_000))
  return 0
}

/** Empty in the replay, and writable. */
const scratch = ['/run', '/var/lib']

/** Mounts that are made anew below, or that are of these namespaces alone. */
const ownMounts = [...scratch, '/sys', '/proc']

/**
 * A plugin may write where its configuration says, so that nothing of the machine is writable. `programs`: executables
 * and their directories, which are seen also below a scratch directory.
 */
function separate(programs: readonly string[]): void {
  const isBelow = (path: string, top: string) => path.startsWith(`${top}/`)
  const isUnder = (path: string) => ownMounts.some((own) => path === own || isBelow(path, own))
  const real = (path: string) => orElse(() => realpathSync(path), path)
  const hidden = programs.map((path) => resolve(path)).filter((path) => scratch.some((top) => isBelow(real(path), top)))
  const shown = [...new Set(hidden)].map((path) => ({ path, fd: openSync(path, 'r') }))
  const mounted = readFileSync('/proc/self/mounts', 'utf8').split('\n')
  const paths = mounted.map((line) => (line.split(' ')[1] ?? '').replaceAll('\\040', ' ')).filter((path) => path !== '')
  for (const path of paths.filter((each) => !isUnder(each))) must('mount', ['-o', 'remount,bind,ro', path])
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

/** mount(8) would look for a descriptor's name, which is hidden by now. */
function showAgain(path: string, fd: number): void {
  if (fstatSync(fd).isDirectory()) mkdirSync(path, { recursive: true })
  else {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, '')
  }
  must('mount', ['--no-canonicalize', '--bind', '/proc/self/fd/3', path], fd)
  must('mount', ['-o', 'remount,bind,ro', path])
}

/** Nothing behind it answers. */
function makeUplink(mtu: number): void {
  must('ip', ['link', 'add', 'name', 'up0', 'mtu', `${mtu}`, 'type', 'veth', 'peer', 'name', 'far0', 'mtu', `${mtu}`])
  for (const link of ['lo', 'far0', 'up0']) must('ip', ['link', 'set', link, 'up'])
  must('ip', ['address', 'add', '192.0.2.2/24', 'dev', 'up0'])
  must('ip', ['route', 'add', 'default', 'via', '192.0.2.1'])
  // A kernel without IPv6 has none.
  for (const words of ['address add 2001:db8:0:2::2/64 dev up0 nodad', '-6 route add default via 2001:db8:0:2::1'])
    spawnSync('ip', words.split(' '))
}

/** The name that ip-netns(8) has for a namespace's path. */
function namedNetns(path: string): string | undefined {
  return /^(?:\/var)?\/run\/netns\/([A-Za-z\d_][\w.-]{0,200})$/.exec(path)?.[1]
}

/** The path of an empty namespace, as the record has it where that is one of ip-netns(8). */
function makePod(netns: string): string {
  if (netns === '') return ''
  const name = namedNetns(netns)
  must('ip', ['netns', 'add', name ?? 'replay'])
  return name === undefined ? '/run/netns/replay' : netns
}

/** A runtime waits longer; a person does not. */
const callMs = 60_000

function callOnce({ file, call, stdin, cniPath }: ReplayInput, netns: string): ReplayRun {
  const named = Object.entries(call.env).filter(([name]) => /^CNI_[A-Z]+$/.test(name))
  const own = { PATH: toolPath(), CNI_PATH: cniPath, ...(netns === '' ? {} : { CNI_NETNS: netns }) }
  const env = { ...Object.fromEntries(named), ...own }
  const { status, signal, stdout, stderr, error } = spawnSync(file, [], {
    input: stdin,
    env,
    encoding: 'utf8',
    timeout: callMs,
  })
  const reason = error === undefined ? '' : `${error.message}\n`
  const recorded = recordOfCall()
  return {
    exit: status ?? (signal === null ? 127 : 137),
    stdout: (stdout ?? '').replaceAll(netns === '' ? '\0' : netns, call.netns ?? ''),
    stderr: `${stderr ?? ''}${reason}`,
    ...(recorded === undefined ? {} : { executions: recorded }),
    kernel: kernelState(netns),
  }
}

function recordOfCall(): readonly ExecLine[] | undefined {
  // Another plugin, or a trestle that does not record.
  return orElse(() => readRecord(pathOfRecord(undefined, stateDirectory)).executions, undefined)
}

/** Links, addresses, routes and rules afterwards, without what differs from run to run. */
function kernelState(netns: string): ReplayRun['kernel'] {
  const node = (file: string, ...args: string[]) => linesOf(spawnSync(file, args, { encoding: 'utf8' }).stdout)
  const pod = (...args: string[]) => (netns === '' ? [] : node('nsenter', `--net=${netns}`, 'ip', ...args))
  return {
    'links and addresses of the node': node('ip', '-br', 'address', 'show'),
    'routes of the node': [...node('ip', '-4', 'route'), ...node('ip', '-6', 'route')],
    'rules of the node': node('nft', '-s', 'list', 'ruleset'),
    'links and addresses of the pod': pod('-br', 'address', 'show'),
    'routes of the pod': [...pod('-4', 'route'), ...pod('-6', 'route')],
  }
}

function linesOf(text: string | null): readonly string[] {
  const lines = (text ?? '').split('\n').map((line) => line.replace(/@if\d+|fe80::\S+|expires \S+/g, '').trimEnd())
  return lines.filter((line) => line !== '')
}

/** `fd`: descriptor 3 of the program. */
function must(file: string, args: readonly string[], fd?: number): void {
  const stdio = ['ignore' as const, 'pipe' as const, 'pipe' as const, ...(fd === undefined ? [] : [fd])]
  const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8', stdio })
  if (status === 0) return
  const details = `${[file, ...args].join(' ')}: ${error?.message ?? String(stderr).trim()}`
  throw failureOf('replay-not-possible', 'the private node of the replay cannot be made', { details })
}
