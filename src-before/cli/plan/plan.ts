// SPDX-License-Identifier: Apache-2.0
// `trestle plan`: prints the commands of an ADD or of the DEL after it, from the configuration alone. It looks at
// nothing and runs nothing; the container is a placeholder, and its addresses are the first of each range.

import { CniError } from '../../cni/error.ts'
import { type Environment, type Invocation, readInvocation } from '../../cni/invocation.ts'
import { readConfig } from '../../config/config.ts'
import { forwardingKey } from '../../model/op.ts'
import { opsOf } from '../../plan/order/stage.ts'
import { lanesHere } from '../../system/kernel/execute.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { announcedBy, type Batch, withEvidence } from '../../tools/batches.ts'
import { type NetworkList, readNetworkList, requestConf } from '../node/list.ts'
import { asOwn, isOwnType } from '../node/own-type.ts'
import { capabilityArgsOf, capabilityOptions, checkDeclared } from '../node/pod-options.ts'
import { type Command, exitCode, type Input, UsageError } from '../shell/command.ts'
import { print } from '../shell/output.ts'
import { readFileAs } from '../shell/read-input.ts'
import { assumedAdd, assumedDel, assumedPrevious, type Finds, type ShownPlan } from './assume.ts'

const containerId = 'example'

/** Ethernet's MTU, for "auto"; an ADD takes the MTU of the default-route interfaces. */
const placeholderMtu = 1500

/** The group in which a DEL removes an attachment's links; a real DEL derives the number from its process id. */
const placeholderGroup = 0x40000001

export const planCommand: Command = {
  name: 'plan',
  words: '[FILE]',
  maxWords: 1,
  summary: 'print the operations of an ADD or DEL, and run nothing',
  description: [
    'Reads a .conflist or .conf file (standard input without FILE) and prints the operations of the first ADD of',
    "its first trestle plugin: each operation's purpose, and the input of `ip` and `nft`. plan runs nothing and does",
    'not look at the node: addresses are the first of each range, the container is "example", an "auto" MTU is 1500.',
    "A chained trestle gets the file's prevResult, or an interface with 192.0.2.2/24; another IPAM plugin answers",
    'with the same address. With --del: the operations of the DEL of that attachment, with its namespace still there.',
  ].join('\n'),
  options: {
    del: { type: 'boolean', help: 'plan the DEL of the attachment instead of its ADD' },
    later: { type: 'boolean', help: "plan the ADD of a later pod instead of the network's first" },
    flushed: { type: 'boolean', help: 'plan the ADD of a later pod after a flush of the rules' },
    ...capabilityOptions,
  },
  examples: [
    'trestle plan /etc/cni/net.d/10-pods.conflist',
    'trestle plan --later /etc/cni/net.d/10-pods.conflist',
    'trestle plan --del /etc/cni/net.d/10-pods.conflist',
    'trestle plan --port 8080:80 --bandwidth 10M 10-pods.conflist',
    'trestle plan -o json <net.conf',
  ],
  run,
}

/** The planned call: the DEL, or an ADD by the node's state before it. */
type Planned = 'DEL' | Finds

const titles: Readonly<Record<Planned, string>> = {
  first: 'the first ADD',
  later: 'a later ADD',
  flushed: 'the ADD after a flush',
  DEL: 'the DEL',
}

async function run(input: Input): Promise<number> {
  const { words, values } = input
  const what = plannedBy(values)
  const capabilityArgs = capabilityArgsOf(values)
  const read = async (text: string) => await planOfList(text, what, capabilityArgs)
  const { network, plans } = await readFileAs(words[0] ?? '-', read)
  const verb = what === 'DEL' ? 'DEL' : 'ADD'
  const document = {
    verb,
    network: network.name,
    ops: plans.flatMap((plan) => opsOf(plan)),
    batches: batchesOf(plans),
    plans,
  }
  const text = planText(`network ${network.name}: ${titles[what]}`, plans)
  return print(input, { command: 'plan', document, text, code: exitCode.fine })
}

/** The call that the options select. Throws UsageError for two calls. */
function plannedBy(values: Input['values']): Planned {
  const [first, second] = (['later', 'flushed', 'del'] as const).filter((name) => values[name] === true)
  if (second !== undefined) throw new UsageError(`--${first} and --${second} select different calls: use only one`)
  if (first === undefined) return 'first'
  return first === 'del' ? 'DEL' : first
}

