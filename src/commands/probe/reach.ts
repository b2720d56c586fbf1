// SPDX-License-Identifier: Apache-2.0
// Probes from and to temporary pods: a connection, or a ping.

import { bareAddress, familyOf } from '../../cni/addresses.ts'
import { readDocuments } from '../../kernel/look.ts'
import { thisProgram } from '../self.ts'
import { podPort, reach } from './ends.ts'
import type { Pod, Step, Target, Trial } from './pods.ts'

/** A port that answers, or refuses unless it `isOpen`; or a ping. */
export type Way = { readonly port: number; readonly isOpen?: boolean } | 'ping'

/**
 * One probe. Without `from` and `netns` the node asks. `isHeard`: a listener of ours has to answer; `source`: the
 * address that has to arrive.
 */
export interface Probe {
  readonly what: string
  readonly target: Target
  readonly address: string
  readonly way: Way
  readonly from?: Pod
  readonly netns?: string
  readonly isHeard?: boolean
  readonly source?: string
}

export function gatewayProbes(from: Pod): readonly Probe[] {
  return from.gateways.map((address) => {
    // Any port: a node without a listener answers with a refusal.
    const what = `${from.label} to gateway ${address}`
    return { what, target: 'gateway', address, way: { port: 9 }, from }
  })
}

/** A pod, or the node, to each address of a pod. `sees`: within a node a pod's address is not translated. */
export function podProbes(from: Pod | undefined, to: Pod): readonly Probe[] {
  return to.ips.map(({ address: cidr }) => {
    const address = bareAddress(cidr)
    const what = `${from?.label ?? 'the node'} to ${to.label} (${address})`
    const source = from === undefined ? undefined : addressOf(from, familyOf(address))
    const probe = { what, address, way: { port: podPort }, isHeard: true }
    if (from === undefined) return { ...probe, target: 'node' }
    return { ...probe, target: 'pod', from, ...(source === undefined ? {} : { source }) }
  })
}

/** One end that asks for a host port. `who`: its name in a report. */
type Asker = Pick<Probe, 'from' | 'netns'> & { readonly who: string }

/** The host port of a pod at an address of the node. */
export function hostPortProbes(address: string, port: number, to: Pod, askers: readonly Asker[]): readonly Probe[] {
  return askers.map(({ who, ...asker }) => {
    const isOwn = asker.from === to
    const what = `${who} to ${isOwn ? 'its own' : `${to.label}'s`} host port ${port} (${address})`
    return { what, target: isOwn ? 'own-port' : 'host-port', address, way: { port }, isHeard: true, ...asker }
  })
}

export function addressOf({ ips }: Pod, family: 4 | 6): string | undefined {
  return ips.map(({ address }) => bareAddress(address)).find((address) => familyOf(address) === family)
}

export function skipped(what: string, target: Target, detail: string): Step {
  return { what, target, outcome: 'skipped', detail }
}

export async function tried(trial: Trial, probe: Probe): Promise<Step> {
  const { what, target, from, address } = probe
  const startMs = performance.now()
  const failure = await failureOf(trial, probe)
  const ms = Math.round(performance.now() - startMs)
  if (failure === undefined) return { what, target, outcome: 'ok', ms }
  if (target === 'gateway' && from !== undefined && (await isNeighbour(trial, from, address))) {
    return skipped(what, target, `it is there, and the node does not answer pods (${failure})`)
  }
  return { what, target, outcome: 'failed', detail: failure, ms }
}

async function failureOf(trial: Trial, { from, netns, address, way, isHeard, source }: Probe) {
  const inside = netns ?? from?.attachment.netns
  if (inside === undefined && typeof way === 'object') return (await reach(address, way.port, isHeard)).failure
  const { file, args } = thisProgram()
  const end = [file, ...args, '__probe-end']
  let command = ['ping', ...pingArgs(address)]
  if (typeof way === 'object') {
    const verb = isHeard || source !== undefined ? 'hear' : way.isOpen ? 'connect' : 'reach'
    command = [...end, verb, address, `${way.port}`]
  }
  const { code, stdout, stderr } = await runIn(trial, inside ?? '', command)
  if (code !== 0) return stderr.trim() || stdout.trim().split('\n').at(-1) || 'no answer'
  const heard = stdout.trim()
  return source === undefined || heard === source
    ? undefined
    : `the far side saw ${heard || 'nothing'} instead of ${source}`
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
  const inside = netns === '' ? command : ['nsenter', `--net=${netns}`, '--', ...command]
  const [file = '', ...args] = inside
  return await runtime.run({ file, args })
}

/** Headers of IP and ICMP, which ping's size does not count (ping(8)). */
const headerBytes = { 4: 28, 6: 48 } as const

/** Pings a peer with the don't-fragment bit; the longest packet that passes is found by halving. */
export async function fullSizeStep(trial: Trial, from: Pod, peer: string): Promise<Step> {
  const { netns, ifName } = from.attachment
  const { stdout } = await runIn(trial, netns, ['ip', '-j', 'link', 'show', 'dev', ifName])
  const mtu = Number(readDocuments(stdout)[0]?.['mtu'])
  const header = headerBytes[familyOf(peer)]
  const passes = async (bytes: number, seconds = 1) => {
    const words = ['ping', '-n', '-q', '-M', 'do', '-c', '1', '-w', `${seconds}`, '-s', `${bytes - header}`, peer]
    return (await runIn(trial, netns, words)).code === 0
  }
  const step = { what: `${from.label} to ${peer}, packets of ${mtu} bytes`, target: 'peer' } as const
  let least = header + 56
  // The first may wait for a neighbour.
  if (!(await passes(least, 4))) return { ...step, outcome: 'failed', detail: 'no answer, whatever the length' }
  if (await passes(mtu, 2)) return { ...step, outcome: 'ok', detail: `packets of ${mtu} bytes pass` }
  for (let most = mtu; most - least > 1; ) {
    const middle = Math.floor((least + most) / 2)
    if (await passes(middle)) least = middle
    else most = middle
  }
  return { ...step, outcome: 'failed', detail: `the longest that pass have ${least} bytes` }
}
