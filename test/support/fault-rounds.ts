// SPDX-License-Identifier: Apache-2.0
// One round per fault: a call that meets it, then what a runtime does next, then DEL of everything.
// Each round returns what was wrong afterwards, in words; nothing is the wanted answer.

import { withoutShared } from './allowance.ts'
import { describeFault, type Fault, type openFaults, type ToolCall } from './faults.ts'
import { type Finished, type Host, openHost, type Snapshot, snapshot, type Verb } from './host.ts'

/** A network with every kind of object trestle makes, in both families. */
export const richConf = {
  cniVersion: '1.1.0',
  name: 'rich',
  type: 'trestle',
  podcidr: ['10.88.0.0/24', 'fd88::/64'],
  firewall: { ingressPolicy: 'same-bridge' },
  bandwidth: { ingressRate: 8_000_000, ingressBurst: 800_000 },
  tuning: { sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' } },
  runtimeConfig: { portMappings: [{ hostPort: 18080, containerPort: 80, protocol: 'udp' }] },
}

/** Another pod of the same network; a host port has one owner. */
const plainConf = { ...richConf, runtimeConfig: {} }

/** Where a fault is put: at which call of which verb. */
export interface Round {
  readonly faults: ReturnType<typeof openFaults>
  readonly at: Pick<ToolCall, 'tool' | 'nth'>
  readonly fault: Fault
}

/** A prepared node and the state its calls must come back to. */
export interface Stage {
  readonly host: Host
  readonly before: Snapshot
  readonly pods: Readonly<Record<string, string>>
}

/** The tool calls of a verb without any fault. */
export function callsOf(faults: Round['faults'], situation: 'first' | 'steady', verb: 'ADD' | 'DEL' | 'GC') {
  return onStage(situation, (stage) => {
    if (verb !== 'ADD') mustWork('ADD', stage.host.cni('ADD', richConf, callOf(stage, 'a')))
    faults.reset()
    mustWork(verb, faulty(stage, faults, verb))
    return faults.seen()
  })
}

/** ADD meets the fault; the runtime tries again with a new container id, then removes both. */
export function addRound(situation: 'first' | 'steady', round: Round): readonly string[] {
  return onStage(situation, (stage) => {
    const wrong: string[] = []
    round.faults.reset(round.at, round.fault)
    const added = faulty(stage, round.faults, 'ADD')
    if (added.code > 0) wrong.push(...differences(stage, 'after the failed ADD'), ...noErrorObject(added))
    wrong.push(...retried(stage), ...removed(stage, ['a', 'b']))
    return named(round, wrong)
  })
}

/** DEL or GC meets the fault; another pod comes meanwhile; the call is sent again. */
export function removeRound(verb: 'DEL' | 'GC', round: Round): readonly string[] {
  return onStage('steady', (stage) => {
    mustWork('ADD', stage.host.cni('ADD', richConf, callOf(stage, 'a')))
    round.faults.reset(round.at, round.fault)
    const first = faulty(stage, round.faults, verb)
    const wrong = verb === 'DEL' && first.code > 0 ? [`DEL ended with ${first.code}: ${first.stdout}`] : []
    wrong.push(...retried(stage))
    const again = faulty(stage, round.faults, verb, 'b')
    if (again.code !== 0) wrong.push(`${verb} again ended with ${again.code}: ${again.stdout}`)
    return named(round, [...wrong, ...removed(stage, ['a', 'b'])])
  })
}

/** Pods a and b wait to be attached; `steady` has pod z attached already. */
export function onStage<T>(situation: 'first' | 'steady', body: (stage: Stage) => T): T {
  const host = openHost()
  try {
    const pods = { a: host.pod('a'), b: host.pod('b'), z: host.pod('z') }
    if (situation === 'steady') mustWork('ADD', host.cni('ADD', plainConf, { id: 'z', netns: pods.z }))
    return body({ host, pods, before: snapshot(host) })
  } finally {
    host.close()
  }
}

/** What differs from the start, shared objects aside. */
export function differences({ host, before }: Stage, when: string): readonly string[] {
  const [was, is] = [settled(withoutShared(before)), settled(withoutShared(snapshot(host)))]
  return (Object.keys(is) as (keyof Snapshot)[]).flatMap((part) =>
    is[part] === was[part] ? [] : [`${when}, ${part} was\n${was[part]}\nand is\n${is[part]}`],
  )
}

/** The kernel tells of a carrier a moment later (net/core/link_watch.c): nothing that a call leaves behind. */
function settled(taken: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const links = taken['links']?.replace(/NO-CARRIER,|,LOWER_UP/g, '') ?? ''
  return { ...taken, links, routes: taken['routes']?.replace(/ linkdown/g, '') ?? '' }
}

function faulty(stage: Stage, faults: Round['faults'], verb: Verb, alsoValid?: string): Finished {
  const valid = ['z', alsoValid].filter((id) => id !== undefined)
  const listed = valid.map((id) => ({ containerID: id, ifname: 'eth0' }))
  const conf = verb === 'GC' ? { ...richConf, 'cni.dev/valid-attachments': listed } : richConf
  // FAULT_INSIDE lets the harness's own nsenter pass; trestle does not hand it on to its tools.
  return stage.host.cni(verb, conf, { ...callOf(stage, 'a'), env: { PATH: faults.path, FAULT_INSIDE: '1' } })
}

/** The next pod of the network comes, reaches its gateway, and finds the bridge fully set up. */
export function retried(stage: Stage): readonly string[] {
  const again = stage.host.cni('ADD', plainConf, callOf(stage, 'b'))
  if (again.code !== 0) return [`ADD with a new container id ended with ${again.code}: ${again.stdout}`]
  const ping = stage.host.inPod(stage.pods['b'] ?? '', 'ping', ['-c1', '-W2', '10.88.0.1'])
  const ra = stage.host.run('sysctl', ['-n', 'net.ipv6.conf.cni0.accept_ra']).stdout.trim()
  return [
    ...(ping.code === 0 ? [] : ['the new pod does not reach its gateway']),
    ...(ra === '0' ? [] : [`the bridge takes router advertisements: accept_ra is ${ra}`]),
  ]
}

/** DEL of these pods, twice as containerd does; then nothing of them is left. */
export function removed(stage: Stage, ids: readonly string[]): readonly string[] {
  const dels = [...ids, ...ids].map((id) => stage.host.cni('DEL', richConf, callOf(stage, id)))
  const links = ids.map((id) => stage.host.inPod(stage.pods[id] ?? '', 'ip', ['-br', 'link', 'show', 'dev', 'eth0']))
  return [
    ...dels.flatMap((each) => (each.code === 0 ? [] : [`DEL ended with ${each.code}: ${each.stdout}`])),
    ...links.flatMap((each) => (each.code === 0 ? [`a pod still has ${each.stdout.trim()}`] : [])),
    ...differences(stage, 'after every DEL'),
  ]
}

function callOf(stage: Stage, id: string) {
  return { id, netns: stage.pods[id] ?? '' }
}

/** A failed ADD tells why, with a code for what is foreseen. */
export function noErrorObject({ json, stdout }: Finished): readonly string[] {
  const { code, msg } = (json ?? {}) as { code?: unknown; msg?: unknown }
  return typeof code === 'number' && typeof msg === 'string' && code !== 999 ? [] : [`no error object: ${stdout}`]
}

function named({ at, fault }: Round, wrong: readonly string[]): readonly string[] {
  return wrong.map((each) => `${at.tool} call ${at.nth}, ${describeFault(fault)}: ${each}`)
}

function mustWork(verb: Verb, { code, stdout, stderr }: Finished): void {
  if (code !== 0) throw new Error(`${verb} without a fault ended with ${code}: ${stdout}${stderr}`)
}