async function planOfList(
  text: string,
  what: Planned,
  capabilityArgs: Readonly<Record<string, unknown>>,
): Promise<{ readonly network: NetworkList; readonly plans: readonly ShownPlan[] }> {
  const network = readNetworkList(text)
  const at = network.plugins.findIndex(({ type }) => isOwnType(type))
  const plugin = network.plugins[at]
  if (plugin === undefined) throw new CniError('list-without-trestle', 'no plugin of the list has the type "trestle"')
  // A chained entry gets a result of the plugin before it.
  checkDeclared([plugin], Object.keys(capabilityArgs))
  const before = network.plugins[at - 1]?.type ?? (plugin['mode'] === 'chained' ? 'bridge' : undefined)
  const isGiven = before === undefined || plugin['prevResult'] !== undefined
  const prevResult = isGiven ? {} : { prevResult: previousText(before, network.cniVersion) }
  const conf = requestConf(network, { ...asOwn(plugin), ...prevResult }, { capabilityArgs })
  return { network, plans: await plansOf(JSON.stringify(conf), what, { machineId: machineId() }) }
}

/** A prevResult in the shape of the version. Versions below 0.3.0 have no lists. */
function previousText(type: string, cniVersion: string): object {
  return { cniVersion, ...assumedPrevious(type, { ifName: placeholder.CNI_IFNAME, sandbox: placeholder.CNI_NETNS }) }
}

const placeholder = {
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: containerId,
  CNI_NETNS: '/run/netns/example',
  CNI_IFNAME: 'eth0',
} as const

/** The surroundings of a planned call. `uplinkMtu`: for "auto". */
interface Around {
  readonly machineId?: string
  readonly env?: Environment
  readonly uplinkMtu?: number
}

/**
 * The plans of an ADD with this configuration, or of the DEL after it. Throws CniError for an invalid configuration.
 */
export async function plansOf(
  stdin: string,
  what: Planned = 'first',
  { machineId = 'example', env = placeholder, uplinkMtu = placeholderMtu }: Around = {},
): Promise<readonly ShownPlan[]> {
  const call: Invocation = readInvocation(env)
  const conf = readConfig(stdin, call)
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  const mtu = conf.mode === 'ipam' || conf.mtu === 'auto' ? uplinkMtu : conf.mtu
  const begun = { key, conf, netns: call.netns, mtu, machineId }
  const add = await assumedAdd(begun, what === 'DEL' ? 'later' : what)
  return what === 'DEL' ? await assumedDel(begun, add, placeholderGroup) : add.plans
}

export function batchesOf(plans: readonly ShownPlan[]): readonly Batch[] {
  return plans.flatMap(({ stages }) => stages.flatMap(batchesOfStage))
}

function batchesOfStage({ run, proof }: ShownPlan['stages'][number]): readonly Batch[] {
  if (!('ops' in run)) return []
  const { links, rules } = lanesHere(run.ops)
  return [...links, ...rules].map((batch) => withEvidence(batch, proof))
}

function commandsOf({ run }: ShownPlan['stages'][number]): readonly string[] {
  if (run.kind === 'delegate') return [`${run.type} ${run.verb}`]
  if (run.kind !== 'flows') return []
  const words = run.verb === 'list' ? '-L' : '-D'
  return run.flows.flatMap(({ family, selections }) =>
    selections.map((each) => `conntrack ${words} -f ipv${family} ${each.join(' ')}`),
  )
}

function planText(title: string, plans: readonly ShownPlan[]): string {
  const ops = plans.flatMap((plan) => opsOf(plan))
  const steps = ops.map((op, at) => `${`${at + 1}`.padStart(4)}  ${op.in.padEnd(4)}  ${op.why}\n`)
  const shown = plans.filter(({ stages }) => stages.some((stage) => textOf(stage) !== ''))
  return [
    `${title} has ${ops.length} operations in ${batchesOf(plans).length} batches\n\n`,
    ...steps,
    ...shown.flatMap(({ because, stages }) => [`\n${because}:\n`, ...stages.map(textOf)]),
  ].join('')
}

function textOf(stage: ShownPlan['stages'][number]): string {
  const batches = batchesOfStage(stage).map((batch) => `\n  ${commandOf(batch)}\n${indented(inputOf(batch))}`)
  const commands = commandsOf(stage).map((command) => `\n  ${command}\n`)
  return [...batches, ...commands].join('')
}

function commandOf(batch: Batch): string {
  if (batch.tool === 'file') return 'written to /proc/sys'
  if (batch.tool === 'nft') return batch.evidence === undefined ? 'nft -f -' : 'nft -e -f -'
  const tool = batch.tool === 'ip6' ? 'ip -6' : batch.tool
  const command = tool === 'sysctl' ? 'sysctl -q -p -' : `${tool} -batch -`
  const words = batch.tool === 'ip' && batch.announces ? announcedBy([command]).join(' ') : command
  return batch.in === 'pod' ? `nsenter --net=NETNS -- ${words}` : command
}

function inputOf(batch: Batch): string {
  if (batch.tool !== 'file') return batch.stdin
  return batch.ops
    .map((op) => `${op.kind === 'forwarding.on' ? `${forwardingKey(op.family)}=1` : `${op.key}=${op.value}`}\n`)
    .join('')
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '    ')
}
