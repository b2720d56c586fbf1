// SPDX-License-Identifier: Apache-2.0
// `trestle plan`: what the first ADD of a network, or the DEL after it, would run, from the configuration alone. Nothing
// is looked at and nothing is run; the address is the first of each range, the container a placeholder.

import { readConfig } from '../../cni/config/config.ts'
import { CniError } from '../../cni/model/error.ts'
import { type Invocation, readInvocation } from '../../cni/model/invocation.ts'
import type { IpamConf, NetConf } from '../../cni/model/net-conf.ts'
import { type Batch, toLanes } from '../../compile/batches.ts'
import { candidates } from '../../plan/ipam/allocate.ts'
import { staticLease } from '../../plan/ipam/static.ts'
import type { AttachmentKey } from '../../plan/model/attachment.ts'
import { type Lease, noLease } from '../../plan/model/lease.ts'
import type { Op } from '../../plan/model/op.ts'
import {
  afterRuleOps,
  detachOps,
  hostOps,
  podOps,
  podSysctlOps,
  podUndoOps,
  queueingOps,
} from '../../plan/modes/attach.ts'
import { bridgeSysctlOps, forwardingKey } from '../../plan/modes/network.ts'
import { attachmentSpec, networkSpec } from '../../plan/modes/resolve.ts'
import { bridgeOps, ruleOps } from '../../plan/modes/shared.ts'
import { type NetworkList, readNetworkList, requestConf } from '../node/network-list.ts'
import { asOwn, isOwnType } from '../node/own-type.ts'
import { type Command, exitCode, type Input } from '../shell/command.ts'
import { readFileAs } from '../shell/read-input.ts'
import { capabilityArgsOf, capabilityOptions, checkDeclared } from './capabilities.ts'

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
    'its first trestle plugin: what each is for, and the text that `ip` and `nft` would get. Nothing is run or',
    'looked at: the addresses are the first of each range, the container is "example", an "auto" MTU is 1500.',
    'With --del: those of the DEL of that attachment, where its namespace is still there.',
  ].join('\n'),
  options: { del: { type: 'boolean', help: 'the DEL of the attachment, not its ADD' }, ...capabilityOptions },
  examples: [
    'trestle plan /etc/cni/net.d/10-pods.conflist',
    'trestle plan --del /etc/cni/net.d/10-pods.conflist',
    'trestle plan --port 8080:80 --bandwidth 10M 10-pods.conflist',
    'trestle plan -o json <net.conf',
  ],
  run,
}

/** What is planned. */
type PlannedVerb = 'ADD' | 'DEL'

function run({ words, values, isJson, output }: Input): number {
  const verb = values['del'] === true ? 'DEL' : 'ADD'
  const capabilityArgs = capabilityArgsOf(values)
  const { network, ops } = readFileAs(words[0] ?? '-', (text) => planOfList(text, verb, capabilityArgs))
  const { links, rules } = toLanes(ops)
  const batches = [...links, ...rules]
  const document = {
    formatVersion: 1,
    command: 'plan',
    verb,
    network: network.name,
    ops,
    batches,
    exitCode: exitCode.fine,
  }
  const title = `network ${network.name}: the ${verb === 'ADD' ? 'first ADD' : 'DEL'}`
  output.out(isJson ? `${JSON.stringify(document, undefined, 2)}\n` : planText(title, ops, batches))
  return exitCode.fine
}

function planOfList(
  text: string,
  verb: PlannedVerb,
  capabilityArgs: Readonly<Record<string, unknown>>,
): { readonly network: NetworkList; readonly ops: readonly Op[] } {
  const network = readNetworkList(text)
  const plugin = network.plugins.find((each) => isOwnType(each.type))
  if (plugin === undefined) throw new CniError('list-without-trestle', 'no plugin of the list has the type "trestle"')
  // Behind another plugin, or so called, it acts on what that one made.
  if (plugin['mode'] === 'chained' || (plugin['mode'] === undefined && plugin !== network.plugins[0])) {
    throw notPlanned('chained')
  }
  checkDeclared(plugin, capabilityArgs)
  return { network, ops: planOf(JSON.stringify(requestConf(network, asOwn(plugin), { capabilityArgs })), verb) }
}

