// SPDX-License-Identifier: Apache-2.0
// Plans in words: what each operation is for, and what each process would get.

import { type Batch, toLanes } from '../../compile/batches.ts'
import { withEvidence } from '../../compile/evidence.ts'
import { forwardingKey } from '../../plan/modes/network.ts'
import { opsOf, type Plan, type Stage } from '../../plan/order/stage.ts'

/** The batches of a plan, in the order of its stages. */
export function batchesOf(plans: readonly Plan[]): readonly Batch[] {
  return plans.flatMap(({ stages }) => stages.flatMap(batchesOfStage))
}

function batchesOfStage({ run, proof }: Stage): readonly Batch[] {
  if (!('ops' in run)) return []
  const { links, rules } = toLanes(run.ops)
  return [...links, ...rules].map((batch) => withEvidence(batch, proof))
}

/** Commands that a stage runs apart from batches, one a line, without the state they are about. */
function commandsOf({ run }: Stage): readonly string[] {
  if (run.kind === 'delegate') return [`${run.type} ${run.verb}`]
  if (run.kind !== 'flows') return []
  const words = run.verb === 'list' ? '-L' : '-D'
  return run.flows.flatMap(({ family, selections }) =>
    selections.map((each) => `conntrack ${words} -f ipv${family} ${each.join(' ')}`),
  )
}

/** All of it. `title`: what is planned. */
export function planText(title: string, plans: readonly Plan[]): string {
  const ops = plans.flatMap((plan) => opsOf(plan))
  const steps = ops.map((op, at) => `${`${at + 1}`.padStart(4)}  ${op.in.padEnd(4)}  ${op.why}\n`)
  const shown = plans.filter(({ stages }) => stages.some((stage) => textOf(stage) !== ''))
  return [
    `${title} has ${ops.length} operations in ${batchesOf(plans).length} batches\n\n`,
    ...steps,
    ...shown.flatMap(({ because, stages }) => [`\n${because}:\n`, ...stages.map(textOf)]),
  ].join('')
}

function textOf(stage: Stage): string {
  const batches = batchesOfStage(stage).map((batch) => `\n  ${commandOf(batch)}\n${indented(inputOf(batch))}`)
  const commands = commandsOf(stage).map((command) => `\n  ${command}\n`)
  return [...batches, ...commands].join('')
}

function commandOf(batch: Batch): string {
  if (batch.tool === 'file') return 'written to /proc/sys'
  if (batch.tool === 'nft') return batch.evidence === undefined ? 'nft -f -' : 'nft -e -f -'
  const tool = batch.tool === 'ip6' ? 'ip -6' : batch.tool
  const command = tool === 'sysctl' ? 'sysctl -q -p -' : `${tool} -batch -`
  return batch.in === 'pod' ? `nsenter --net=NETNS -- ${command}` : command
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
