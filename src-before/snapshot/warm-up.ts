// SPDX-License-Identifier: Apache-2.0
// Run once while the executable is built: functions that have run are in the start-up snapshot with their bytecode,
// all others are compiled anew in every call (9 ms of a bare ADD). Calls of every verb go through the real
// code, in a temporary state directory, with tools that change nothing. Nothing here may be remembered by a module.

import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toCniError } from '../cni/error.ts'
import type { Invocation } from '../cni/invocation.ts'
import type { Result } from '../cni/result.ts'
import { interfacePort } from '../commands/attach/attach-port.ts'
import { intentFor } from '../commands/attach/intent.ts'
import { addInterface } from '../commands/attach/interface.ts'
import type { InterfacePort } from '../commands/attach/ports.ts'
import { type CallContext, openContext } from '../commands/call/context.ts'
import { dispatch, type Handlers } from '../commands/call/dispatch.ts'
import { openKeeper } from '../commands/record/keeper.ts'
import { writeSwitch } from '../commands/record/settings.ts'
import { add } from '../commands/verbs/add.ts'
import { check } from '../commands/verbs/check.ts'
import { del } from '../commands/verbs/del.ts'
import { gc } from '../commands/verbs/gc.ts'
import { handlers as realHandlers } from '../commands/verbs/handlers.ts'
import { status } from '../commands/verbs/status.ts'
import type { NetConf } from '../config/net-conf.ts'
import { interfaceConf } from '../drivers/drivers.ts'
import type { Op } from '../model/op.ts'
import { declarationsOf } from '../model/tables.ts'
import type { Plan } from '../plan/order/stage.ts'
import { namesOnce } from '../system/files/files.ts'
import { networkFiles } from '../system/files/state.ts'
import { linkCommands } from '../system/kernel/execute.ts'
import { openNetns } from '../system/kernel/netns.ts'
import { removeCallFiles } from '../system/process/call-file.ts'
import { nowMs } from '../system/process/clock.ts'
import { notedExecutions, noteExecutions } from '../system/process/executions.ts'
import { type Command, inFiles, prestart, type Run } from '../system/process/runner.ts'

/** No gateway: the build must not switch this machine's forwarding on. */
const config = {
  cniVersion: '1.1.0',
  name: 'warm-up',
  type: 'trestle',
  bridge: 'warm-up0',
  isGateway: false,
  isDefaultGateway: false,
  ipMasq: true,
  hairpinMode: true,
  ipam: {
    type: 'host-local',
    ranges: [[{ subnet: '10.240.0.0/24', gateway: '10.240.0.1' }], [{ subnet: 'fd00:240::/64' }]],
    routes: [{ dst: '0.0.0.0/0' }, { dst: '::/0' }],
  },
}

/** What a pod may ask for besides. Port 1: nothing listens there, and the intent record is temporary. */
const features = {
  bandwidth: { ingressRate: 1e8, ingressBurst: 1e7, egressRate: 1e8, egressBurst: 1e7 },
  tuning: { sysctl: { 'net.ipv4.ip_unprivileged_port_start': '0' } },
  runtimeConfig: { portMappings: [{ hostPort: 1, containerPort: 80, protocol: 'tcp' }] },
}

/** Refused as a pod's, so the verbs get a file in its place: no tool enters it. */
const ownNamespace = '/proc/self/ns/net'

const pods = 2

/**
 * Runs ADD (the first of a network and a later one), CHECK, STATUS, DEL and VERSION; GC is rare. Resolves to what
 * went wrong, one line per call: the build says it and goes on, the executable is only slower.
 */
async function warmUp(run: (edge: Edge) => unknown): Promise<readonly string[]> {
  const stateDir = mkdtempSync(join(tmpdir(), 'trestle-warm-up-'))
  const before = process.env['TRESTLE_STATE_DIR']
  process.env['TRESTLE_STATE_DIR'] = join(stateDir, 'state')
  try {
    noteExecutions()
    return [...(await everyVerb()), ...(await warmUpEdge(run))]
  } finally {
    notedExecutions()
    removeCallFiles()
    if (before === undefined) delete process.env['TRESTLE_STATE_DIR']
    else process.env['TRESTLE_STATE_DIR'] = before
    rmSync(stateDir, { recursive: true, force: true })
    clearBufferPool()
    await forgetTimers()
  }
}

/**
 * Node keeps when its next timer is due (nextExpiry in lib/internal/timers.js), also after that timer was cleared, and
 * arms nothing for one that is due later. In the snapshot that time is this process's: deadlines of calls would never
 * come. It is forgotten when timers run and none is left.
 */
