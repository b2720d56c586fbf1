// SPDX-License-Identifier: Apache-2.0
// The report for people: a line for each group, and below it the findings. A group without findings takes one line.

import type { Severity } from '../../catalogue/diagnosis.ts'
import { oneLine } from '../../cni/errors.ts'
import { counted, countOf, type Finding, findingText, type Look, painted } from '../findings.ts'
import { rowsOf } from '../output.ts'
import type { Group, LoggedError, NodeFacts, NotLooked, PodAttachment, PodFacts } from './facts.ts'
import { sandboxFailed } from './log.ts'

/** `selected`: the chosen groups. */
export interface Report {
  readonly facts: NodeFacts
  readonly findings: readonly Finding[]
  readonly notLooked: readonly NotLooked[]
  readonly selected: readonly Group[]
  readonly done: readonly string[]
}

const nameWidth = 15

export function reportText(report: Report, look: Look): string {
  const { facts, selected, done } = report
  const mended = done.length === 0 ? '' : `\n${done.map((text) => `  ${oneLine(text)}\n`).join('')}`
  const given = new Set<string>()
  const groups = selected.map((group) => groupText(group, report, { ...look, given })).join('')
  const pod = facts.pod === undefined ? '' : `${podText(facts.pod, facts.log ?? [], look.width)}\n`
  return `${headText(facts, look)}\n${pod}${groups}${mended}\n${countsText(report)}`
}

function headText({ configurations, state, notLooked }: NodeFacts, { width }: Look): string {
  const lines = configurations.map(({ runtime, file, network }) => {
    const uses = file === undefined ? 'uses nothing' : `uses ${file} (network ${network})`
    return `${runtime.text}: ${runtime.confDir}, by ${runtime.source}: ${uses}`
  })
  const pods = [...(state?.podsOf ?? [])].map(([network, count]) => `${count} of network ${network}`)
  const rows = lines.map((line) => `${rowsOf(oneLine(line), width).join('\n  ')}\n`)
  const isUnseen = notLooked.some(({ group, isPartial }) => group === 'network' && isPartial !== true)
  const isKnown = state === undefined ? !isUnseen : state.lacks.length === 0
  return `${rows.join('')}pods of trestle: ${pods.join(', ') || (isKnown ? 'none' : 'not known')}\n`
}

const notLookedAt = 'not looked at'

/** `given`: reasons that were printed above. */
function groupText(group: Group, { facts, findings, notLooked }: Report, look: Look & { given: Set<string> }): string {
  const own = findings.filter((finding) => finding.group === group)
  const skipped = notLooked.filter((each) => each.group === group)
  const counts =
    own.length > 0 ? painted(countsOf(own), worstOf(own), look) : skipped.length > 0 ? '' : painted('ok', 'ok', look)
  const why = skipped.map((each) => (look.given.has(each.why) ? 'as above' : oneLine(each.why)))
  for (const each of skipped) look.given.add(each.why)
  const texts = [counts, ...why.map((text) => `not looked at: ${text}`)].filter((text) => text !== '')
  const rows = rowsOf(texts.join('; '), Math.max(40, look.width - nameWidth))
  const text = rows.join(`\n${' '.repeat(nameWidth)}`).replaceAll(notLookedAt, (words) => painted(words, 'skip', look))
  const head = `${group.padEnd(nameWidth)}${text}\n`
  const steps = group === 'probe' ? stepsText(facts, look) : ''
  return `${head}${steps}${own.map((finding) => findingText(finding, look)).join('')}`
}

/** The probes of throw-away pods, the successful ones too. */
function stepsText({ probe }: NodeFacts, look: Look): string {
  const words = { ok: ['ok', 'ok'], failed: ['failed', 'error'], skipped: ['skipped', 'skip'] } as const
  const lines = (probe?.steps ?? []).map(({ what, outcome, detail = '' }) => {
    const [word, as] = words[outcome]
    const why = outcome === 'skipped' ? `: ${oneLine(detail)}` : ''
    const rows = rowsOf(`${what}${why}`, Math.max(40, look.width - 11))
    return `  ${painted(word.padEnd(7), as, look)}  ${rows.join(`\n${' '.repeat(11)}`)}\n`
  })
  return lines.join('')
}

