// SPDX-License-Identifier: Apache-2.0
// Findings as people and scripts read them: one line each with its symbol first, detail and hint for
// what is not ok, and a last line with the counts. The same exit code in both formats.

import { exitCode } from './command.ts'
import type { PublishedFinding } from './document-schema.ts'
import type { Output } from './output.ts'

type Status = 'ok' | 'fail' | 'skip'

/** Why something failed, where that is known. `id`: of lint's or explain's; `message`: what was seen. */
export type KnownCause = Pick<PublishedFinding, 'id' | 'message' | 'cause' | 'cure'>

/** One thing that was looked at. `detail` and `known` are for what is not ok. */
export interface Finding {
  readonly status: Status
  readonly summary: string
  readonly detail?: string
  readonly known?: KnownCause
  /** How long it took, milliseconds. */
  readonly ms?: number
}

/** How many of each. */
interface Counts {
  readonly ok: number
  readonly failed: number
  readonly skipped: number
}

const symbols: Readonly<Record<Status, string>> = { ok: 'ok  ', fail: 'FAIL', skip: 'skip' }
const colours: Readonly<Record<Status, number>> = { ok: 32, fail: 31, skip: 33 }

/** A finding as text, its line break included. */
export function findingText(finding: Finding, hasColour: boolean): string {
  const symbol = hasColour
    ? `\x1b[${colours[finding.status]}m${symbols[finding.status]}\x1b[0m`
    : symbols[finding.status]
  const hint = hintOf(finding)
  const rest = finding.status === 'ok' ? [] : [finding.detail, hint && `hint: ${hint}`]
  const lines = rest.flatMap((text) => (text ? text.split('\n') : [])).map((line) => `        ${line}\n`)
  return `  ${symbol}  ${finding.summary}\n${lines.join('')}`
}

function hintOf({ known }: Finding): string | undefined {
  return known && `${known.message} [${known.id}]: ${known.cure}`
}

/** The counts of these findings. */
export function countsOf(findings: readonly Finding[]): Counts {
  const count = (status: Status) => findings.filter((finding) => finding.status === status).length
  return { ok: count('ok'), failed: count('fail'), skipped: count('skip') }
}

/** The last line: never silent on success. */
function countsText({ ok, failed, skipped }: Counts): string {
  return `${ok} ok, ${failed} failed, ${skipped} skipped\n`
}

/** As `checks` has it. */
function checkOf(finding: Finding): Readonly<Record<string, unknown>> {
  const { known: _, ...check } = finding
  const hint = hintOf(finding)
  return hint === undefined ? check : { ...check, hint }
}

/** Of those that failed, the ones whose cause is known. */
function publishedOf(findings: readonly Finding[]): readonly PublishedFinding[] {
  return findings.flatMap(({ status, summary, known }) =>
    status !== 'fail' || known === undefined ? [] : [{ severity: 'error' as const, on: summary, ...known }],
  )
}

/** 1 when something failed; what was skipped is no failure. */
export function exitCodeOf(findings: readonly Finding[]): number {
  return findings.some((finding) => finding.status === 'fail') ? exitCode.findings : exitCode.fine
}

/** A report being made: as text each finding is printed when it comes, as JSON all of them at the end. */
export function openReport(options: { title: string; command: string; isJson: boolean; output: Output }) {
  const { title, command, isJson, output } = options
  const findings: Finding[] = []
  if (!isJson) output.out(`${title}\n\n`)
  const add = (finding: Finding): void => {
    findings.push(finding)
    if (!isJson) output.out(findingText(finding, output.hasColour))
  }
  /** Prints the end and returns the exit code. */
  const close = (): number => {
    const code = exitCodeOf(findings)
    const counts = countsOf(findings)
    const document = {
      formatVersion: 1,
      command,
      title,
      checks: findings.map(checkOf),
      findings: publishedOf(findings),
      counts,
      exitCode: code,
    }
    output.out(isJson ? `${JSON.stringify(document, undefined, 2)}\n` : `\n${countsText(counts)}`)
    return code
  }
  return { add, close, findings: findings as readonly Finding[] }
}

export type Report = ReturnType<typeof openReport>
