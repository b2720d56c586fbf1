// SPDX-License-Identifier: Apache-2.0
// A report of findings: a line each that begins with its symbol, detail and hint of failures, and a last line with
// counts. Both output formats have the same exit code.

import { exitCode } from './command.ts'
import type { PublishedFinding } from './document-schema.ts'
import type { Output } from './output.ts'

type Status = 'ok' | 'fail' | 'skip'

/** A known cause of a failure. `id`: a finding of lint or an entry of explain; `message`: the observation. */
export type KnownCause = Pick<PublishedFinding, 'id' | 'message' | 'cause' | 'cure'>

/** The result of one look. `detail` and `known` belong to failures and skips. */
export interface Finding {
  readonly status: Status
  readonly summary: string
  readonly detail?: string
  readonly known?: KnownCause
  /** Duration in milliseconds. */
  readonly ms?: number
}

/** The number of findings of each status. */
interface Counts {
  readonly ok: number
  readonly failed: number
  readonly skipped: number
}

const symbols: Readonly<Record<Status, string>> = { ok: 'ok  ', fail: 'FAIL', skip: 'skip' }
const colours: Readonly<Record<Status, number>> = { ok: 32, fail: 31, skip: 33 }

/** A finding as text, with its line break. */
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

export function countsOf(findings: readonly Finding[]): Counts {
  const count = (status: Status) => findings.filter((finding) => finding.status === status).length
  return { ok: count('ok'), failed: count('fail'), skipped: count('skip') }
}

/** The last line, which also a success prints. */
function countsText({ ok, failed, skipped }: Counts): string {
  return `${ok} ok, ${failed} failed, ${skipped} skipped\n`
}

/** An entry of the document's `checks`. */
function checkOf(finding: Finding): Readonly<Record<string, unknown>> {
  const { known: _, ...check } = finding
  const hint = hintOf(finding)
  return hint === undefined ? check : { ...check, hint }
}

/** The failures with a known cause. */
function publishedOf(findings: readonly Finding[]): readonly PublishedFinding[] {
  return findings.flatMap(({ status, summary, known }) =>
    status !== 'fail' || known === undefined ? [] : [{ severity: 'error' as const, on: summary, ...known }],
  )
}

/** 1 with a failure; a skip is no failure. */
export function exitCodeOf(findings: readonly Finding[]): number {
  return findings.some((finding) => finding.status === 'fail') ? exitCode.findings : exitCode.fine
}

/** Opens a report: text is printed finding by finding, JSON at the end. */
export function openReport(options: { title: string; command: string; isJson: boolean; output: Output }) {
  const { title, command, isJson, output } = options
  const findings: Finding[] = []
  if (!isJson) output.out(`${title}\n\n`)
  const add = (finding: Finding): void => {
    findings.push(finding)
    if (!isJson) output.out(findingText(finding, output.hasColour))
  }
  /** Prints the counts or the document. Returns the exit code. */
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