const severities = ['error', 'warning', 'note'] as const

function worstOf(findings: readonly Finding[]): Severity {
  return severities.find((severity) => countOf(findings, severity) > 0) ?? 'note'
}

function countsOf(findings: readonly Finding[]): string {
  const counts = severities.map((severity) => ({ severity, count: countOf(findings, severity) }))
  return counts.flatMap(({ severity, count }) => (count === 0 ? [] : [counted(count, severity)])).join(', ')
}

type Counted = Pick<Report, 'findings' | 'notLooked' | 'selected'>

/** The last line: never silent on success. */
function countsText({ findings, notLooked, selected }: Counted): string {
  const skipped = new Set(notLooked.map(({ group }) => group)).size
  const more = skipped === 0 ? '' : `; not looked at, or not wholly: ${skipped} of ${selected.length} groups`
  return `${countsOf(findings) || 'nothing found'}${more}\n`
}

/** One line for a chat. */
export function shortText(report: Counted, versions: string): string {
  const { findings } = report
  const named = findings.filter(({ severity }) => severity !== 'note').map(({ id, on }) => `${id} (${oneLine(on)})`)
  const list = named.length === 0 ? '' : `: ${named.join(', ')}`
  return `${versions}; ${countsText(report).trimEnd()}${list}\n`
}

// The facts about a pod for people: a title for each kind, one line for each fact.

const titleWidth = 11

/** `width`: of the screen, in columns. */
function podText({ asked, sandboxes, attachments, names }: PodFacts, log: readonly LoggedError[], width: number) {
  const rows = (title: string, texts: readonly string[]) => rowsBehind(title, texts, width)
  const listed = sandboxes.map(({ id, isReady }) => `${id.slice(0, 13)} (${isReady ? 'ready' : 'not ready'})`)
  const hasFailed = log.some(({ id, pods }) => id === sandboxFailed && pods.some((name) => names.includes(name)))
  const why = hasFailed ? 'its ADD went well, its sandbox failed, and DEL followed' : 'no ADD of it went well here'
  const known = attachments.length === 0 ? [`no record of trestle, no result of libcni: ${why}`] : []
  return [
    `pod ${oneLine(asked)}\n`,
    rows('sandbox', listed),
    rows('network', known),
    ...attachments.map((each) => attachmentText(each, rows)),
  ].join('')
}

type Rows = (title: string, texts: readonly string[]) => string

function attachmentText(attachment: PodAttachment, rows: Rows): string {
  const { containerId, network, ifName, source, createdAt, pod } = attachment
  const since = createdAt === undefined ? '' : `, since ${createdAt}`
  const who = source === 'record' ? 'trestle' : 'another plugin, by the result that libcni keeps'
  const of = pod === undefined ? '' : ` of ${pod}`
  return [
    rows('network', [`${network}: ${ifName} of container ${containerId.slice(0, 13)}${of}, made by ${who}${since}`]),
    rows(
      'namespace',
      [attachment.netns].filter((text) => text !== ''),
    ),
    rows('link', attachment.links),
    rows('address', attachment.addresses),
    rows('route', attachment.routes),
    rows('host port', attachment.hostPorts),
    rows('rule', attachment.rules),
    rows('differs', attachment.differences),
    rows('cleanup', attachment.pendingCleanup),
  ].join('')
}

function rowsBehind(title: string, texts: readonly string[], width: number): string {
  const indent = ' '.repeat(titleWidth + 2)
  const lines = texts.map((text, at) => {
    const broken = rowsOf(oneLine(text), Math.max(40, width - indent.length)).join(`\n${indent}`)
    return `  ${(at === 0 ? title : '').padEnd(titleWidth)}${broken}\n`
  })
  return lines.join('')
}
