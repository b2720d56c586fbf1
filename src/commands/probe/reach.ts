// SPDX-License-Identifier: Apache-2.0
// What temporary pods reach: each other, their gateways, the outside, a host port, a peer. A probe is a connection, or a
// ping.

import { bareAddress, familyOf } from '../../cni/addresses.ts'
import { readDocuments } from '../../kernel/look.ts'
import { thisProgram } from '../self.ts'
import { podPort } from './ends.ts'
import { type Pod, runIn, type Step, type Target, type Trial } from './pods.ts'

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

/** What is beyond the pods. `askers`: who asks for host ports beside the pods, at which addresses of the node. */
export interface World {
  readonly routers: readonly string[]
  readonly outside: (pod: Pod, family: 4 | 6) => Promise<Step>
  readonly portAddresses: readonly string[]
  readonly askers: readonly { readonly who: string; readonly netns?: string }[]
  readonly peer?: string | undefined
}

/** All at once, in the order of the report. */
export async function reachSteps(trial: Trial, pods: readonly Pod[], world: World): Promise<readonly Step[]> {
  const [first, second] = pods
  if (first === undefined) return []
  if (first.ips.length === 0) {
    return [skipped('gateway, other pods and outside', 'pod', 'the network gives no addresses')]
  }
  const { stdout } = await runIn(trial, '', ['ip', '-o', 'addr', 'show'])
  const known = [...stdout.matchAll(/ inet6? ([^\s/]+)/g)].map(([, address]) => address)
  const gateways = first.gateways.map((address): Probe | Step => {
    // Any port: a node without a listener answers with a refusal.
    const what = `${first.label} to gateway ${address}`
    const isThere = known.includes(address) || world.routers.includes(address)
    if (!isThere) return skipped(what, 'gateway', 'the node has no gateway address (isGateway is off)')
    return { what, target: 'gateway', address, way: 9, netns: first.attachment.netns }
  })
  const none = skipped(`${first.label} to gateway`, 'gateway', 'the result names none')
  const alone = skipped('pod to pod', 'pod', 'the addresses are static: one pod only')
  const families = ([4, 6] as const).filter((family) => addressOf(first, family) !== undefined)
  const probes: readonly (Probe | Step)[] = [
    ...pods.flatMap((pod) => podProbes(undefined, pod)),
    ...(gateways.length === 0 ? [none] : gateways),
    ...(second === undefined ? [alone] : [...podProbes(first, second), ...portProbes(trial, first, second, world)]),
  ]
  return await Promise.all([
    ...probes.map((probe) => ('outcome' in probe ? probe : tried(trial, probe))),
    ...families.map((family) => world.outside(first, family)),
    ...(world.peer === undefined ? [] : [fullSizeStep(trial, first, world.peer)]),
  ])
}

/** A pod, or the node, to each address of a pod. Within a node a pod's address is not translated. */
function podProbes(from: Pod | undefined, to: Pod): readonly Probe[] {
  // A pod of macvlan has no way to its node.
  if (from === undefined && to.isBeyondNode) return []
  return to.ips.map(({ address: cidr }) => {
    const address = bareAddress(cidr)
    const what = `${from?.label ?? 'the node'} to ${to.label} (${address})`
    const probe = { what, address, way: podPort, isHeard: true }
    if (from === undefined) return { ...probe, target: 'node' }
    const source = addressOf(from, familyOf(address))
    return { ...probe, target: 'pod', netns: from.attachment.netns, ...(source === undefined ? {} : { source }) }
  })
}

/** The host port of the second pod, of its families, asked for by everybody. */
function portProbes({ hostPort }: Trial, first: Pod, second: Pod, { portAddresses, askers }: World): readonly Probe[] {
  if (hostPort === undefined) return []
  const pods = [first, second].map(({ label, attachment }) => ({ who: label, netns: attachment.netns }))
  const addresses = portAddresses.filter((address) => addressOf(second, familyOf(address)) !== undefined)
  return addresses.flatMap((address) =>
    [...askers, ...pods].map(({ who, ...asker }): Probe => {
      const isOwn = asker.netns === second.attachment.netns
      const what = `${who} to ${isOwn ? 'its own' : `${second.label}'s`} host port ${hostPort} (${address})`
      const target = isOwn ? 'own-port' : 'host-port'
      return { what, target, address, way: hostPort, isHeard: true, ...asker }
    }),
  )
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

/** Headers of IP and ICMP, which ping's size does not count (ping(8)). */
const headerBytes = { 4: 28, 6: 48 } as const

/** Pings a peer with the don't-fragment bit; the longest packet that passes is found by halving. */
async function fullSizeStep(trial: Trial, from: Pod, peer: string): Promise<Step> {
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
