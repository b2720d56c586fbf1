// SPDX-License-Identifier: Apache-2.0
// The report for people: a line for each group, and below it the findings. A group without findings takes one line.

import { oneLine } from '../../cni/errors.ts'
import { counted, countOf, type Finding, findingText, type Look, painted } from '../findings.ts'
import { rowsOf } from '../output.ts'
import type { Probed } from '../probe/on-node.ts'
import type { LoggedError } from './log.ts'
import type { Group, Node, NotLooked } from './observed-node.ts'
import { type PodFacts, podLines } from './one-pod.ts'

/** `selected`: the chosen groups; `done`: repairs in words. */
export interface Report {
  readonly node: Node
  readonly findings: readonly Finding[]
  readonly notLooked: readonly NotLooked[]
  readonly selected: readonly Group[]
  readonly done: readonly string[]
  readonly log: readonly LoggedError[]
  readonly pod?: PodFacts | undefined
  readonly probe?: Probed | undefined
}

const nameWidth = 15
const titleWidth = 11

export function reportText(report: Report, look: Look): string {
  const { node, selected, done, pod, log } = report
  const head = node.configurations.map(({ who, confDir, file, network }) => {
    const uses = file === undefined ? 'uses nothing' : `uses ${file} (network ${network})`
    return rowsIn(oneLine(`${who}: ${confDir}: ${uses}`), 2, look.width)
  })
  const given = new Set<string>()
  const groups = selected.map((group) => groupText(group, report, { ...look, given }))
  const repairs = done.map((text) => `  ${oneLine(text)}\n`)
  return [
    ...head,
    `pods of trestle: ${podsText(report)}\n\n`,
    ...(pod === undefined ? [] : [podBlock(pod, log, look.width)]),
    ...groups,
    ...(repairs.length > 0 ? ['\n', ...repairs] : []),
    `\n${countsText(report)}`,
  ].join('')
}

/** A text broken between words, its further rows indented. */
function rowsIn(text: string, indent: number, width: number): string {
  return `${rowsOf(text, Math.max(40, width - indent)).join(`\n${' '.repeat(indent)}`)}\n`
}

function podsText({ node, notLooked, findings }: Report): string {
  const { records, networks } = node
  const counts = networks.flatMap(({ name }) => {
    const count = records.filter(({ id }) => id.network === name && id.role === 'main').length
    return count === 0 ? [] : [`${count} of network ${name}`]
  })
  const isUnknown = notLooked.some(({ group, isPartial }) => group === 'network' && !isPartial)
  const isLost = findings.some(({ id }) => id === 'state-lacks')
  return counts.join(', ') || (isUnknown || isLost ? 'not known' : 'none')
}

function podBlock(pod: PodFacts, log: readonly LoggedError[], width: number): string {
  const { title, lines } = podLines(pod, log)
  const indent = titleWidth + 2
  let before = ''
  const rows = lines.map(([name, text]) => {
    const shown = name === before ? '' : name
    before = name
    return `  ${shown.padEnd(titleWidth)}${rowsIn(oneLine(text), indent, width)}`
  })
  return `${oneLine(title)}\n${rows.join('')}\n`
}

/** `given`: reasons that were printed above. */
function groupText(group: Group, { findings, notLooked, probe }: Report, look: Look & { given: Set<string> }): string {
  const own = findings.filter((finding) => finding.group === group)
  const texts = [countsOf(own)].filter((text) => text !== '').map((text) => painted(text, worstOf(own), look))
  for (const { why } of notLooked.filter((each) => each.group === group)) {
    texts.push(`${painted('not looked at', 'skip', look)}: ${look.given.has(why) ? 'as above' : oneLine(why)}`)
    look.given.add(why)
  }
  const steps = group === 'probe' ? (probe?.steps ?? []) : []
  // Its finding is that of the cause, in another group.
  const hasFailed = texts.length === 0 && steps.some(({ outcome }) => outcome === 'failed')
  if (hasFailed) texts.push(painted('failed, by what stands above', 'error', look))
  if (texts.length === 0) texts.push(painted('ok', 'ok', look))
  const stepLines = steps.map(({ what, outcome, detail = '' }) => {
    const as = outcome === 'ok' ? 'ok' : outcome === 'failed' ? 'error' : 'skip'
    const why = outcome === 'skipped' ? `: ${detail}` : ''
    return `  ${painted(outcome.padEnd(7), as, look)}  ${rowsIn(oneLine(`${what}${why}`), 11, look.width)}`
  })
  const head = `${group.padEnd(nameWidth)}${rowsIn(texts.join('; '), nameWidth, look.width)}`
  return `${head}${stepLines.join('')}${own.map((finding) => findingText(finding, look)).join('')}`
}

const severities = ['error', 'warning', 'note'] as const

function worstOf(findings: readonly Finding[]) {
  return severities.find((severity) => countOf(findings, severity) > 0) ?? 'note'
}

function countsOf(findings: readonly Finding[]): string {
  const counts = severities.map((severity) => ({ severity, count: countOf(findings, severity) }))
  return counts.flatMap(({ severity, count }) => (count === 0 ? [] : [counted(count, severity)])).join(', ')
}

/** The last line: never silent on success. */
function countsText({ findings, notLooked, selected }: Report): string {
  const skipped = new Set(notLooked.map(({ group }) => group)).size
  const more = skipped === 0 ? '' : `; ${skipped} of ${selected.length} groups skipped or incomplete`
  return `${countsOf(findings) || 'nothing found'}${more}\n`
}
