// SPDX-License-Identifier: Apache-2.0
// The runtime's side of a soak: which pods there are, and what it does with a pod as containerd does it: ADD, on failure
// DEL; DEL, then the namespace goes, then DEL once more without it.

import { rmSync } from 'node:fs'
import { openFaults } from '../support/faults/faults.ts'
import { type Answer, type Finished, type Host, openHost, type Verb } from '../support/host.ts'
import { relative } from '../support/state-layout.ts'
import { routedPod } from '../support/traffic/routed-pods.ts'
import { runCni } from './calls.ts'
import { isRecorded } from './facts.ts'
import { confOf, foreign, type Slot, slots } from './networks.ts'
import type { Disturbance, PodCall } from './steps.ts'

/**
 * live: ADD succeeded; failed: an ADD or DEL of it did not end well, and DEL is due; dead: its namespace went behind
 * the runtime's back.
 */
export interface Pod {
  readonly id: string
  readonly slot: Slot
  readonly netns: string
  state: 'live' | 'failed' | 'dead'
  result: Answer | undefined
  /** What another plugin gave before. */
  readonly before?: object
}

/** A node with pods, and what has been counted so far. `complaints`: answers that no call may give. */
export interface World {
  readonly host: Host
  readonly faults: ReturnType<typeof openFaults>
  readonly pods: Map<number, Pod>
  /** Pods that lost their slot before their DEL. */
  readonly former: Set<Pod>
  readonly counts: Map<string, number>
  complaints: string[]
  made: number
}

/** A node without pods. Close it at the end. */
export function openWorld(): World & { readonly close: () => void } {
  const host = openHost()
  const faults = openFaults()
  const close = (): void => {
    faults.close()
    host.close()
  }
  return { host, faults, pods: new Map(), former: new Set(), counts: new Map(), complaints: [], made: 0, close }
}

/** Adds one to a counter of the closing line. */
export function count(world: World, what: string, by = 1): void {
  world.counts.set(what, (world.counts.get(what) ?? 0) + by)
}

/** What was done to a slot. `isStrict`: nothing is damaged or disturbed, so that only success will do. */
export async function callPod(world: World, call: PodCall, isStrict: boolean): Promise<void> {
  if (call.disturbance)
    count(world, `fault ${call.disturbance.kind === 'tool' ? call.disturbance.fault.kind : call.disturbance.signal}`)
  const strict = isStrict && call.disturbance === undefined
  if (call.verb === 'ADD') await addPod(world, call, strict)
  else await delPod(world, call, strict)
}

async function addPod(world: World, call: PodCall, isStrict: boolean): Promise<void> {
  const slot = slots[call.slot] as Slot
  const now = world.pods.get(call.slot)
  if (now?.state === 'live') return await addAgain(world, now, call)
  if (now !== undefined) world.former.add(now)
  world.made += 1
  const id = `s${call.slot}n${world.made}`
  const { netns, before } = openPod(world, id, slot)
  const pod: Pod = { id, slot, netns, state: 'failed', result: undefined, ...(before ? { before } : {}) }
  world.pods.set(call.slot, pod)
  const conf = { ...confOf(slot), ...(before ? { prevResult: before } : {}) }
  const added = await send(world, { verb: 'ADD', pod, conf, disturbance: call.disturbance })
  if (added.code !== 0) {
    const isRefused = isHeldByFormer(world, pod, added) || (added.json?.code === 101 && isFull(world, slot, pod))
    if (isStrict && !isRefused) complain(world, `ADD of ${id}`, added)
    return
  }
  pod.result = added.json
  pod.state = 'live'
}

/** A namespace; behind another plugin with its interface. */
function openPod({ host }: World, id: string, slot: Slot): { netns: string; before?: object } {
  if (slot.network !== foreign) return { netns: host.pod(id) }
  const { call, prevResult } = routedPod(host, id, `cali${id}`, `10.63.0.${slot.number}`)
  return { netns: call.netns, before: prevResult }
}

/** The slot's host port is still that of the pod before, rightly: its DEL was killed, and its namespace lives. */
function isHeldByFormer({ former }: World, { slot }: Pod, { json }: Finished): boolean {
  const holders = [...former].filter((each) => each.slot === slot && each.state === 'failed')
  return json?.code === 104 && holders.some(({ id }) => json.details.includes(`container ${id},`))
}

/** Whether as many pods have an address of the small network as it has, those included that wait for their DEL. */
export function isFull({ pods, former }: World, { network }: Pick<Slot, 'network'>, but?: Pod): boolean {
  const all = new Set([...pods.values(), ...former])
  const holders = [...all].filter((each) => each !== but && each.slot.network === network && each.state !== 'dead')
  return network === 'small' && holders.length >= 5
}

/**
 * A second ADD is refused and harms nothing: the invariants see to the latter. Where the record was damaged, it may
 * replace the pod.
 */
