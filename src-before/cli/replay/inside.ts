// SPDX-License-Identifier: Apache-2.0
// The node of a replay: a process in network, mount and pid namespaces of its own, where every file system of the
// machine is read-only. It builds what the record says was around the call, and runs the call once.

import { spawnSync } from 'node:child_process'
import {
  existsSync,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { familyOf } from '../../cni/address.ts'
import { CniError, orElse, toCniError } from '../../cni/error.ts'
import type { CallLine, ExecLine, NodeWorld, PodWorld } from '../../commands/record/schema.ts'
import type { AttachmentSpec } from '../../model/attachment.ts'
import { netnsState } from '../../system/kernel/netns.ts'
import { bootId } from '../../system/process/process-identity.ts'
import { pathWithTools } from '../../system/process/programs.ts'
import { writeAll } from '../../system/process/stdio.ts'
import { allRecords } from '../../core.ts'
import { pathOfRecord, readRecord } from '../record/read.ts'
import { exitCode } from '../shell/command.ts'
import { thisProgram } from '../shell/self.ts'

/** What the process reads from standard input. `file`: the program that gets the call. */
export interface ReplayInput {
  readonly file: string
  readonly call: CallLine
  readonly stdin: string
  readonly node: NodeWorld | undefined
  readonly pod: PodWorld | undefined
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

/** Where the other ends of links are. */
const farName = 'far-of-replay'

/** Runs the call of standard input. Prints the run as a line of JSON; with `isKept` it then waits for its end. */
export async function runReplay(): Promise<number> {
  const input = JSON.parse(readFileSync(0, 'utf8')) as ReplayInput
  try {
    separate([...input.cniPath.split(':'), input.file])
    makeLinks(input.node)
    writeState(input.node)
    makeLivePods()
    const netns = makePod(input)
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
  must('ip', ['link', 'set', 'lo', 'up'])
  must('ip', ['netns', 'add', farName])
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

/** Paths as records have them (commands/record/world.ts): below the directory of one network, and host ports. */
const statePath =
  /^(?:networks\/~?[\w.%-]+\/(?:[\w.-]+|(?:pending|attachments|addresses|cooling)\/[\w.:%-]+)|ports\/[\w.:%-]+)$/

/** Throws CniError 6 for a path that leaves the state directory. */
export function requireStatePaths(state: NodeWorld['state']): void {
  const all = Object.entries(state).flatMap(([path, file]) => ('sameAs' in file ? [path, file.sameAs] : [path]))
  const wrong = all.find(
    (path) => !statePath.test(path) || path.split('/').some((part) => part === '..' || part === '.'),
  )
  if (wrong === undefined) return
  throw new CniError(
    'record-unreadable',
    `the record has the file ${JSON.stringify(wrong)}, which is no state of a network`,
  )
}

function writeState(node: NodeWorld | undefined): void {
  mkdirSync(stateDirectory, { mode: 0o700 })
  // trestle then records its own call: its processes are compared.
  writeFileSync(`${stateDirectory}/recording.json`, '{"record":{}}')
  for (const [path, file] of Object.entries(node?.state ?? {})) {
    mkdirSync(dirname(`${stateDirectory}/${path}`), { recursive: true, mode: 0o700 })
    if ('text' in file) writeFileSync(`${stateDirectory}/${path}`, asOfHere(file), { mode: 0o600 })
    else linkSync(`${stateDirectory}/${file.sameAs}`, `${stateDirectory}/${path}`)
  }
}

type StateFile = Extract<NodeWorld['state'][string], { text: string }>

/**
 * trestle takes a record of another boot, or without a namespace, for a dead pod's, and one of another host namespace
 * for another host's.
 */
function asOfHere({ text, isOfDead }: StateFile): string {
  const here = readlinkSync('/proc/self/ns/net')
  const written = text.replaceAll(/net:\[\d+\]/g, here).replaceAll(/("bootId":\s*)"[^"]*"/g, `$1"${bootId()}"`)
  if (isOfDead === true) return written
  return written.replace(/("netns":\{"path":"([^"]*)","inode":)\d+/, (all, start: string, path: string) => {
    const name = namedNetns(path)
    return name === undefined ? all : `${start}${statSync(makeNetns(name)).ino}`
  })
}

/** The name that ip-netns(8) has for a namespace's path. */
function namedNetns(path: string): string | undefined {
  return /^(?:\/var)?\/run\/netns\/([A-Za-z\d_][\w.-]{0,200})$/.exec(path)?.[1]
}

/** The path of the namespace, which is made if it is not there. */
function makeNetns(name: string): string {
  const path = `/run/netns/${name}`
  if (!existsSync(path)) must('ip', ['netns', 'add', name])
  return path
}

/** Live pods have their links again, with the recorded addresses, and the node has their rules. */
function makeLivePods(): void {
  const all = allRecords().flatMap(({ record: { netns, spec } }) => {
    const name = namedNetns(netns.path)
    return name === undefined || netnsState(netns) !== 'live' ? [] : [{ name, spec }]
  })
  for (const { name, spec } of all) if (spec !== undefined) makePair(name, spec)
  const { file, args } = thisProgram()
  if (all.length > 0) spawnSync(file, [...args, 'restore'], { env: { PATH: pathWithTools() } })
}

/** An uplink is an end of a veth pair: nothing behind it answers. */
function makeLinks(node: NodeWorld | undefined): void {
  for (const { name, mtu, isBridge, isUplink, isDown, addresses } of node?.links ?? []) {
    requireLinkName(name)
    if (isBridge) must('ip', ['link', 'add', 'name', name, 'type', 'bridge'])
    else makeVeth([], name)
    if (mtu !== undefined) ip(['link', 'set', name, 'mtu', `${mtu}`])
    if (!isDown) must('ip', ['link', 'set', name, 'up'])
    for (const address of addresses)
      ip(['address', 'add', address, 'dev', name, ...(familyOf(address) === 6 ? ['nodad'] : [])])
    const global = addresses.filter((address) => !address.startsWith('fe80'))
    const families = new Set(global.map((address) => `-${familyOf(address)}`))
    if (isUplink) for (const family of families) ip([family, 'route', 'add', 'default', 'dev', name])
  }
}

/** The links of bridge and ptp pods, as trestle made them; other modes have none on the node. */
function makePair(netns: string, { host, pod, mtu, ips, routes, defaultRoutes }: AttachmentSpec): void {
  if (host === undefined || pod === undefined) return
  for (const { name } of [host, pod]) requireLinkName(name)
  const peer = ['peer', 'name', pod.name, 'address', pod.mac, 'mtu', `${mtu}`, 'netns', netns]
  must('ip', ['link', 'add', 'name', host.name, 'address', host.mac, 'mtu', `${mtu}`, 'type', 'veth', ...peer])
  must('ip', ['link', 'set', host.name, 'up'])
  must('ip', ['-n', netns, 'link', 'set', pod.name, 'up'])
  for (const { address } of ips)
    ip(['-n', netns, 'address', 'add', address, 'dev', pod.name, ...(familyOf(address) === 6 ? ['nodad'] : [])])
  for (const { dst, gw } of [...routes, ...defaultRoutes])
    ip(['-n', netns, 'route', 'add', dst, ...(gw === undefined ? [] : ['via', gw]), 'dev', pod.name])
}

/** A pod that had links before its ADD has them again; a namespace that was not there is not there again. */
function makePod({ call: { netns = '', isNetnsAbsent }, pod }: ReplayInput): string {
  if (netns === '') return ''
  const name = namedNetns(netns) ?? 'replay'
  if (isNetnsAbsent) return namedNetns(netns) === undefined ? `/run/netns/${name}` : netns
  const path = makeNetns(name)
  const before = pod?.before ?? pod?.links.map(({ ifname }) => ifname) ?? []
  for (const ifname of before.filter((each) => each !== 'lo')) {
    requireLinkName(ifname)
    makeVeth(['-n', name], ifname)
  }
  return namedNetns(netns) === undefined ? path : netns
}

let ends = 0

function makeVeth(place: readonly string[], name: string): void {
  const end = `end${ends++}`
  must('ip', [...place, 'link', 'add', 'name', name, 'type', 'veth', 'peer', 'name', end, 'netns', farName])
  must('ip', ['-n', farName, 'link', 'set', end, 'up'])
}

/** A runtime waits longer; a person does not. */
const callMs = 60_000

function callOnce({ file, call, stdin, cniPath }: ReplayInput, netns: string): ReplayRun {
  const named = Object.entries(call.env).filter(([name]) => /^CNI_[A-Z]+$/.test(name))
  const own = { PATH: pathWithTools(), CNI_PATH: cniPath, ...(netns === '' ? {} : { CNI_NETNS: netns }) }
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

function requireLinkName(name: string): void {
  if (/^[^\s/:-][^\s/:]{0,14}$/.test(name)) return
  throw new CniError('record-unreadable', `the record has the link ${JSON.stringify(name)}, which is no name of a link`)
}

/** Of what a record says, a part may not fit this kernel: the call tells. */
function ip(args: readonly string[]): void {
  spawnSync('ip', args, { encoding: 'utf8' })
}

/** `fd`: descriptor 3 of the program. */
function must(file: string, args: readonly string[], fd?: number): void {
  const stdio = ['ignore' as const, 'pipe' as const, 'pipe' as const, ...(fd === undefined ? [] : [fd])]
  const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8', stdio })
  if (status === 0) return
  const details = `${[file, ...args].join(' ')}: ${error?.message ?? String(stderr).trim()}`
  throw new CniError('replay-not-possible', 'the private node of the replay cannot be made', { details })
}
