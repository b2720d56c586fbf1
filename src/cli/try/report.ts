// SPDX-License-Identifier: Apache-2.0
// The output of `try`: a line for each step with its outcome first, or all steps at the end as JSON.

import { diagnosis } from '../../catalogue/diagnosis.ts'
import { isErrorId } from '../../cni/model/error-code.ts'
import type { Step } from '../probe/pods.ts'
import { exitCode } from '../shell/command.ts'
import { findingOf, painted } from '../shell/findings.ts'
import { type Output, print } from '../shell/output.ts'

const statuses = { ok: 'ok', failed: 'fail', skipped: 'skip' } as const
const symbols = { ok: 'ok  ', failed: 'FAIL', skipped: 'skip' } as const

/** A step, its line break included; a failed or skipped step has its detail and its cure below. */
export function stepText(step: Step, hasColour: boolean): string {
  const { what, outcome, detail = '' } = step
  const hint = hintOf(step)
  const rest = outcome === 'ok' ? [] : [...detail.split('\n'), hint === undefined ? '' : `hint: ${hint}`]
  const lines = rest.filter((line) => line !== '').map((line) => `        ${line}\n`)
  return `  ${painted(symbols[outcome], statuses[outcome], { hasColour })}  ${what}\n${lines.join('')}`
}

/** The hint below a failed step; an error of trestle has its own. */
function hintOf({ known }: Step): string | undefined {
  if (known === undefined || isErrorId(known.id)) return undefined
  return `${known.message} [${known.id}]: ${diagnosis(known.id).cure}`
}

/** 1 when a step failed; a step that was skipped is no failure. */
export function exitCodeOf(steps: readonly Step[]): number {
  return steps.some(({ outcome }) => outcome === 'failed') ? exitCode.findings : exitCode.fine
}

/** A report being made. `close` prints its end and returns the exit code. */
export function openReport(title: string, isJson: boolean, output: Output) {
  const steps: Step[] = []
  if (!isJson) output.out(`${title}\n\n`)
  const add = (step: Step): void => {
    steps.push(step)
    if (!isJson) output.out(stepText(step, output.hasColour))
  }
  const close = (): number => {
    const count = (outcome: Step['outcome']) => steps.filter((step) => step.outcome === outcome).length
    const counts = { ok: count('ok'), failed: count('failed'), skipped: count('skipped') }
    const checks = steps.map((step) => {
      const { what: summary, outcome, detail, ms } = step
      return { status: statuses[outcome], summary, detail, hint: hintOf(step), ms }
    })
    const findings = steps.flatMap(({ what, outcome, known }) =>
      outcome !== 'failed' || known === undefined ? [] : [findingOf({ ...known, severity: 'error', on: what })],
    )
    const document = { title, checks, findings, counts }
    const text = `\n${counts.ok} ok, ${counts.failed} failed, ${counts.skipped} skipped\n`
    return print({ isJson, output }, { command: 'try', document, text, code: exitCodeOf(steps) })
  }
  return { add, close }
}
