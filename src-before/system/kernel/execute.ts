// SPDX-License-Identifier: Apache-2.0
// Runs a plan: the link lane and the rule lane side by side, each in order, one process a batch.

import { elementOps, elementsInTheWay, isOfRules, type Op } from '../../model/op.ts'
import { type TableFamily, tableRemoval } from '../../model/tables.ts'
import type { Proof } from '../../plan/order/stage.ts'
import {
  announcedBy,
  type Batch,
  type Evidence,
  type FileOp,
  type Lanes,
  nftOptions,
  toLanes,
  withEvidence,
} from '../../tools/batches.ts'
import { CommandError, commandError } from '../../tools/command-error.ts'
import { podNetns } from '../../tools/ip.ts'
import { isCommitted } from '../../tools/nft.ts'
import { refusedFor } from '../process/capabilities.ts'
import type { Command, Run } from '../process/runner.ts'
import { applyFileOp, isLinkGone, readKey } from './kernel-files.ts'
import { observeTable } from './observe.ts'

interface Printed {
  readonly batch: Batch
  readonly stdout: string
}

/** How to run: with which runner, and the pod's namespace where pod operations are in the plan. */
export interface Place {
  readonly run: Run
  readonly netnsFd?: number
}

/** A plan's batches for this kernel. Its release is read where a text depends on it; node:os has that of the snapshot. */
export function lanesHere(ops: readonly Op[]): Lanes {
  const depends = ops.some((op) => op.kind === 'nft.base' && op.acceptMark !== undefined)
  return toLanes(ops, depends ? readKey('kernel/osrelease') : undefined)
}

/**
 * Runs every operation, or throws the first failure (CommandError, or the runner's CniError) after
 * both lanes have come to rest: nothing of the plan runs on while the caller undoes it.
 */
export async function execute(place: Place, ops: readonly Op[]): Promise<readonly Printed[]> {
  const lanes = lanesHere(ops)
  const results = await Promise.allSettled([runLane(place, lanes.rules), runLane(place, lanes.links)])
  const failed = results.findLast((result) => result.status === 'rejected')
  if (failed) throw failed.reason
  return results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
}

/** Runs a plan; false where the kernel, or a tool, refuses it. */
export async function isTaken(place: Place, ops: readonly Op[]): Promise<boolean> {
  try {
    await execute(place, ops)
    return true
  } catch (error) {
    if (error instanceof CommandError) return false
    throw error
  }
}

/**
 * Runs every operation whatever fails, for tearing down. Returns the failures; something that is not
 * there any more is none. `proof`: what shows that it is done before a tool ends, which is then killed.
 */
export async function executeAll(place: Place, ops: readonly Op[], proof?: Proof): Promise<readonly Error[]> {
  const lanes = lanesHere(ops)
  const batches = [...lanes.links, ...lanes.rules].map((batch) => withEvidence(batch, proof))
  const results = await Promise.all(batches.map((batch) => runAnyway(place, batch)))
  return results.flat()
}

async function runLane(place: Place, lane: readonly Batch[]): Promise<readonly Printed[]> {
  const printed: Printed[] = []
  for (const batch of lane) {
    // Waiting for what needs no process would let the next stage fork before this one's tool has got its input.
    const stdout = batch.tool === 'file' ? writeFiles(batch.ops) : await runBatch(place, batch)
    printed.push({ batch, stdout })
  }
  return printed
}

async function runBatch(place: Place, batch: Batch): Promise<string> {
  if (batch.tool === 'file') return writeFiles(batch.ops)
  const output = await place.run(commandOf(batch, place.netnsFd))
  // procps 4.0 tells of a key that is read-only in the pod's namespace, and ends with status 0 all the same.
  const isKeyRefused = batch.tool === 'sysctl' && output.stderr !== ''
  if (output.code !== 0 || isKeyRefused) throw commandError(batch, { ...output, missing: refusedFor(output.stderr) })
  return output.stdout
}

function writeFiles(ops: readonly FileOp[]): string {
  for (const op of ops) applyFileOp(op)
  return ''
}

async function runAnyway(place: Place, batch: Batch): Promise<readonly Error[]> {
  try {
    await runBatch(place, batch)
    return []
  } catch (error) {
    if (!(error instanceof CommandError)) return [error as Error]
    if (error.op?.kind === 'nft.chain.del' && error.reason === 'busy')
      return await runBesideChain(place, batch.ops, error.op)
    // A key that has another value by now is somebody else's.
    const isOthers = error.op?.kind === 'nft.del' && error.reason === 'exists'
    const isGone = isOthers || (error.reason === 'absent' && (error.op !== undefined || batch.ops.length === 1))
    // The chain that was to be listed is not there, though the table is: once more without that.
    if (error.op === undefined && batch.tool === 'nft' && batch.evidence !== undefined)
      return await executeAll(place, batch.ops)
    const rest = stillToRun(batch, error.op, isGone)
    return [...(isGone ? [] : [error]), ...(rest.length === 0 ? [] : await executeAll(place, rest))]
  }
}

/**
 * Somebody has the chain, or had it at that moment: two that leave it together are both refused. The rest goes first,
 * then the chain once more by itself; where it is in use still, it is another's to remove.
 */
