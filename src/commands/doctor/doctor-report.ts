// SPDX-License-Identifier: Apache-2.0
// The report for people: a line for each group, and below it the findings. A group without findings takes one line.

import { oneLine } from '../../cni/errors.ts'
import { counted, countOf, type Finding, findingText, painted } from '../findings.ts'
import type { Output } from '../output.ts'
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

export function reportText(report: Report, look: Pick<Output, 'hasColour'>): string {
  const { node, findings, notLooked, selected, done, pod, log } = report
  const skipped = new Set(notLooked.map(({ group }) => group)).size
  const more = skipped === 0 ? '' : `; ${skipped} of ${selected.length} groups skipped or incomplete`
  const uses = node.configurations.map(({ who, confDir, file, network, reason = 'it cannot be read' }) => {
    return `${who}: ${confDir}: uses ${file === undefined ? `nothing: ${reason}` : `${file} (network ${network})`}`
  })
  const lines = [
    ...uses,
    `pods of trestle: ${podsText(report)}`,
    '',
    ...(pod === undefined ? [] : [...podLines(pod, log), '']),
    ...selected.flatMap((group) => groupLines(group, report, look)),
    ...(done.length > 0 ? ['', ...done.map((text) => `  ${text}`)] : []),
    '',
    `${countsOf(findings) || 'nothing found'}${more}`,
  ]
  return lines.map((line) => `${line}\n`).join('')
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

function groupLines(group: Group, { findings, notLooked, probe }: Report, look: Pick<Output, 'hasColour'>) {
  const own = findings.filter((finding) => finding.group === group)
  const steps = group === 'probe' ? (probe?.steps ?? []) : []
  const texts = own.length === 0 ? [] : [countsOf(own)]
  for (const { why } of notLooked.filter((each) => each.group === group)) {
    texts.push(`${painted('not looked at', 'skip', look)}: ${oneLine(why)}`)
  }
  // Its finding is that of the cause, in another group.
  const hasFailed = texts.length === 0 && steps.some(({ outcome }) => outcome === 'failed')
  if (hasFailed) texts.push('failed, by what stands above')
  const stepLines = steps.map(({ what, outcome, detail = '' }) => {
    return `  ${outcome.padEnd(7)}  ${oneLine(`${what}${outcome === 'skipped' ? `: ${detail}` : ''}`)}`
  })
  const head = `${group.padEnd(15)}${texts.join('; ') || painted('ok', 'ok', look)}`
  return [head, ...stepLines, ...own.map((finding) => findingText(finding, look).trimEnd())]
}

function countsOf(findings: readonly Finding[]): string {
  const counts = (['error', 'warning', 'note'] as const).map((severity) => ({
    severity,
    count: countOf(findings, severity),
  }))
  return counts.flatMap(({ severity, count }) => (count === 0 ? [] : [counted(count, severity)])).join(', ')
}
