// SPDX-License-Identifier: Apache-2.0
// The one seam to the machine: `run` is the only place where operations become processes, `ask` the only one where
// something is looked at with a process. `trestle plan` has a machine that prints (commands/plan.ts).

import { type CniError, toCniError } from '../cni/errors.ts'
import { type Batch, commandOf, commitProof, failedOp } from '../kernel/batch.ts'
import { isCommitted } from '../kernel/elements.ts'
import { CommandError, commandError, type Reason } from '../kernel/messages.ts'
import { type OpenNetns, openNetns, openNetnsIfThere } from '../kernel/netns.ts'
import type { Op } from '../kernel/operation.ts'
import { isLinkGone, linkExists, linkIndex, readSysctl } from '../kernel/proc.ts'
import { writeHostSysctl } from '../kernel/sysctls.ts'
import type { Step, StepName } from './order.ts'
import { type Command, type Output, type Run, runnerUntil } from './runner.ts'

/** What came of a run. */
export interface Outcome {
  /** What each step printed. */
  readonly printed: ReadonlyMap<StepName, string>
  /** Operations whose failure was tolerated, with the reason. */
  readonly skipped: readonly { readonly op: Op; readonly reason: Reason | undefined }[]
  /** The first failure. `op`: the operation that was refused, where the tool says which. */
  readonly failed?: { readonly error: CniError; readonly op: Op | undefined; readonly reason: Reason | undefined }
  readonly errors: readonly CniError[]
  /** Operations that have not run: from the refused one on, and those of steps that wait for it. */
  readonly undone: readonly Op[]
}

export interface RunOptions {
  readonly netns?: OpenNetns | undefined
  /** Go on after a failure: what is torn down is torn down as far as it goes. */
  readonly goesOn?: boolean
  /**
   * Answer when links are gone and rules are committed, before `ip` and `nft` have ended: they only wait out grace
   * periods of the kernel then (net/core/dev.c, netdev_run_todo; net/netfilter/nf_tables_api.c, nft_rcv_nl_event).
   */
  readonly endsEarly?: boolean
}

export interface Machine {
  /** Opens CNI_NETNS. Throws CniError 4. */
  openNetns(path: string): OpenNetns
  openNetnsIfThere(path: string): OpenNetns | undefined
  /** Starts the tools that an ADD needs first: loading `nsenter` and `ip` takes longer than most batches. */
  prepare(netns: OpenNetns): void
  /** Runs the steps. Never rejects: a failure is in the outcome, when everything has come to rest. */
  run(steps: readonly Step[], options: RunOptions): Promise<Outcome>
  /** Runs a program that looks at something, or a delegated plugin. */
  ask: Run
  /** What /proc tells of the host without a process (kernel/proc.ts). */
  linkExists(name: string): boolean
  linkIndex(name: string): number | undefined
  readSysctl(key: string): string | undefined
  /** The same machine with more time and without the signal that ends the call: for undoing what was made. */
  forUndoing(): Machine
  /** Ends tools that were started early and not used. */
  discard(): Promise<void>
}

/** A call has 20 s, of which 15 are for the work and the rest for undoing it. */
export const workMs = 15_000
const wholeMs = 20_000

/** Sees every process; the recorder has one. */
export type WrapRun = (run: Run) => Run

/** `startedMs`: when the call began (nowMs()). `signal`: ends the work early. */
export function realMachine(signal: AbortSignal | undefined, startedMs: number, wrap: WrapRun): Machine {
  const work = wrap(runnerUntil({ endsAtMs: startedMs + workMs, signal }))
  return machineWith(work, undoingMachine(startedMs, wrap))
}

/** For DEL and GC, which a signal does not end. */
export function undoingMachine(startedMs: number, wrap: WrapRun): Machine {
  return machineWith(wrap(runnerUntil({ endsAtMs: startedMs + wholeMs })))
}

/** A process that waits for its input. */
interface Waiting {
  readonly command: Command
  readonly give: (stdin: string) => void
  readonly output: Promise<Output>
}