async function forgetTimers(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1))
}

/** Small buffers share one pool, which goes into the snapshot: this machine's boot id was written through it. */
function clearBufferPool(): void {
  new Uint8Array(Buffer.from('any').buffer).fill(0)
}

async function everyVerb(): Promise<readonly string[]> {
  const problems: string[] = []
  writeSwitch({ log: {}, record: {} })
  const call = async (verb: string, more: object = {}, pod = 0) => {
    const input = inputOf(verb, pod, more)
    const keeper = openKeeper(input.env)
    const output = await dispatch({ ...input, onStdin: keeper.onStdin }, handlers())
    keeper.end(output)
    if (output.exitCode !== 0) problems.push(`${verb}: ${output.stdout.trim()}`)
    return output.stdout
  }
  await call('VERSION')
  await call('STATUS')
  for (let pod = 0; pod < pods; pod++) {
    const prevResult = JSON.parse((await call('ADD', {}, pod)) || '{}') as object
    // What is compared is not there: the differences are the expected outcome.
    await dispatch(inputOf('CHECK', pod, { prevResult }), handlers())
  }
  await call('STATUS')
  for (let pod = 0; pod < pods; pod++) await call('DEL', {}, pod)
  // Ends at a setting of the bridge, which is not there: the way back is warm as well.
  await dispatch(inputOf('ADD', pods, features), handlers())
  return [...problems, ...(await warmUpPodNetwork())]
}

/** STATUS starts no process, so it is asked for real; its ADDs change no setting of this machine. */
async function warmUpPodNetwork(): Promise<readonly string[]> {
  const input = (verb: string, pod = 0, more: object = {}) => {
    const runtimeConfig = { portMappings: [{ hostPort: pod + 1, containerPort: 80, protocol: 'udp' }] }
    return { ...inputOf(verb, pods + pod, {}), stdin: () => JSON.stringify({ ...podNetwork, runtimeConfig, ...more }) }
  }
  const { signal } = new AbortController()
  await dispatch(input('STATUS'), realHandlers(signal, nowMs()))
  const context = harmless(openContext(signal))
  const add: Handlers['add'] = async (call, conf) => await warmUpAdd(context, call, conf)
  const problems: string[] = []
  for (const pod of [0, 1]) {
    const { exitCode, stdout } = await dispatch(input('ADD', pod), { ...handlers(), add })
    if (exitCode !== 0) problems.push(`ADD: ${stdout.trim()}`)
    // What is compared is not there: the differences are the expected outcome.
    else await dispatch(input('CHECK', pod, { prevResult: JSON.parse(stdout) }), handlers())
  }
  for (const pod of [0, 1]) {
    const { exitCode, stdout } = await dispatch(input('DEL', pod), handlers())
    if (exitCode !== 0) problems.push(`DEL: ${stdout.trim()}`)
  }
  return problems
}

function inputOf(verb: string, pod: number, more: object) {
  const env = {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: `warm-up${pod}`,
    CNI_NETNS: ownNamespace,
    CNI_IFNAME: 'eth0',
    CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=warm;K8S_POD_NAME=up;K8S_POD_INFRA_CONTAINER_ID=x;K8S_POD_UID=y',
    CNI_PATH: '/opt/cni/bin',
  }
  return { env, stdin: () => JSON.stringify({ ...config, ...more }) }
}

/** The verbs with a context whose runner starts a harmless process in place of each tool. */
function handlers() {
  const context = harmless(openContext(new AbortController().signal))
  return {
    add: add.bind(undefined, context),
    del: del.bind(undefined, context),
    check: check.bind(undefined, context),
    gc: gc.bind(undefined, context),
    status: status.bind(undefined, context),
  }
}

function harmless(context: CallContext): CallContext {
  return { ...context, run: echoing(context.run), cleanup: echoing(context.cleanup), openNetns: openAnything }
}

function openAnything(path: string) {
  try {
    return openNetns(path)
  } catch {
    return { fd: openSync('/dev/null', 'r'), identity: { path, inode: 1 } }
  }
}

/** `cat` reads what the tool would have read; the answer is that of a tool with nothing to tell but complete rules. */
function echoing(run: Run): Run {
  return async (command: Command) => {
    const output = await run({ ...command, file: 'cat', args: [] })
    return { ...output, stdout: answerTo(command) }
  }
}

