// SPDX-License-Identifier: Apache-2.0
// `trestle plan`: prints what an ADD, or the DEL after it, runs. It is the verb itself on a private node, with a machine
// that writes down each step before it runs it.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bareAddress, type Cidr, firstOf, formatAddress, parseCidr } from '../cni/addresses.ts'
import { readCall } from '../cni/call.ts'
import { isPluginType } from '../cni/config-head.ts'
import { asObject, parseObject } from '../cni/json.ts'
import { readResult } from '../cni/results.ts'
import { readConfig, readDelConfig } from '../config/read-config.ts'
import type { Batch } from '../kernel/batch.ts'
import { uplinkMtu } from '../kernel/proc.ts'
import { nowMs } from '../process/clock.ts'
import { type Machine, machineWith } from '../process/machine.ts'
import { type Command as Process, type Run, runnerUntil } from '../process/runner.ts'
import { add } from '../verbs/add.ts'
import { openContext } from '../verbs/context.ts'
import { del } from '../verbs/del.ts'
import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { failureOf } from './failure.ts'
import { counted } from './findings.ts'
import { readFileAs } from './input-file.ts'
import { readNetworkList } from './network-list.ts'
import { print } from './output.ts'
import { asOwn, isOwnType } from './own-type.ts'
import { pluginPath, requestConf } from './plugin-runtime.ts'
import { capabilityArgsOf, capabilityOptions, checkDeclared } from './pod-options.ts'
import { insideNode, type PrivateNode, runOnPrivateNode } from './private-node.ts'
import { requireRoot } from './self.ts'

export const planCommand: Command = {
  name: 'plan',
  words: '[FILE]',
  maxWords: 1,
  summary: 'print the operations of an ADD or DEL, and change nothing here',
  description: [
    'Reads a .conflist or .conf file (standard input without FILE) and prints what the first ADD of its trestle plugin',
    "runs: each operation's purpose, and the input of each tool. It runs them in private namespaces, where nothing else",
    'is: addresses are the first of each range, and the container is "example". A chained trestle gets the file\'s',
    'prevResult, or an interface with 192.0.2.2/24; another IPAM plugin is taken to answer with that address.',
  ].join('\n'),
  options: {
    del: { type: 'boolean', help: 'plan the DEL of the attachment instead of its ADD' },
    later: { type: 'boolean', help: "plan the ADD of a later pod instead of the network's first" },
    flushed: { type: 'boolean', help: 'plan the ADD of a later pod after a flush of the rules' },
    ...capabilityOptions,
  },
  examples: [
    'trestle plan /etc/cni/net.d/10-pods.conflist',
    'trestle plan --del /etc/cni/net.d/10-pods.conflist',
    'trestle plan --port 8080:80 --bandwidth 10M 10-pods.conflist',
    'trestle plan -o json <net.conf',
  ],
  run,
}

const kinds = ['first', 'later', 'flushed', 'del'] as const
type Planned = (typeof kinds)[number]

const titles: Readonly<Record<Planned, string>> = {
  first: 'the first ADD',
  later: 'a later ADD',
  flushed: 'the ADD after a flush',
  del: 'the DEL',
}

/** A process of the call, with its operations and why each is done. */
interface PlannedStep {
  readonly command: string
  readonly stdin: string
  readonly ops: readonly { readonly place: string; readonly why: string }[]
}

interface PlanInput extends PrivateNode {
  readonly stdin: string
  readonly what: Planned
  readonly ipamType?: string
}

