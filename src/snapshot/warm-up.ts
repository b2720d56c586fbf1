// SPDX-License-Identifier: Apache-2.0
// Run once while the executable is built: functions that have run are in the start-up snapshot with their bytecode, all
// others are compiled in every call (9 ms of a bare ADD). Calls of every verb go through the real code, in a temporary
// state directory, with `cat` in place of each tool. Nothing here may be remembered by a module.

import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dispatch, type Verbs } from '../cni/dispatch.ts'
import { toCniError } from '../cni/errors.ts'
import { ruleComments } from '../kernel/nft-table.ts'
import { removeCallFiles } from '../process/killed-calls.ts'
import { type Machine, machineWith } from '../process/machine.ts'
import { type Command, type Run, runnerUntil } from '../process/runner.ts'
import { openRecorder } from '../recording/recorder.ts'
import { add } from '../verbs/add.ts'
import { check } from '../verbs/check.ts'
import type { Context } from '../verbs/context.ts'
import { del } from '../verbs/del.ts'
import { gc } from '../verbs/gc.ts'
import { status } from '../verbs/status.ts'

/** What a call has of its process: environment and signals, descriptors, and how it ends. */
export interface Edge {
  readonly process: Pick<NodeJS.Process, 'env' | 'argv'> & {
    on(event: string, listener: (reason: unknown) => void): unknown
  }
  readonly stdin: number
  readonly stdout: number
  readonly exit: (code: number) => unknown
}

/** Tells what went wrong on stderr, the build's log: the executable is only slower then. */
export async function warmUpForSnapshot(run: (edge: Edge) => unknown): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'trestle-warm-up-'))
  const before = process.env['TRESTLE_STATE_DIR']
  process.env['TRESTLE_STATE_DIR'] = join(directory, 'state')
  try {
    for (const problem of [...(await everyVerb()), ...(await theEdge(run, directory))])
      process.stderr.write(`warm-up: ${problem}\n`)
  } catch (error) {
    process.stderr.write(`warm-up: ${toCniError(error).message}\n`)
  } finally {
    removeCallFiles()
    if (before === undefined) delete process.env['TRESTLE_STATE_DIR']
    else process.env['TRESTLE_STATE_DIR'] = before
    rmSync(directory, { recursive: true, force: true })
    await forgetTimers()
  }
}

/**
 * Node keeps when its next timer is due, also after that was cleared (nextExpiry in lib/internal/timers.js): in the snapshot
 * timers of calls would never come. It is forgotten when timers run and none is left; a process that a failed look left at
 * work has one.
 */
async function forgetTimers(): Promise<void> {
  do await new Promise((resolve) => setTimeout(resolve, 1))
  while (process.getActiveResourcesInfo().includes('ProcessWrap'))
  evenOutTimers()
  await new Promise((resolve) => setTimeout(resolve, 1))
}

/**
 * Node numbers its lists of timers, one for each duration that is waited for; how many there were depends on the machine's
 * speed. Two builds have to give the same bytes: the number goes up to a fixed one, and many lists at once leave a table without traces of
 * former ones.
 */
function evenOutTimers(): void {
  let lists: number
  do {
    const timer = setTimeout(() => {}, 2)
    lists = (timer as unknown as { _idlePrev: { id: number } })._idlePrev.id - Number.MIN_SAFE_INTEGER
    clearTimeout(timer)
  } while (lists < 1000)
  const many = Array.from({ length: 64 }, (_, index) => setTimeout(() => {}, 2 + index))
  for (const timer of many) clearTimeout(timer)
}

/** The build's process is a minute old by then. Every tool may take as long, so that Node keeps one list for their timers. */
const endsAtMs = 600_000
const mostMs = 60_000

/** A network as most have it, with what a pod may ask for. */
const config = {
  cniVersion: '1.1.0',
  name: 'warm-up',
  type: 'trestle',
  bridge: 'warm-up0',
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  firewall: { ingressPolicy: 'same-bridge' },
  bandwidth: { ingressRate: 1e8, ingressBurst: 1e7, egressRate: 1e8, egressBurst: 1e7 },
  tuning: { sysctl: { 'net.ipv4.ip_unprivileged_port_start': '0' } },
}