async function runBesideChain(place: Place, ops: readonly Op[], refused: Op): Promise<readonly Error[]> {
  const rest = ops.filter(({ kind }) => kind !== 'nft.chain.del')
  const chains = ops.filter((op) => op.kind === 'nft.chain.del' && (rest.length > 0 || op !== refused))
  return [...(await executeAll(place, rest)), ...(await executeAll(place, chains))]
}

/** iproute2 has run the lines before the failed one; of a failed nft transaction nothing has happened. */
function stillToRun(batch: Batch, failed: Op | undefined, isGone: boolean): readonly Op[] {
  const ops: readonly Op[] = batch.ops
  if (failed === undefined) return []
  if (batch.tool === 'nft') return isGone ? ops.filter((op) => op !== failed) : []
  return ops.slice(ops.indexOf(failed) + 1)
}

/** The processes that run the host's and the pod's batch for `ip`, without their input: to prestart them. */
export function linkCommands(netnsFd: number): readonly Command[] {
  return (['host', 'pod'] as const).map((place) => commandOf({ tool: 'ip', in: place, ops: [], stdin: '' }, netnsFd))
}

/** The processes that run the links' part of `ops`, without their input: to prestart them. */
export function laterCommands(netnsFd: number, ops: readonly Op[]): readonly Command[] {
  const commands = toLanes(ops).links.flatMap((batch) => (batch.tool === 'file' ? [] : [commandOf(batch, netnsFd)]))
  // Without input it would act at once.
  return commands.filter(({ stdin }) => stdin !== undefined)
}

function commandOf(batch: Exclude<Batch, { tool: 'file' }>, netnsFd: number | undefined): Command {
  const isDone = batch.tool === 'nft' || batch.tool === 'ip' ? doneBy(batch.evidence) : {}
  if (batch.tool === 'nft') return { file: 'nft', args: nftOptions(batch), stdin: batch.stdin, ...isDone }
  const netns = netnsFd === undefined ? {} : { netnsFd }
  const tool = toolOf(batch)
  if (batch.in === 'host') return { ...tool, ...netns, ...isDone }
  return {
    file: 'nsenter',
    args: [`--net=${podNetns}`, '--', ...wordsOf(batch, tool)],
    ...(tool.stdin ? { stdin: tool.stdin } : {}),
    ...netns,
    ...(batch.ops.some(({ kind }) => kind === 'device.return') && { hasHome: true }),
  }
}

function wordsOf(batch: Batch, { file, args }: Command): readonly string[] {
  const words = [file, ...args]
  return batch.tool === 'ip' && batch.announces ? announcedBy(words) : words
}

function doneBy(evidence: Evidence | undefined): Pick<Command, 'isDone'> {
  if (evidence === undefined) return {}
  return { isDone: evidence.kind === 'gone' ? () => evidence.links.every(isLinkGone) : isCommitted }
}

function toolOf(batch: Exclude<Batch, { tool: 'file' | 'nft' }>): Command {
  if (batch.tool === 'tc' || batch.tool === 'bridge')
    return { file: batch.tool, args: ['-batch', '-'], stdin: batch.stdin }
  if (batch.tool === 'sysctl') return sysctlCommand(batch)
  // -j only matters for the lines that show something.
  const family = batch.tool === 'ip6' ? ['-6'] : []
  return { file: 'ip', args: [...family, '-j', '-batch', '-'], stdin: batch.stdin }
}

/** In a file a key with `*`, `?` or `[` is a pattern (sysctl.d(5)), as an argument not; links may be called so. */
function sysctlCommand({ ops, stdin }: Extract<Batch, { tool: 'sysctl' }>): Command {
  if (!ops.some(({ key }) => /[*?[]/.test(key))) return { file: 'sysctl', args: ['-q', '-p', '-'], stdin }
  return { file: 'sysctl', args: ['-qw', ...ops.map(({ key, value }) => `${key}=${value}`)] }
}

// Says rules where something of an earlier attachment or release may stand in their way.

/**
 * Runs operations with rules among them. Elements in the way, left from a lost record, are removed and the rules said
 * once more; a table that they do not fit into is replaced. Throws as `execute`.
 */
export async function executeWithRules(place: Place, ops: readonly Op[]): Promise<void> {
  try {
    await execute(place, ops)
  } catch (error) {
    const isMisfit = error instanceof CommandError && error.op?.kind === 'nft.base'
    if (isMisfit && (await replaceTable(place, ops, error.op.table))) return
    // The lanes are independent: a failure of the rules is only told when the links are as wanted.
    const isInTheWay = error instanceof CommandError && error.op?.kind === 'nft.add' && error.reason === 'exists'
    const table = isInTheWay ? await observeTable(place.run, 'inet') : 'absent'
    const obstacles = table === 'absent' ? [] : elementsInTheWay(table.elements, ops)
    if (obstacles.length === 0) throw error
    await execute(place, elementOps(obstacles, 'nft.del'))
    const rules = ops.filter(isOfRules)
    await execute(place, rules)
  }
}

/**
 * A table that is dormant, or has a set of another type under a name of ours. In one transaction: where it does not
 * help, nothing has changed. The plan has the elements of all attachments.
 */
async function replaceTable(place: Place, ops: readonly Op[], table: TableFamily): Promise<boolean> {
  return await isTaken(place, [tableRemoval(table), ...ops.filter(isOfRules)])
}
