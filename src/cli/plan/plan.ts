// SPDX-License-Identifier: Apache-2.0
// `trestle plan`: what the first ADD of a network, or the DEL after it, would run, from the configuration alone.
// Nothing is looked at and nothing is run; the address is the first of each range, the container a placeholder.

import { readConfig } from '../../cni/config/config.ts'
import { CniError } from '../../cni/model/error.ts'
import { type Invocation, readInvocation } from '../../cni/model/invocation.ts'
import { modeNamed } from '../../plan/modes/modes.ts'
import { opsOf, type Plan, type PlanRun } from '../../plan/order/stage.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { type NetworkList, readNetworkList, requestConf } from '../node/network-list.ts'
import { asOwn, isOwnType } from '../node/own-type.ts'
import { type Command, exitCode, type Input, UsageError } from '../shell/command.ts'
import { readFileAs } from '../shell/read-input.ts'
import { assumedAdd, type Finds } from './assume.ts'
import { assumedPrevious } from './assume-chained.ts'
import { assumedDel } from './assume-del.ts'
import { capabilityArgsOf, capabilityOptions, checkDeclared } from './capabilities.ts'
import { batchesOf, planText } from './plan-text.ts'

/** The placeholder for CNI_CONTAINERID. */
const containerId = 'example'

/** Ethernet's; an ADD takes that of the default-route interfaces for "auto". */
const placeholderMtu = 1500

/** Links of one attachment are removed as a group; a DEL takes a number with its process id. */
const placeholderGroup = 0x40000001

export const planCommand: Command = {
  name: 'plan',
  words: '[FILE]',
  maxWords: 1,
  summary: 'print what an ADD or DEL would run, without running it',
  description: [
    'Reads a .conflist or .conf file (standard input without FILE) and prints the operations of the first ADD of',
    'its first trestle plugin: what each is for, and the text that `ip` and `nft` would get. Nothing is run or looked',
    'at: the addresses are the first of each range, the container is "example", an "auto" MTU is 1500. Behind another',
    'plugin, prevResult is taken from the file, or is an interface with 192.0.2.2/24; another IPAM plugin answers',
    'that too.',
    'With --del: those of the DEL of that attachment, where its namespace is still there.',
  ].join('\n'),
  options: {
    del: { type: 'boolean', help: 'the DEL of the attachment, not its ADD' },
    later: { type: 'boolean', help: "the ADD of a later pod, not the network's first" },
    flushed: { type: 'boolean', help: 'the ADD of a later pod after somebody flushed the rules' },
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

/** What is planned: the DEL, or an ADD by what it finds. */
type Planned = 'DEL' | Finds

const titles: Readonly<Record<Planned, string>> = {
  first: 'the first ADD',
  later: 'a later ADD',
  flushed: 'the ADD after a flush',
  DEL: 'the DEL',
}

function run({ words, values, isJson, output }: Input): number {
  const what = plannedBy(values)
  const capabilityArgs = capabilityArgsOf(values)
  const { network, plans } = readFileAs(words[0] ?? '-', (text) => planOfList(text, what, capabilityArgs))
  const document = {
    formatVersion: 1,
    command: 'plan',
    verb: what === 'DEL' ? 'DEL' : 'ADD',
    network: network.name,
    ops: plans.flatMap((plan) => opsOf(plan)),
    batches: batchesOf(plans),
    plans,
    exitCode: exitCode.fine,
  }
  const title = `network ${network.name}: ${titles[what]}`
  output.out(isJson ? `${JSON.stringify(document, undefined, 2)}\n` : planText(title, plans))
  return exitCode.fine
}

/** Which call the options ask for. Throws UsageError where they ask for more than one. */
function plannedBy(values: Input['values']): Planned {
  const [first, second] = (['later', 'flushed', 'del'] as const).filter((name) => values[name] === true)
  if (second !== undefined) throw new UsageError(`--${first} and --${second} are two calls: use one of them`)
  if (first === undefined) return 'first'
  return first === 'del' ? 'DEL' : first
}

function planOfList(
  text: string,
  what: Planned,
  capabilityArgs: Readonly<Record<string, unknown>>,
): { readonly network: NetworkList; readonly plans: readonly Plan[] } {
  const network = readNetworkList(text)
  const at = network.plugins.findIndex(({ type }) => isOwnType(type))
  const plugin = network.plugins[at]
  if (plugin === undefined) throw new CniError('list-without-trestle', 'no plugin of the list has the type "trestle"')
  // Behind another plugin, or so called, it acts on what that one made.
  checkDeclared(plugin, capabilityArgs)
  const before =
    network.plugins[at - 1]?.type ?? (modeNamed(plugin['mode'])?.order === 'chained' ? 'bridge' : undefined)
  const isGiven = before === undefined || plugin['prevResult'] !== undefined
  const prevResult = isGiven ? {} : { prevResult: previousText(before, network.cniVersion) }
  const conf = requestConf(network, { ...asOwn(plugin), ...prevResult }, { capabilityArgs })
  return { network, plans: plansOf(JSON.stringify(conf), what, machineId()) }
}

/** A result as a plugin gets it. Versions below 0.3.0 have no lists. */
function previousText(type: string, cniVersion: string): object {
  return { cniVersion, ...assumedPrevious(type, { ifName: placeholder.CNI_IFNAME, sandbox: placeholder.CNI_NETNS }) }
}

const placeholder = {
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: containerId,
  CNI_NETNS: '/run/netns/example',
  CNI_IFNAME: 'eth0',
} as const

/** The plans of an ADD with this configuration, or of the DEL after it. Throws CniError when it is wrong. */
export function plansOf(stdin: string, what: Planned = 'first', machineId = 'example'): readonly Plan[] {
  const call: Invocation = readInvocation(placeholder)
  const conf = readConfig(stdin, call)
  const key = { network: conf.name, containerId, ifName: call.ifName, role: conf.role }
  const mtu = conf.mtu === 'auto' ? placeholderMtu : conf.mtu
  const begun = { key, conf, netns: call.netns, mtu, machineId }
  const add = assumedAdd(begun, what === 'DEL' ? 'later' : what)
  return what === 'DEL' ? assumedDel(begun, add, placeholderGroup) : add.runs.map(withoutSkipped)
}

/** What does not run after a failure is in a later plan. */
function withoutSkipped({ plan, outcomes }: PlanRun): Plan {
  const skipped = new Set(outcomes.flatMap((outcome) => (outcome.skipped ? [outcome.id] : [])))
  return { ...plan, stages: plan.stages.filter(({ id }) => !skipped.has(id)) }
}