async function everyVerb(): Promise<readonly string[]> {
  const problems: string[] = []
  const call = async (verb: string, pod: number, more: object = {}, mayFail = false) => {
    const env = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: `warm-up${pod}`,
      CNI_NETNS: '/proc/self/ns/net',
      CNI_IFNAME: 'eth0',
      CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=warm;K8S_POD_NAME=up;K8S_POD_INFRA_CONTAINER_ID=x;K8S_POD_UID=y',
      CNI_PATH: '/opt/cni/bin',
    }
    const runtimeConfig = { portMappings: [{ hostPort: pod + 1, containerPort: 80, protocol: 'udp' }] }
    const recorder = openRecorder(env)
    const input = {
      env,
      stdin: () => JSON.stringify({ ...config, runtimeConfig, ...more }),
      ownTypes: ['trestle'],
      onStdin: recorder.onStdin,
    }
    const { stdout, exitCode } = await dispatch(input, warmVerbs())
    if (exitCode !== 0 && !mayFail) problems.push(`${verb}: ${stdout.trim()}`)
    return stdout
  }
  await call('VERSION', 0)
  await call('STATUS', 0, {}, true)
  for (const pod of [0, 1]) {
    const prevResult = JSON.parse((await call('ADD', pod)) || '{}') as object
    // What is compared is not there: the differences are the expected outcome.
    await call('CHECK', pod, { prevResult }, true)
  }
  for (const pod of [0, 1]) await call('DEL', pod)
  return problems
}

function warmVerbs(): Verbs {
  const context: Context = { machine: harmless(), deadline: { endsAtMs }, path: [], stdin: '' }
  return {
    add: (call, conf) => add(call, conf, context),
    del: (call, conf) => del(call, conf, context),
    check: (call, conf) => check(call, conf, context),
    gc: (call, conf) => gc(call, conf, context),
    status: (call, conf) => status(call, conf, context),
  }
}

/** `cat` reads what the tool would have read; no setting of this machine is written. */
function harmless(): Machine {
  const real = runnerUntil({ endsAtMs })
  const run: Run = async (command) => ({
    ...(await real({ ...command, file: 'cat', args: [], isDone: undefined, mostMs })),
    stdout: answerTo(command),
  })
  const machine = machineWith(run)
  return {
    ...machine,
    openNetns: (path) => ({ fd: openSync('/dev/null', 'r'), identity: { path, inode: 1 } }),
    run: (steps, options) =>
      machine.run(
        steps.map((step) => (step.batch.tool === 'file' ? { ...step, batch: { ...step.batch, ops: [] } } : step)),
        options,
      ),
  }
}

function answerTo({ file, args }: Command): string {
  if (file === 'nft')
    return args.includes('-j')
      ? '{"nftables":[]}'
      : ruleComments('inet', false)
          .map((comment) => `comment "${comment}"\n`)
          .join('')
  if (file === 'conntrack') return 'udp 17 29 src=192.0.2.1 dst=192.0.2.2 sport=1 dport=1\n'
  return '[{"ifname":"warm-up0","address":"00:00:00:00:00:01","linkinfo":{"info_kind":"bridge"}}]\n'
}

/** VERSION from where the runtime starts it to its exit, with a process that is none. */
async function theEdge(run: (edge: Edge) => unknown, directory: string): Promise<readonly string[]> {
  const input = join(directory, 'stdin')
  writeFileSync(input, '{"cniVersion":"1.1.0"}')
  const process = { env: { CNI_COMMAND: 'VERSION' }, argv: [], on: () => undefined }
  const edge = { process, stdin: openSync(input, 'r'), stdout: openSync('/dev/null', 'w') }
  const code = await new Promise((exit) => run({ ...edge, exit }))
  return code === 0 ? [] : [`VERSION at the edge: ${String(code)}`]
}
