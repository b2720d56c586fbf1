// SPDX-License-Identifier: Apache-2.0
// Runs a plan: the link lane and the rule lane side by side, each in order, one process a batch.

import { type Batch, toLanes } from '../compile/batches.ts'
import { CommandError, commandError } from '../compile/command-error.ts'
import { podNetns } from '../compile/ip.ts'
import type { Op } from '../plan/op.ts'
import { applyFileOp } from './kernel-files.ts'
import type { Command, Run } from './runner.ts'

/** What a finished batch printed. */
export interface Printed {
  readonly batch: Batch
  readonly stdout: string
}

/** How to run: with which runner, and the pod's namespace where pod operations are in the plan. */
export interface Place {
  readonly run: Run
  readonly netnsFd?: number
}

/**
 * Runs every operation, or throws the first failure (CommandError, or the runner's CniError) after
 * both lanes have come to rest: nothing of the plan runs on while the caller undoes it.
 */
export async function execute(place: Place, ops: readonly Op[]): Promise<readonly Printed[]> {
  const lanes = toLanes(ops)
  const results = await Promise.allSettled([runLane(place, lanes.rules), runLane(place, lanes.links)])
  const failed = results.findLast((result) => result.status === 'rejected')
  if (failed) throw failed.reason
  return results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
}

/**
 * Runs every operation whatever fails, for taking down. Returns the failures; something that is not
 * there any more is none.
 */
export async function executeAll(place: Place, ops: readonly Op[]): Promise<readonly Error[]> {
  const lanes = toLanes(ops)
  const results = await Promise.all([...lanes.links, ...lanes.rules].map((batch) => runAnyway(place, batch)))
  return results.flat()
}

async function runLane(place: Place, lane: readonly Batch[]): Promise<readonly Printed[]> {
  const printed: Printed[] = []
  for (const batch of lane) printed.push({ batch, stdout: await runBatch(place, batch) })
  return printed
}

async function runBatch(place: Place, batch: Batch): Promise<string> {
  if (batch.tool === 'file') {
    for (const op of batch.ops) applyFileOp(op)
    return ''
  }
  const output = await place.run(commandOf(batch, place.netnsFd))
  if (output.code !== 0) throw commandError(batch, output)
  return output.stdout
}

async function runAnyway(place: Place, batch: Batch): Promise<readonly Error[]> {
  try {
    await runBatch(place, batch)
    return []
  } catch (error) {
    if (!(error instanceof CommandError)) return [error as Error]
    const rest = batch.ops.slice(error.op === undefined ? batch.ops.length : batch.ops.indexOf(error.op as never) + 1)
    const own = error.reason === 'absent' ? [] : [error]
    return rest.length === 0 || batch.tool === 'nft' ? own : [...own, ...(await executeAll(place, rest))]
  }
}

function commandOf(batch: Exclude<Batch, { tool: 'file' }>, netnsFd: number | undefined): Command {
  if (batch.tool === 'nft') return { file: 'nft', args: ['-t', '-f', '-'], stdin: batch.stdin }
  // -j only matters for the lines that show something.
  const ip = ['-j', '-batch', '-']
  const netns = netnsFd === undefined ? {} : { netnsFd }
  if (batch.in === 'host') return { file: 'ip', args: ip, stdin: batch.stdin, ...netns }
  return { file: 'nsenter', args: [`--net=${podNetns}`, '--', 'ip', ...ip], stdin: batch.stdin, ...netns }
}