async function run(input: Input): Promise<number> {
  const { words, values } = input
  const [what = 'first', second] = kinds.filter((name) => values[name] === true)
  if (second !== undefined) throw new UsageError(`--${what} and --${second} select different calls: use only one`)
  const capabilityArgs = capabilityArgsOf(values)
  const { name, inside } = readFileAs(words[0] ?? '-', (text) => {
    const network = readNetworkList(text)
    const at = network.plugins.findIndex(({ type }) => isOwnType(type))
    const plugin = network.plugins[at]
    if (plugin === undefined) throw failureOf('list-without-trestle', 'no plugin of the list has the type "trestle"')
    checkDeclared([plugin], Object.keys(capabilityArgs))
    const isChained = (at > 0 || plugin['mode'] === 'chained') && plugin['prevResult'] === undefined
    const previous = isChained ? { prevResult: { cniVersion: network.cniVersion, ...assumedPrevious } } : {}
    const stdin = JSON.stringify(requestConf(network, { ...asOwn(plugin), ...previous }, { capabilityArgs }))
    // A fault of the configuration is told here, not by the private node.
    readConfig(stdin, readCall(environment('example')))
    const links = [plugin['master'], plugin['device']].filter((link) => typeof link === 'string')
    const { type } = asObject(plugin['ipam'])
    const ipam = isPluginType(type) ? { ipamType: type } : {}
    const node = { programs: pluginPath().split(':'), uplink: 'node0', mtu: uplinkMtu() ?? 1500, links, ranges: stdin }
    return { name: network.name, inside: { ...node, ...ipam, stdin, what } satisfies PlanInput }
  })
  requireRoot('plan', 'it makes network namespaces')
  const steps = await runOnPrivateNode<readonly PlannedStep[], PlanInput>('__plan-inside', inside)
  const ops = steps.flatMap((step) => step.ops)
  const batches = steps.map(({ command, stdin }) => ({ command, stdin }))
  const document = { verb: what === 'del' ? 'DEL' : 'ADD', network: name, ops, batches }
  const text = [
    `network ${name}: ${titles[what]} has ${counted(ops.length, 'operation')} in ${counted(steps.length, 'process', 'es')}\n\n`,
    ...ops.map(({ place, why }, at) => `${`${at + 1}`.padStart(4)}  ${place.padEnd(4)}  ${why}\n`),
    ...steps.map(({ command, stdin }) => `\n  ${command}\n${stdin.replace(/^(?=.)/gm, '    ')}`),
  ].join('')
  return print(input, { command: 'plan', document, text, code: exitCode.fine })
}

/** The result of a plugin before a chained trestle: one address for documentation (RFC 5737). */
const assumedPrevious = {
  interfaces: [
    { name: 'cni0' },
    { name: 'veth0', mac: '0a:58:c0:00:02:03' },
    { name: 'eth0', mac: '0a:58:c0:00:02:02', sandbox: '/run/netns/example' },
  ],
  ips: [{ address: '192.0.2.2/24', gateway: '192.0.2.1', interface: 2 }],
  routes: [],
}

const pluginDirectory = '/run/plugins'

function environment(id: string) {
  return {
    CNI_COMMAND: 'ADD',
    CNI_CONTAINERID: id,
    CNI_NETNS: `/run/netns/${id}`,
    CNI_IFNAME: 'eth0',
    CNI_PATH: pluginDirectory,
  }
}

/** The inner process. */
export async function runPlan(): Promise<number> {
  return await insideNode<PlanInput>(async (input) => {
    const { what, ipamType } = input
    const { machine } = openContext()
    // Its answer is assumed; it only has to be there.
    mkdirSync(pluginDirectory)
    if (ipamType !== undefined) writeFileSync(join(pluginDirectory, ipamType), '#!/bin/sh\n', { mode: 0o755 })
    // A pod of before, which had no host ports.
    const { runtimeConfig: _, ...before } = parseObject(input.stdin) ?? {}
    const call = async (id: string, verb: 'ADD' | 'DEL', steps: PlannedStep[]) => {
      const stdin = id === 'other' ? JSON.stringify(before) : input.stdin
      const asked = readCall({ ...environment(id), CNI_COMMAND: verb })
      const context = { ...openContext({ path: asked.path, stdin }), machine: writingDown(steps) }
      if (verb === 'ADD') await add(asked, readConfig(stdin, asked), context)
      else await del(asked, readDelConfig(stdin, asked.ownTypes), context)
    }
    const make = async (id: string) => {
      await machine.ask({ file: 'ip', args: ['netns', 'add', id] })
      await makePrevious(machine, id, before['prevResult'])
    }
    const steps: PlannedStep[] = []
    if (what === 'later' || what === 'flushed') {
      await make('other')
      await call('other', 'ADD', [])
      await call('other', 'DEL', [])
    }
    if (what === 'flushed') await machine.ask({ file: 'nft', args: ['flush', 'ruleset'] })
    await make('example')
    await call('example', 'ADD', what === 'del' ? [] : steps)
    if (what === 'del') await call('example', 'DEL', steps)
    return steps
  })
}