/**
 * The operations of the first ADD with this configuration, or of the DEL after it. Throws CniError when it is wrong or
 * delegates its IPAM.
 */
export function planOf(stdin: string, verb: PlannedVerb = 'ADD'): readonly Op[] {
  const call: Invocation = readInvocation({
    CNI_COMMAND: 'ADD',
    CNI_CONTAINERID: containerId,
    CNI_NETNS: '/run/netns/example',
    CNI_IFNAME: 'eth0',
  })
  const conf = readConfig(stdin, call)
  if (conf.mode !== 'bridge' && conf.mode !== 'ptp') {
    throw notPlanned(conf.mode)
  }
  const key: AttachmentKey = { network: conf.name, containerId, ifName: call.ifName, role: conf.role }
  const mtu = conf.mtu === 'auto' ? placeholderMtu : conf.mtu
  const spec = attachmentSpec({ key, conf, lease: leaseOf(conf.ipam), mtu })
  // The order of take-down.ts.
  if (verb === 'DEL') return [...podUndoOps(spec), ...detachOps(spec, placeholderGroup)]
  const network = networkSpec(conf, spec.ips, { mtu, machineId: 'example' })
  return [
    ...bridgeOps(network, []),
    ...ruleOps({ networks: [network], attachments: [spec] }),
    ...(network.bridge === undefined ? [] : bridgeSysctlOps(network.bridge)),
    ...hostOps(spec),
    ...queueingOps(spec),
    ...podOps(spec),
    ...podSysctlOps(spec),
    ...afterRuleOps(spec),
  ]
}

function notPlanned(mode: string): CniError {
  return new CniError('mode-not-planned', `plan knows the modes "bridge" and "ptp", not "${mode}"`)
}

/** The first address of each range. */
function leaseOf(ipam: NetConf['ipam']): Lease {
  switch (ipam.kind) {
    case 'none':
      return noLease
    case 'static':
      return staticLease(ipam)
    case 'delegated':
      throw new CniError('lease-not-known', `ipam.type "${ipam.type}" is another plugin: its answer is not known`)
    case 'pool':
      return { ips: poolAddresses(ipam), routes: ipam.routes }
    default:
      return ipam satisfies never
  }
}

function poolAddresses({ rangeSets, exclude }: Extract<IpamConf, { kind: 'pool' }>): Lease['ips'] {
  return rangeSets.flatMap((set) => {
    const [first] = candidates(set, undefined, exclude).take(1)
    if (first === undefined) return []
    const { subnet, gateway } = first.range
    return [{ address: `${first.address}${subnet.slice(subnet.indexOf('/'))}`, gateway }]
  })
}

function planText(title: string, ops: readonly Op[], batches: readonly Batch[]): string {
  const steps = ops.map((op, at) => `${`${at + 1}`.padStart(4)}  ${op.in.padEnd(4)}  ${op.why}\n`)
  return [
    `${title} has ${ops.length} operations in ${batches.length} batches\n\n`,
    ...steps,
    ...batches.map((batch, at) => `\nbatch ${at + 1}: ${commandOf(batch)}\n${indented(textOf(batch))}`),
  ].join('')
}

function commandOf(batch: Batch): string {
  if (batch.tool === 'file') return 'written to /proc/sys'
  if (batch.tool === 'nft') return 'nft -f -'
  const tool = batch.tool === 'ip6' ? 'ip -6' : batch.tool
  const command = tool === 'sysctl' ? 'sysctl -q -p -' : `${tool} -batch -`
  return batch.in === 'pod' ? `nsenter --net=NETNS -- ${command}` : command
}

function textOf(batch: Batch): string {
  if (batch.tool !== 'file') return batch.stdin
  return batch.ops
    .map((op) => `${op.kind === 'forwarding.on' ? `${forwardingKey(op.family)}=1` : `${op.key}=${op.value}`}\n`)
    .join('')
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '  ')
}
