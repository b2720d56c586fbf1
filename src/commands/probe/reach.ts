// SPDX-License-Identifier: Apache-2.0
// Probes from and to temporary pods: a connection, or a ping.

import { bareAddress, familyOf } from '../../cni/addresses.ts'
import { readDocuments } from '../../kernel/look.ts'
import { thisProgram } from '../self.ts'
import { podPort } from './ends.ts'
import type { Pod, Step, Target, Trial } from './pods.ts'

/**
 * One probe: a connection to a port, which may be refused, or a ping. Without `netns` the node asks. `isHeard`: a listener
 * of ours has to answer; `source`: the address that it has to see.
 */
export interface Probe {
  readonly what: string
  readonly target: Target
  readonly address: string
  readonly way: number | 'ping'
  readonly netns?: string
  readonly isHeard?: boolean
  readonly source?: string
}

/** Any port: a node without a listener answers with a refusal. */
export function gatewayProbe({ label, attachment: { netns } }: Pod, address: string): Probe {
  return { what: `${label} to gateway ${address}`, target: 'gateway', address, way: 9, netns }
}

/** A pod, or the node, to each address of a pod. Within a node a pod's address is not translated. */
export function podProbes(from: Pod | undefined, to: Pod): readonly Probe[] {
  return to.ips.map(({ address: cidr }) => {
    const address = bareAddress(cidr)
    const what = `${from?.label ?? 'the node'} to ${to.label} (${address})`
    const probe = { what, address, way: podPort, isHeard: true }
    if (from === undefined) return { ...probe, target: 'node' }
    const source = addressOf(from, familyOf(address))
    return { ...probe, target: 'pod', netns: from.attachment.netns, ...(source === undefined ? {} : { source }) }
  })
}

/** The host port of a pod at an address of the node, asked for from a namespace: `who` in a report. */
export function hostPortProbe(address: string, port: number, to: Pod, who: string, netns?: string): Probe {
  const isOwn = netns === to.attachment.netns
  const what = `${who} to ${isOwn ? 'its own' : `${to.label}'s`} host port ${port} (${address})`
  const target = isOwn ? 'own-port' : 'host-port'
  return { what, target, address, way: port, isHeard: true, ...(netns === undefined ? {} : { netns }) }
}

export function addressOf({ ips }: Pod, family: 4 | 6): string | undefined {
  return ips.map(({ address }) => bareAddress(address)).find((address) => familyOf(address) === family)
}

export function skipped(what: string, target: Target, detail: string): Step {
  return { what, target, outcome: 'skipped', detail }
}

export async function tried(trial: Trial, probe: Probe): Promise<Step> {
  const { what, target, address, way, netns = '', isHeard, source } = probe
  const { file, args } = thisProgram()
  const verb = isHeard || source !== undefined ? 'hear' : 'reach'
  const connecting = [file, ...args, '__probe-end', verb, address, `${way}`]
  const command = way === 'ping' ? ['ping', ...pingArgs(address)] : connecting
  const { code, stdout, stderr } = await runIn(trial, netns, command)
  const heard = stdout.trim()
  if (code === 0 && (source === undefined || heard === source)) return { what, target, outcome: 'ok' }
  const detail =
    code === 0
      ? `the far side saw ${heard || 'nothing'} instead of ${source}`
      : stderr.trim() || heard.split('\n').at(-1) || 'no answer'
  if (target === 'gateway' && (await isNeighbour(trial, netns, address))) {
    return skipped(what, target, `it is there, and the node does not answer pods (${detail})`)
  }
  return { what, target, outcome: 'failed', detail }
}

/** Up to three pings, since the first may wait for a neighbour; the first answer ends them (ping(8)). */
export function pingArgs(address: string): readonly string[] {
  return ['-n', '-q', '-c', '1', '-w', '4', address]
}

/** Whether the pod knows the gateway's MAC: a firewall of the node may drop all packets to the node itself. */
async function isNeighbour(trial: Trial, netns: string, address: string): Promise<boolean> {
  const { stdout } = await runIn(trial, netns, ['ip', '-j', 'neigh', 'show', address])
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