async function addAgain(world: World, pod: Pod, { disturbance }: PodCall): Promise<void> {
  const isKnown = isRecorded(
    world.host,
    relative.network(pod.slot.network).finished(pod.id, 'eth0', roleOf(pod.slot)),
    pod.id,
  )
  const conf = { ...confOf(pod.slot), ...(pod.before ? { prevResult: pod.before } : {}) }
  const refused = await send(world, { verb: 'ADD', pod, conf, disturbance })
  const isRefused = refused.code === 1 && [103, 11].includes(refused.json?.code ?? 0)
  const isReplaced = refused.code === 0 && !isKnown
  if (!isRefused && !isReplaced && disturbance === undefined) {
    world.complaints.push(`a second ADD of ${pod.id} was not refused: ${refused.stdout}`)
  }
  // A runtime would not know it for a live one any more.
  if (refused.code === 0) pod.state = 'failed'
}

function roleOf({ network }: Slot): 'main' | 'chained' {
  return network === foreign ? 'chained' : 'main'
}

async function delPod(world: World, call: PodCall, isStrict: boolean): Promise<void> {
  const slot = slots[call.slot] as Slot
  const pod = world.pods.get(call.slot) ?? nobody(slot)
  const first = await sendDel(world, pod, call.withNetns, call.disturbance)
  if (first !== undefined) {
    pod.state = pod.state === 'dead' ? 'dead' : 'failed'
    if (isStrict) complain(world, `DEL of ${pod.id}`, first)
    return
  }
  dropNetns(world, pod)
  const second = await sendDel(world, pod, false)
  if (second === undefined) world.pods.delete(call.slot)
  else {
    if (isStrict) complain(world, `second DEL of ${pod.id}`, second)
    pod.state = 'dead'
  }
}

/** DEL of a pod until nothing of it is left, by a runtime that nothing disturbs. */
export async function removePod(world: World, pod: Pod): Promise<void> {
  for (const withNetns of [pod.state !== 'dead', false]) {
    const failed = await sendDel(world, pod, withNetns)
    if (failed !== undefined) world.complaints.push(`DEL of ${pod.id}: ${failed.stdout}`)
    dropNetns(world, pod)
  }
  world.former.delete(pod)
  if (world.pods.get(pod.slot.number) === pod) world.pods.delete(pod.slot.number)
}

/** Returns the call where it failed. */
async function sendDel(
  world: World,
  pod: Pod,
  withNetns: boolean,
  disturbance?: Disturbance,
): Promise<Finished | undefined> {
  const conf = confOf(pod.slot)
  const sent = pod.result === undefined || !withNetns ? conf : { ...conf, prevResult: pod.result }
  const done = await send(world, {
    verb: 'DEL',
    pod: withNetns ? pod : { ...pod, netns: '' },
    conf: sent,
    disturbance,
  })
  return done.code === 0 ? undefined : done
}

/** Returns what CHECK found different. */
export async function checkPod(world: World, pod: Pod): Promise<readonly string[]> {
  const conf = { ...confOf(pod.slot), prevResult: pod.result }
  const done = await send(world, { verb: 'CHECK', pod, conf })
  return done.code === 0 ? [] : [`CHECK of ${pod.id} (${pod.slot.network}): ${done.json?.details ?? done.stdout}`]
}

/** A call about a network: GC with the pods that the runtime still lists, STATUS, or DEL of a container that never was. */
export async function callNetwork(
  world: World,
  asked: { readonly verb: 'GC' | 'STATUS' | 'DEL'; readonly network: string; readonly listed?: readonly Pod[] },
): Promise<Finished> {
  const slot = slots.find(({ network }) => network === asked.network) as Slot
  const listed = (asked.listed ?? []).map(({ id }) => ({ containerID: id, ifname: 'eth0' }))
  const conf = confOf(slot)
  const sent = asked.verb === 'GC' ? { ...conf, 'cni.dev/valid-attachments': listed } : conf
  const pod = asked.verb === 'DEL' ? nobody(slot) : { ...nobody(slot), id: '' }
  return await send(world, { verb: asked.verb, pod, conf: sent })
}

/** A container that never was. */
function nobody(slot: Slot): Pod {
  return { id: `nobody${slot.number}`, slot, netns: '', state: 'dead', result: undefined }
}

/** The namespace goes, and what was in it. */
export function dropNetns(world: World, { netns }: Pod): void {
  if (netns === '') return
  world.host.run('umount', ['-l', netns])
  rmSync(netns, { force: true })
}

async function send(
  world: World,
  { verb, pod, conf, disturbance }: { verb: Verb; pod: Pod; conf: object; disturbance?: Disturbance | undefined },
): Promise<Finished> {
  count(world, verb)
  const call = { id: pod.id, netns: pod.netns, ...(pod.id === '' ? { ifName: '' } : {}) }
  const done = await runCni(world.host, world.faults, { verb, conf, call, disturbance })
  const isKilled = done.code === -1
  const isWordless = done.code === 0 ? verb !== 'ADD' && done.stdout !== '' : done.json?.code === undefined
  if (!isKilled && (isWordless || done.json?.code === 999)) {
    world.complaints.push(`${verb} of ${pod.id} answered ${done.code}: ${done.stdout}${done.stderr}`)
  }
  if (isKilled && disturbance === undefined)
    world.complaints.push(`${verb} of ${pod.id} hung or crashed: ${done.stderr}`)
  return done
}

function complain(world: World, what: string, { code, stdout, stderr }: Finished): void {
  world.complaints.push(`${what} failed (${code}): ${stdout}${stderr}`)
}
