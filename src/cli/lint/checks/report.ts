// SPDX-License-Identifier: Apache-2.0
// Findings as people read them: place first, as compilers print it, so that editors jump there.

import { oneLine } from '../../../cni/model/error.ts'
import type { Severity } from './check-texts.ts'
import type { Finding } from './finding.ts'

/** How many of each. */
export interface LintCounts {
  readonly errors: number
  readonly warnings: number
  readonly notes: number
}

const colours: Readonly<Record<Severity, number>> = { error: 31, warning: 33, note: 36 }

/** One finding, its line break included. */
export function findingText(finding: Finding, hasColour: boolean): string {
  const { id, severity, message, cause, cure, excerpt } = finding
  const word = hasColour ? `\x1b[${colours[severity]}m${severity}\x1b[0m` : severity
  const number = String(finding.line ?? '')
  const lines =
    excerpt === undefined ? [] : [`${number.padStart(6)} | ${excerpt[0]}`, `${' '.repeat(6)} | ${excerpt[1]}`]
  const more = severity === 'note' ? [] : [`       cause: ${cause}`, `       cure: ${oneLine(cure)}`]
  return [`${placeOf(finding)}: ${word}: ${oneLine(message)} [${id}]`, ...lines, ...more, ''].join('\n')
}

function placeOf({ file, line, column }: Finding): string {
  const name = file === '-' ? '<stdin>' : oneLine(file)
  return line === undefined ? name : `${name}:${line}:${column}`
}

/** The counts of these findings. */
export function countsOf(findings: readonly Finding[]): LintCounts {
  const count = (severity: Severity) => findings.filter((finding) => finding.severity === severity).length
  return { errors: count('error'), warnings: count('warning'), notes: count('note') }
}

/** The last line: never silent on success. */
export function countsText({ errors, warnings, notes }: LintCounts, files: number): string {
  const some = (count: number, word: string) => `${count} ${word}${count === 1 ? '' : 's'}`
  return `${some(errors, 'error')}, ${some(warnings, 'warning')}, ${some(notes, 'note')} in ${some(files, 'file')}\n`
}