function answerTo({ file, args }: Command): string {
  if (file === 'nft') return args.includes('-j') ? tableListing : ruleComments()
  if (file === 'conntrack') return 'udp 17 29 src=192.0.2.1 dst=192.0.2.2 sport=1 dport=1\n'
  return '[{}]\n'
}

function ruleComments(): string {
  const { chains } = declarationsOf('inet')
  return chains.flatMap((chain) => chain.rules.map((rule) => `comment "${rule.comment}"\n`)).join('')
}

/** Warms up and tells what went wrong on standard error: the build's log. `run`: a call from its edge on (main.ts). */
export async function warmUpForSnapshot(run: (edge: Edge) => unknown): Promise<void> {
  const problems = await warmUp(run).catch((error: unknown) => [toCniError(error).message])
  for (const problem of problems) process.stderr.write(`warm-up: ${problem}\n`)
}

// An ADD that the build cannot run as it is: a network with a gateway would switch this machine's forwarding on, and a
// usual one needs a bridge that is there. Its order is carried out without such settings.

/** A pod network in the short form, with what a pod may ask for. */
const podNetwork = {
  cniVersion: '1.1.0',
  name: 'warm-up',
  type: 'trestle',
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  firewall: { ingressPolicy: 'same-bridge' },
  bandwidth: { ingressRate: 1e8, ingressBurst: 1e7 },
}

const tableListing = JSON.stringify({
  nftables: [
    { chain: { name: 'forward' } },
    { rule: { chain: 'forward', comment: 'none' } },
    { set: { name: 'masq4', elem: [{ prefix: { addr: '10.240.0.0', len: 24 } }, { concat: ['tcp', 1] }] } },
  ],
})

/** The story of an ADD with tools that are harmless. */
async function warmUpAdd(context: CallContext, call: Invocation, read: NetConf): Promise<Result> {
  const conf = interfaceConf(read)
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  const addition = { context, call, conf, key, files: networkFiles(conf.name) }
  const netns = context.openNetns(call.netns)
  const record = await intentFor(addition, netns.identity)
  const prestarted = prestart(inFiles(context.run), linkCommands(netns.fd))
  const place = { run: prestarted.run, netnsFd: netns.fd, prestarted }
  const real = interfacePort({ ...addition, record, names: namesOnce() }, { netns, place })
  const port: InterfacePort = {
    ...real,
    run: async (plan) => await real.run(withoutFiles(plan)),
    // As if the bridge were there: the second ADD finds the network as it is to be.
    lookAtKnown: () => ({ ...real.lookAtKnown(), hasBridge: true, forwarding: [4, 6] }),
  }
  try {
    return await addInterface(port, { key, conf, netns: call.netns, mtu: 1500, machineId: '' })
  } finally {
    await prestarted.discard()
    closeSync(netns.fd)
  }
}

/** The build must not change a setting of this machine. */
function withoutFiles(plan: Plan): Plan {
  const isFile = ({ kind }: Op) => kind === 'forwarding.on' || kind === 'sysctl.write'
  const stages = plan.stages.map(({ run, ...stage }) => ({
    ...stage,
    run: run.kind === 'batch' ? { ...run, ops: run.ops.filter((op) => !isFile(op)) } : run,
  }))
  return { ...plan, stages }
}

// A call from where the runtime starts it to its exit, with a process that is none: what of main.ts has run is in the
// start-up snapshot with its bytecode.

/** What a call has of its process: environment and signals, descriptors, and how it ends. */
export interface Edge {
  readonly process: Pick<NodeJS.Process, 'env' | 'argv'> & {
    on(event: string, listener: (reason: unknown) => void): unknown
  }
  readonly stdin: number
  readonly stdout: number
  readonly exit: (code: number) => unknown
}

/** Runs VERSION with a file as standard input and another as output. Resolves to what went wrong. */
async function warmUpEdge(run: (edge: Edge) => unknown): Promise<readonly string[]> {
  const directory = mkdtempSync(join(tmpdir(), 'trestle-warm-up-'))
  const input = join(directory, 'stdin')
  writeFileSync(input, '{"cniVersion":"1.1.0"}')
  const [stdin, stdout] = [openSync(input, 'r'), openSync('/dev/null', 'w')]
  try {
    const process = { env: { CNI_COMMAND: 'VERSION' }, argv: [], on: () => undefined }
    const code = await new Promise((exit) => run({ process, stdin, stdout, exit }))
    return code === 0 ? [] : [`VERSION at the edge: ${String(code)}`]
  } finally {
    closeSync(stdin)
    closeSync(stdout)
    rmSync(directory, { recursive: true, force: true })
  }
}
