// SPDX-License-Identifier: Apache-2.0
// `trestle plan`: prints what an ADD, or the DEL after it, runs. It is the verb itself on a private node, with a machine
// that writes down each step before it runs it.

import { mkdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { readCall } from '../cni/call.ts'
import { isPluginType } from '../cni/config-head.ts'
import { asObject, parseObject } from '../cni/json.ts'
import { writeResult } from '../cni/results.ts'
import { readConfig, readDelConfig } from '../config/read-config.ts'
import type { Batch } from '../kernel/batch.ts'
import { uplinkMtu } from '../kernel/proc.ts'
import { nowMs } from '../process/clock.ts'
import { type Machine, machineWith } from '../process/machine.ts'
import { type Command as Process, type Run, runnerUntil } from '../process/runner.ts'
import { add } from '../verbs/add.ts'
import { openContext } from '../verbs/context.ts'
import { del } from '../verbs/del.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { failureOf } from './failure.ts'
import { counted } from './findings.ts'
import { readFileAs } from './input-file.ts'
import { readNetworkList } from './network-list.ts'
import { print } from './output.ts'
import { asOwn, isOwnType } from './own-type.ts'
import { requestConf } from './plugin-runtime.ts'
import { capabilityArgsOf, capabilityOptions, checkDeclared } from './pod-options.ts'
import { insideNode, type PrivateNode, runOnPrivateNode } from './private-node.ts'
import { requireRoot } from './self.ts'

export const planCommand: Command = {
  name: 'plan',
  words: '[FILE]',
  maxWords: 1,
  summary: 'print the operations of an ADD or DEL, and change nothing here',
  description: [
    'Prints each operation with its purpose, and the input of each tool, of an ADD that is run in private namespaces.',
    'A chained trestle gets an interface with 192.0.2.2/24, and another IPAM plugin is taken to answer with that',
    'address.',
  ].join('\n'),
  options: {
    del: { type: 'boolean', help: 'plan the DEL of the attachment instead of its ADD' },
    ...capabilityOptions,
  },
  examples: [
    'trestle plan /etc/cni/net.d/10-pods.conflist',
    'trestle plan --del /etc/cni/net.d/10-pods.conflist',
    'trestle plan --port 8080:80 10-pods.conflist',
    'trestle plan -o json <net.conf',
  ],
  run,
}

/** A process of the call, with its operations and why each is done. */
interface PlannedStep {
  readonly command: string
  readonly stdin: string
  readonly ops: readonly { readonly place: string; readonly why: string }[]
}

interface PlanInput extends PrivateNode {
  readonly stdin: string
  readonly isDel: boolean
  readonly isChained: boolean
  /** Another plugin that gives the addresses. */
  readonly ipamType?: string
}

async function run(input: Input): Promise<number> {
  const { words, values } = input
  const isDel = values['del'] === true
  const capabilityArgs = capabilityArgsOf(values)
  const { name, inside } = readFileAs(words[0] ?? '-', (text) => {
    const network = readNetworkList(text)
    const at = network.plugins.findIndex(({ type }) => isOwnType(type))
    const plugin = network.plugins[at]
    if (plugin === undefined) throw failureOf('list-without-trestle', 'no plugin of the list has the type "trestle"')
    checkDeclared([plugin], Object.keys(capabilityArgs))
    const isChained = at > 0 || plugin['mode'] === 'chained'
    const stdin = JSON.stringify(requestConf(network, asOwn(plugin), { capabilityArgs }))
    // A fault of the configuration is told here, not by the private node.
    readConfig(isChained ? withPrevious(stdin, assumedResult) : stdin, readCall(environment('ADD')))
    const links = [plugin['master'], plugin['device']].filter((link) => typeof link === 'string')
    const { type } = asObject(plugin['ipam'])
    const ipam = isPluginType(type) ? { ipamType: type } : {}
    const node = { programs: [], uplink: 'node0', mtu: uplinkMtu() ?? 1500, links }
    return { name: network.name, inside: { ...node, ...ipam, stdin, isDel, isChained } satisfies PlanInput }
  })
  requireRoot('plan', 'it makes network namespaces')
  const steps = await runOnPrivateNode<readonly PlannedStep[], PlanInput>('__plan-inside', inside)
  const ops = steps.flatMap((step) => step.ops)
  const batches = steps.map(({ command, stdin }) => ({ command, stdin }))
  const verb = isDel ? 'DEL' : 'ADD'
  const document = { verb, network: name, ops, batches }
  const text = [
    `network ${name}: ${verb} has ${counted(ops.length, 'operation')} in ${counted(steps.length, 'process', 'es')}\n\n`,
    ...ops.map(({ place, why }, at) => `${`${at + 1}`.padStart(4)}  ${place.padEnd(4)}  ${why}\n`),
    ...steps.map(({ command, stdin }) => `\n  ${command}\n${shortened(stdin).replace(/^(?=.)/gm, '    ')}`),
  ].join('')
  return print(input, { command: 'plan', document, text, code: exitCode.fine })
}

/** The rules of all networks are many lines; the elements of this one come last. */
function shortened(stdin: string): string {
  const lines = stdin.split('\n')
  if (lines.length <= 40) return stdin
  return [...lines.slice(0, 10), `… ${lines.length - 30} more lines: -o json has all`, ...lines.slice(-20)].join('\n')
}

const pluginDirectory = '/run/plugins'
const netns = '/run/netns/example'

function environment(verb: 'ADD' | 'DEL') {
  const pod = { CNI_CONTAINERID: 'example', CNI_NETNS: netns, CNI_IFNAME: 'eth0' }
  return { CNI_COMMAND: verb, ...pod, CNI_PATH: pluginDirectory }
}

/** An address for documentation (RFC 5737). */
const assumed = { address: '192.0.2.2/24', gateway: '192.0.2.1' }
const assumedResult = JSON.stringify({
  cniVersion: '1.0.0',
  interfaces: [{ name: 'eth0', mac: '0a:58:c0:00:02:02', sandbox: netns }],
  ips: [{ ...assumed, interface: 0 }],
})
/** What another plugin has done before a chained trestle. */
const previousConf = JSON.stringify({
  ...{ cniVersion: '1.0.0', name: 'previous', type: 'trestle', mode: 'ptp' },
  ipam: { type: 'static', addresses: [assumed] },
})

function withPrevious(stdin: string, result: string): string {
  return JSON.stringify({ ...parseObject(stdin), prevResult: parseObject(result) })
}

/** The inner process. */
export async function runPlan(): Promise<number> {
  return await insideNode<PlanInput>(async ({ stdin, ipamType, isDel, isChained }) => {
    const { machine } = openContext()
    mkdirSync(pluginDirectory)
    if (ipamType !== undefined) {
      const answer = JSON.stringify({ cniVersion: '1.0.0', ips: [assumed] })
      const script = `#!/bin/sh\n[ "$CNI_COMMAND" != ADD ] || echo '${answer}'\n`
      writeFileSync(join(pluginDirectory, ipamType), script, { mode: 0o755 })
    }
    const call = async (verb: 'ADD' | 'DEL', conf: string, steps: PlannedStep[]): Promise<string> => {
      const asked = readCall(environment(verb))
      const context = { ...openContext({ path: asked.path, stdin: conf }), machine: writingDown(steps) }
      if (verb === 'ADD') return writeResult(await add(asked, readConfig(conf, asked), context), '1.0.0')
      await del(asked, readDelConfig(conf, asked.ownTypes), context)
      return ''
    }
    const steps: PlannedStep[] = []
    await machine.ask({ file: 'ip', args: ['netns', 'add', 'example'] })
    const conf = isChained ? withPrevious(stdin, await call('ADD', previousConf, [])) : stdin
    await call('ADD', conf, isDel ? [] : steps)
    if (isDel) await call('DEL', conf, steps)
    return steps
  })
}

const callMs = 60_000

/** A machine that notes each process that changes something. */
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
      if (command.kind === 'delegate') steps.push({ command: `${basename(command.file)} ${verb}`, stdin: '', ops: [] })
      return await real(command)
    },
  }
  return noting
}
