// SPDX-License-Identifier: Apache-2.0
// Probes from and to throw-away pods: a probe is a connection, a ping, or a query to a resolver.

import { bareAddress, familyOf } from '../../cni/addresses.ts'
import { readDocuments } from '../../kernel/look.ts'
import { thisProgram } from '../self.ts'
import { causeOf } from './causes.ts'
import { podPort, reach, resolveName } from './ends.ts'
import { type Pod, type Step, stopwatch, type Target, type Trial } from './pods.ts'

export type Family = 4 | 6

/** A port that answers, or refuses unless it `isOpen`. */
interface OfPort {
  readonly port: number
  readonly isOpen?: boolean
}

/** How an address is asked: by a port, a ping, or a query to a resolver. */
export type Way = OfPort | 'ping' | 'resolver'

/** One probe. Without `from` and `netns` the node asks. `source`: the address that has to arrive. */
export interface Probe {
  readonly what: string
  readonly target: Target
  readonly address: string
  readonly way: Way
  readonly from?: Pod
  readonly netns?: string
  readonly to?: Pod
  readonly source?: string
}

/** Any port: a node without a listener answers with a refusal. */
const gatewayPort = 9

export function gatewayProbes(from: Pod): readonly Probe[] {
  return from.gateways.map((address) => {
    const what = `${from.label} to gateway ${address}`
    return { what, target: 'gateway', address, way: { port: gatewayPort }, from }
  })
}

/** A pod, or the node, to each address of a pod. */
export function podProbes(from: Pod | undefined, to: Pod): readonly Probe[] {
  const who = from === undefined ? { label: 'the node', target: 'node' as const } : { label: from.label, from }
  return to.ips.map(({ address: cidr }) => {
    const address = bareAddress(cidr)
    const { label, ...more } = who
    const what = `${label} to ${to.label} (${address})`
    return { what, target: 'pod', address, way: { port: podPort }, to, ...more }
  })
}

/** One end that asks for a host port. `who`: its name in a report. */
type Asker = Pick<Probe, 'from' | 'netns'> & { readonly who: string }

/** The host port of a pod at an address of the node. */
export function hostPortProbes(address: string, port: number, to: Pod, askers: readonly Asker[]): readonly Probe[] {
  return askers.map(({ who, ...asker }) => {
    const isOwn = asker.from === to
    const what = `${who} to ${isOwn ? 'its own' : `${to.label}'s`} host port ${port} (${address})`
    return { what, target: isOwn ? 'own-port' : 'host-port', address, way: { port }, to, ...asker }
  })
}

export function addressOf({ ips }: Pod, family: Family): string | undefined {
  return ips.map(({ address }) => bareAddress(address)).find((address) => familyOf(address) === family)
}

export function skipped(what: string, target: Target, detail: string): Step {
  return { what, target, outcome: 'skipped', detail }
}

/** Tries a probe; a failure has its cause where one is seen. */
export async function tried(trial: Trial, probe: Probe): Promise<Step> {
  const { what, target, from, address } = probe
  const msSince = stopwatch()
  const failure = await failureOf(trial, probe)
  const ms = msSince()
  if (failure === undefined) return { what, target, outcome: 'ok', ms }
  if (target === 'gateway' && from !== undefined && (await isNeighbour(trial, from, address))) {
    return skipped(what, target, `it is there, and the node does not answer pods (${failure})`)
  }
  const { network } = trial.runtime
  const about = { network, nodeAddresses: await nodeAddresses(trial) }
  const known = causeOf({ target, family: familyOf(address), from, to: probe.to, ...about })
  return { what, target, outcome: 'failed', detail: failure, ms, ...(known === undefined ? {} : { known }) }
}

/** A listener of ours is heard; for any other address an answer is enough. */
async function failureOf(trial: Trial, { from, netns, to, address, way, source }: Probe): Promise<string | undefined> {
  const inside = netns ?? from?.attachment.netns
  const isHeard = to !== undefined || source !== undefined
  if (inside === undefined && typeof way === 'object') return (await reach(address, way.port, isHeard)).failure
  if (inside === undefined && way === 'resolver') return await resolveName(address)
  const { file, args } = thisProgram()
  const words = way === 'resolver' ? ['resolve', address] : way === 'ping' ? [] : [verbFor(way, isHeard), address]
  const port = typeof way === 'object' ? [`${way.port}`] : []
  const command = way === 'ping' ? ['ping', ...pingArgs(address)] : [file, ...args, '__probe-end', ...words, ...port]
  const { code, stdout, stderr } = await runIn(trial, inside ?? '', command)
  if (code !== 0) return stderr.trim() || stdout.trim().split('\n').at(-1) || 'no answer'
  const heard = stdout.trim()
  if (source === undefined || heard === source) return undefined
  return `the far side saw ${heard || 'nothing'} instead of ${source}`
}

/** The verb of the end that asks (ends.ts, probeEnd). */
function verbFor({ isOpen }: OfPort, isHeard: boolean): string {
  if (isHeard) return 'hear'
  return isOpen ? 'connect' : 'reach'
}

/** Up to three pings, since the first may wait for a neighbour; the first answer ends them (ping(8)). */
export function pingArgs(address: string): readonly string[] {
  return ['-n', '-q', '-c', '1', '-w', '4', address]
}

/** Whether the pod knows the gateway's MAC: a firewall of the node may drop all packets to the node itself. */
async function isNeighbour(trial: Trial, { attachment }: Pod, address: string): Promise<boolean> {
  const { stdout } = await runIn(trial, attachment.netns, ['ip', '-j', 'neigh', 'show', address])
  return readDocuments(stdout).some(({ lladdr }) => typeof lladdr === 'string')
}

export async function runIn({ runtime }: Pick<Trial, 'runtime'>, netns: string, command: readonly string[]) {
  return await runtime.run({ file: 'nsenter', args: [`--net=${netns}`, '--', ...command] })
}

/** Addresses of the node, without lengths. */
export async function nodeAddresses({ runtime }: Pick<Trial, 'runtime'>): Promise<readonly string[]> {
  const { stdout } = await runtime.run({ file: 'ip', args: ['-o', 'addr', 'show'] })
  return [...stdout.matchAll(/ inet6? ([^\s/]+)/g)].map(([, found = '']) => found)
}