/** The interface that an earlier plugin has made: of two links on the host the first is its bridge, the last its end. */
async function makePrevious(machine: Machine, id: string, prevResult: unknown): Promise<void> {
  if (prevResult === undefined) return
  const { interfaces, ips } = readResult(prevResult, '1.0.0')
  const onHost = interfaces.filter(({ sandbox }) => !sandbox).map(({ name }) => name)
  const pod = interfaces.find(({ sandbox }) => sandbox)
  const [end, bridge] = [onHost.at(-1) ?? 'end0', onHost.length > 1 ? onHost[0] : undefined]
  const mac = pod?.mac === undefined ? '' : ` address ${pod.mac}`
  const lines = [
    ...(bridge === undefined ? [] : [`link add ${bridge} type bridge`, `link set ${bridge} up`]),
    `link add ${end} type veth peer name ${pod?.name}${mac} netns ${id}`,
    `link set ${end} up${bridge === undefined ? '' : ` master ${bridge}`}`,
    ...ips.map(({ address, gateway }) => wayTo(address, gateway, { bridge, end })),
  ]
  await machine.ask({ file: 'ip', args: ['-batch', '-'], stdin: lines.map((line) => `${line}\n`).join('') })
  const inPod = [
    ...ips.map(({ address }) => `addr add ${address} dev ${pod?.name}`),
    `link set ${pod?.name} up`,
    'link set lo up',
  ]
  await machine.ask({ file: 'ip', args: ['-n', id, '-batch', '-'], stdin: inPod.map((line) => `${line}\n`).join('') })
}

/** The node reaches the pod: by a gateway address on the bridge, or by a route. */
function wayTo(
  address: string,
  gateway: string | undefined,
  { bridge, end }: { bridge: string | undefined; end: string },
) {
  const cidr = parseCidr(address)
  if (cidr === undefined || bridge === undefined) return `route add ${bareAddress(address)} dev ${end}`
  return `addr add ${gateway ?? firstHost(cidr)}/${cidr.prefixLength} dev ${bridge}`
}

function firstHost(cidr: Cidr): string {
  const { family, value } = firstOf(cidr)
  return formatAddress({ family, value: value + 1n })
}

const delegatedAnswer = '{"cniVersion":"1.0.0","ips":[{"address":"192.0.2.2/24","gateway":"192.0.2.1"}]}'
const callMs = 60_000

/** A machine that notes each process that changes something; a delegated plugin is taken to answer. */
function writingDown(steps: PlannedStep[]): Machine {
  const real: Run = (command) => runnerUntil({ endsAtMs: nowMs() + callMs })(command)
  let batches: readonly Batch[] = []
  const note = ({ file, args }: Process, stdin: string) => {
    const batch = batches.find(({ texts }) => texts.length > 0 && stdin.startsWith(texts.join('')))
    const ops = (batch?.ops ?? []).map(({ place, why }) => ({ place, why }))
    steps.push({ command: [file, ...args].join(' '), stdin, ops })
  }
  const machine = machineWith(async (command) => {
    const { stdin } = command
    if (typeof stdin !== 'function') {
      note(command, stdin ?? '')
      return await real(command)
    }
    // It waits for its input.
    const noteInput = (give: (text: string) => void) => (text: string) => {
      note(command, text)
      give(text)
    }
    return await real({ ...command, stdin: (give) => stdin(noteInput(give)) })
  })
  const noting: Machine = {
    ...machine,
    forUndoing: () => noting,
    run: async (all, options) => {
      batches = all.map(({ batch }) => batch)
      for (const { texts, ops } of batches.filter(({ tool }) => tool === 'file')) {
        const named = ops.map(({ place, why }) => ({ place, why }))
        steps.push({ command: 'written to /proc/sys', stdin: texts.join(''), ops: named })
      }
      return await machine.run(all, options)
    },
    ask: async (command) => {
      const verb = command.env?.['CNI_COMMAND'] ?? ''
      const stdin = typeof command.stdin === 'string' ? command.stdin : ''
      if (command.file === 'conntrack' || /^link set /m.test(stdin)) note(command, stdin)
      if (command.kind !== 'delegate') return await real(command)
      steps.push({ command: `${command.file.split('/').at(-1)} ${verb}`, stdin: '', ops: [] })
      return { code: 0, stdout: verb === 'ADD' ? delegatedAnswer : '', stderr: '' }
    },
  }
  return noting
}