export function machineWith(run: Run, undoing?: Machine): Machine {
  const waiting = new Set<Waiting>()
  const startEarly = (command: Command) => {
    let give = (_: string): void => undefined
    const output = run({ ...command, stdin: (giveIt) => (give = giveIt) })
    // Whoever takes the process sees the failure.
    output.catch(() => undefined)
    waiting.add({ command, give: (text) => give(text), output })
  }
  const runOrTake: Run = (command) => {
    const found = [...waiting].find((each) => isSameProgram(each.command, command))
    if (found === undefined || typeof command.stdin !== 'string') return run(command)
    waiting.delete(found)
    found.give(command.stdin)
    return found.output
  }
  const machine: Machine = {
    openNetns,
    openNetnsIfThere,
    prepare: ({ fd }) => {
      startEarly({ file: 'ip', args: ['-j', '-batch', '-'], netnsFd: fd })
      startEarly({ file: 'nsenter', args: ['--net=/proc/self/fd/3', '--', 'ip', '-j', '-batch', '-'], netnsFd: fd })
    },
    run: (steps, options) => runSteps(runOrTake, steps, options),
    ask: run,
    linkExists,
    linkIndex,
    readSysctl,
    forUndoing: () => undoing ?? machine,
    discard: async () => {
      const unused = [...waiting]
      waiting.clear()
      for (const { give } of unused) give('')
      await Promise.allSettled(unused.map(({ output }) => output))
    },
  }
  return machine
}

function isSameProgram(a: Command, b: Command): boolean {
  return a.file === b.file && a.netnsFd === b.netnsFd && a.args.join(' ') === b.args.join(' ')
}

interface StepResult {
  readonly name: StepName
  readonly stdout: string
  readonly skipped: Outcome['skipped']
  readonly error?: CniError
  readonly op?: Op | undefined
  readonly undone: readonly Op[]
}

async function runSteps(run: Run, steps: readonly Step[], options: RunOptions): Promise<Outcome> {
  const started = new Map<StepName, Promise<StepResult>>()
  for (const step of steps) {
    const before = step.after.flatMap((name) => started.get(name) ?? [])
    started.set(step.name, before.length === 0 ? runStep(run, step, options) : runAfter(before, run, step, options))
  }
  const results = await Promise.all(started.values())
  const failed = results.find(({ error }) => error !== undefined)
  const { error, op } = failed ?? {}
  const reason = error instanceof CommandError ? error.reason : undefined
  return {
    printed: new Map(results.map(({ name, stdout }) => [name, stdout])),
    skipped: results.flatMap(({ skipped }) => skipped),
    ...(error === undefined ? {} : { failed: { error, op, reason } }),
    errors: results.flatMap((result) => result.error ?? []),
    undone: results.flatMap(({ undone }) => undone),
  }
}

async function runAfter(before: readonly Promise<StepResult>[], run: Run, step: Step, options: RunOptions) {
  const results = await Promise.all(before)
  const isHeldUp = results.some(({ error, undone }) => error !== undefined || undone.length > 0)
  const heldUp: StepResult = { name: step.name, stdout: '', skipped: [], undone: step.batch.ops }
  if (isHeldUp && !options.goesOn) return heldUp
  return await runStep(run, step, options)
}

