// SPDX-License-Identifier: Apache-2.0
// One fault on a node: made, looked at by doctor, lint and explain, cured as doctor says, and looked at again.

import { writeFileSync } from 'node:fs'
import { expect } from 'vitest'
import { openDoctorNode, podArgs } from '../../../support/doctor-node.ts'
import { type FaultBench, openFaultBench, type Said } from '../../../support/fault-bench.ts'
import { trestle } from '../../../support/host.ts'
import type { Pod } from '../../../support/traffic/pods.ts'
import { type Fault, type NodeKind, nodeKinds } from './fault.ts'

/** A node with its pods, to be used again while it is as it was. */
export interface Bench extends FaultBench {
  readonly pods: readonly [Pod, Pod]
  readonly before: unknown
}

const limits = { ingressRate: 100_000_000, ingressBurst: 10_000_000 }
const first = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }], bandwidth: limits }

/** Opens a node of a kind. Two pods, the first with a host port and a limit. */
export function openBench(kind: NodeKind): Bench {
  const node = openDoctorNode({ capabilities: { portMappings: true, bandwidth: true }, ...nodeKinds[kind] })
  const pods = [node.addPod('a', first, podArgs('a')), node.addPod('b', {}, podArgs('b'))] as const
  const bench = openFaultBench(node, pods[0])
  return { ...bench, pods, before: bench.state() }
}

/** Runs lines that have to succeed. */
export function done({ sh }: Bench, lines: string): string {
  const { exitCode, stdout, stderr } = sh(lines)
  expect(exitCode, `${lines}: ${stdout}${stderr}`).toBe(0)
  return stdout
}

/** What stands for a runtime's own commands: the runtime of these pods is this test. */
export function giveTools({ tools, node, pods }: Bench): void {
  const call = (verb: string, id: string, netns: string) =>
    `CNI_COMMAND=${verb} CNI_CONTAINERID=${id} CNI_IFNAME=eth0 CNI_NETNS=${netns} CNI_PATH=${node.binDir} CNI_ARGS= ${trestle} <<'CONF'\n${JSON.stringify(node.conf)}\nCONF`
  const script = (name: string, lines: readonly string[]) =>
    writeFileSync(`${tools}/${name}`, ['#!/bin/sh', ...lines, ''].join('\n'), { mode: 0o755 })
  script('add', [`ip netns add ${node.name}-$1 &&`, call('ADD', '$1', `/run/netns/${node.name}-$1`)])
  script('del', [call('DEL', '$1', `/run/netns/${node.name}-$1`), `ip netns del ${node.name}-$1`])
  // `pods -q`: the sandboxes; `stopp ID`: ends one, and kubelet makes it anew.
  const [pod] = pods
  script('crictl', [
    `[ "$1" = pods ] && { echo a; echo b; exit; }`,
    `[ "$1 $2" = "stopp a" ] || exit 9`,
    call('DEL', 'a', pod.netns),
  ])
}

/** Makes the fault, and expects of each command what the fault says. */
export function examine(bench: Bench, fault: Fault): void {
  giveTools(bench)
  done(bench, fault.make)
  const found = bench.node.doctor()
  const lint = bench.lint().ids
  const printed = printedIn(bench, fault)
  const explained: Said | undefined = printed === undefined ? undefined : bench.explain(printed)
  expect
    .soft([...new Set(found.ids)].toSorted(), JSON.stringify(found.findings, undefined, 1))
    .toEqual(fault.doctor.toSorted())
  expect.soft(lint).toEqual([...(fault.lint ?? [])].toSorted())
  // Without cnitool no ADD says anything.
  if (fault.says !== 'ADD' || printed !== undefined) expect.soft(explained?.ids, printed).toEqual(fault.explain)
  if (fault.names !== undefined) expect.soft(`${found.findings[0]?.on} ${found.findings[0]?.seen}`).toMatch(fault.names)
  cure(bench, fault, found.findings.find(({ id }) => id === fault.doctor[0])?.run)
}

/** What is printed in that state; nothing where CHECK finds nothing wrong, and a new pod gets its network. */
function printedIn(bench: Bench, { says = 'CHECK', explain }: Fault): string | undefined {
  const [pod] = bench.pods
  if (says === 'ADD') {
    const added = bench.add()
    if (added !== undefined) expect(added.code, 'ADD has to fail').not.toBe(0)
    return added === undefined ? undefined : `${added.stdout}${added.stderr}`
  }
  if (says !== 'CHECK') return done(bench, says)
  const { node } = bench
  const checked = node.cni('CHECK', { ...node.conf, runtimeConfig: first, prevResult: pod.result }, pod.call)
  if (explain === undefined) expect.soft(checked.stdout, 'CHECK finds nothing').toBe('')
  return checked.stdout === '' ? undefined : checked.stdout
}

/** The printed cure as it stands, else what follows from its words: nothing is found any more, and pods have traffic. */
function cure(bench: Bench, fault: Fault, run: string | undefined): void {
  const { node, pods } = bench
  if (fault.cure !== undefined && run !== undefined) expect.soft(run, 'doctor prints a cure').toBe(fault.cure)
  done(bench, run ?? fault.cure ?? 'echo there is no cure; exit 9')
  // As kubelet does with a sandbox that was stopped.
  if (fault.isAnew) node.cni('ADD', { ...node.conf, runtimeConfig: first }, pods[0].call)
  const after = node.doctor()
  expect.soft(after.ids, JSON.stringify(after.findings)).toEqual([])
  expect.soft(bench.lint().ids).toEqual([])
  const isIsolated = 'firewall' in node.conf && JSON.stringify(node.conf).includes('isolated')
  expect.soft(node.broken(...pods).filter((text) => !(isIsolated && text === 'pod to pod'))).toEqual([])
}

/** Whether the node can be used for the next fault. */
export function isAsBefore(bench: Bench, { tidy }: Fault): boolean {
  bench.sh(tidy ?? 'true')
  bench.renew()
  return JSON.stringify(bench.state()) === JSON.stringify(bench.before)
}