/** Runs the batch; after a tolerated failure, or any where the run goes on, what is left of it. */
async function runStep(run: Run, { name, batch }: Step, options: RunOptions): Promise<StepResult> {
  let stdout = ''
  let left: Batch | undefined = batch
  let endsEarly = options.endsEarly ?? false
  const skipped: { op: Op; reason: Reason | undefined }[] = []
  let firstError: CniError | undefined
  while (left !== undefined) {
    const attempt: Batch = left
    try {
      stdout += await runBatch(run, attempt, { ...options, endsEarly })
      break
    } catch (thrown) {
      const error = toCniError(thrown)
      const { op, reason } = error instanceof CommandError ? error : { op: undefined, reason: undefined }
      if (error instanceof CommandError && attempt.tool === 'nft' && endsEarly) {
        // Where the chain that was to be listed is not there, nft names all lines: once more without the listing.
        endsEarly = false
        continue
      }
      const refused = op ?? (attempt.ops.length === 1 ? attempt.ops[0] : undefined)
      const isTolerated = refused !== undefined && isTolerable(refused, reason)
      if (isTolerated) skipped.push({ op: refused, reason })
      else firstError ??= error
      if (!isTolerated && !options.goesOn) return { name, stdout, skipped, error, op, undone: undoneOf(attempt, op) }
      left = refused === undefined ? undefined : restOf(attempt, refused)
    }
  }
  return { name, stdout, skipped, ...(firstError === undefined ? {} : { error: firstError }), undone: [] }
}

/** A key of a map that leads elsewhere by now is somebody else's: deleting it "fails" with "File exists". */
function isTolerable({ kind, tolerate }: Op, reason: Reason | undefined): boolean {
  if (kind === 'element.delete') return reason === 'exists' || reason === 'absent'
  if (tolerate === undefined) return false
  if (reason === tolerate) return true
  // Of what is not there tc and bridge(8) say that it is invalid; a link of which ip says so is there.
  return tolerate === 'absent' && reason === 'invalid' && kind !== 'link.delete' && kind !== 'group.delete'
}

/** iproute2 has run the lines before the refused one; of a failed nft transaction nothing has happened. */
function restOf(batch: Batch, refused: Op): Batch | undefined {
  const at = batch.ops.indexOf(refused)
  const isKept = (index: number) => (batch.tool === 'nft' ? index !== at : index > at)
  const ops = batch.ops.filter((_, index) => isKept(index))
  return ops.length === 0 ? undefined : { ...batch, ops, texts: batch.texts.filter((_, index) => isKept(index)) }
}

function undoneOf({ tool, ops }: Batch, refused: Op | undefined): readonly Op[] {
  return tool === 'nft' || refused === undefined ? ops : ops.slice(ops.indexOf(refused))
}

async function runBatch(run: Run, batch: Batch, { netns, endsEarly }: RunOptions): Promise<string> {
  if (batch.tool === 'file') {
    for (const op of batch.ops) if (op.kind === 'sysctl.set') writeHostSysctl(op)
    return ''
  }
  const proof = endsEarly ? proofOf(batch) : undefined
  const isNftProof = proof !== undefined && batch.tool === 'nft'
  const command = commandOf(batch, isNftProof)
  const { code, signal, stdout, stderr } = await run({
    ...command,
    stdin: isNftProof ? `${command.stdin}${commitProof(batch)}` : command.stdin,
    netnsFd: netns?.fd,
    hasHostNetns: batch.place === 'pod' && batch.ops.some((op) => op.kind === 'link.set' && op.set.netns === 'host'),
    isDone: proof,
  })
  // procps 4.0 reports a key that is read-only in the pod and ends with status 0 all the same.
  if (code === 0 && !(batch.tool === 'sysctl' && stderr !== '')) return stdout
  const whys = batch.ops.map(({ why }) => why)
  const words = [command.file, ...command.args].join(' ')
  throw commandError({ command: words, op: failedOp(batch, stderr), whys, stderr, code, signal })
}

/** How a batch of removals shows that it is done. */
function proofOf({ tool, place, ops }: Batch): ((stdout: string) => boolean) | undefined {
  if (place !== 'host') return undefined
  if (tool === 'nft') return ops.every(({ kind }) => kind === 'element.delete') ? isCommitted : undefined
  const isRemoval = (op: Op) =>
    op.kind === 'link.delete' || op.kind === 'group.delete' || (op.kind === 'link.set' && op.set.group !== undefined)
  if (tool !== 'ip' || !ops.every(isRemoval)) return undefined
  const devs = ops.flatMap((op) => (op.kind === 'link.delete' ? [op.dev] : op.kind === 'group.delete' ? op.devs : []))
  return () => devs.every(isLinkGone)
}
