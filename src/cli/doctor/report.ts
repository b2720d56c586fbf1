// SPDX-License-Identifier: Apache-2.0
// Findings as people read them: a line for each group, and below it what is wrong there, with what comes of it, why,
// and what to do. What is fine takes one line.

import { oneLine } from '../../cni/model/error.ts'
import type { Severity } from '../lint/checks/check-texts.ts'
import { rowsOf } from '../shell/rows.ts'
import type { Group } from './checks/check.ts'
import type { Finding } from './checks/finding.ts'
import type { NodeFacts, NotLooked } from './look/facts.ts'
import { podText } from './pod/pod-text.ts'

/** What the report is made of. `selected`: the groups that were asked for. */
export interface Report {
  readonly facts: NodeFacts
  readonly findings: readonly Finding[]
  readonly notLooked: readonly NotLooked[]
  readonly selected: readonly Group[]
  readonly done: readonly string[]
}

export interface Look {
  readonly hasColour: boolean
  /** Of the screen, in columns; commands are not broken. */
  readonly width: number
}

const colours: Readonly<Record<Severity | 'ok' | 'skip', number>> = {
  error: 31,
  warning: 33,
  note: 36,
  ok: 32,
  skip: 33,
}
const nameWidth = 15

/** The whole report. */
export function reportText(report: Report, look: Look): string {
  const { facts, selected, done } = report
  const mended = done.length === 0 ? '' : `\n${done.map((text) => `  ${oneLine(text)}\n`).join('')}`
  const given = new Set<string>()
  const groups = selected.map((group) => groupText(group, report, { ...look, given })).join('')
  const pod = facts.pod === undefined ? '' : `${podText(facts.pod, look.width)}\n`
  return `${headText(facts, look)}\n${pod}${groups}${mended}\n${countsText(report)}`
}

/** Who runs here, and what it uses. */
function headText({ configurations, state, notLooked }: NodeFacts, { width }: Look): string {
  const lines = configurations.map(({ runtime, file, network }) => {
    const uses = file === undefined ? 'uses nothing' : `uses ${file} (network ${network})`
    return `${runtime.text}: ${runtime.confDir}, by ${runtime.source}: ${uses}`
  })
  const pods = [...(state?.podsOf ?? [])].map(([network, count]) => `${count} of network ${network}`)
  const rows = lines.map((line) => `${rowsOf(oneLine(line), width).join('\n  ')}\n`)
  const isUnseen = notLooked.some(({ group, isPartial }) => group === 'network' && isPartial !== true)
  const isKnown = state === undefined ? !isUnseen : state.state.length === 0
  return `${rows.join('')}pods of trestle: ${pods.join(', ') || (isKnown ? 'none' : 'not known')}\n`
}

const notLookedAt = 'not looked at'

/** `given`: the reasons that stand above, each once. */
function groupText(group: Group, { facts, findings, notLooked }: Report, look: Look & { given: Set<string> }): string {
  const own = findings.filter((finding) => finding.group === group)
  const skipped = notLooked.filter((each) => each.group === group)
  const counts =
    own.length > 0 ? paint(countsOf(own), worstOf(own), look) : skipped.length > 0 ? '' : paint('ok', 'ok', look)
  const why = skipped.map((each) => (look.given.has(each.why) ? 'as above' : oneLine(each.why)))
  for (const each of skipped) look.given.add(each.why)
  const texts = [counts, ...why.map((text) => `not looked at: ${text}`)].filter((text) => text !== '')
  const rows = rowsOf(texts.join('; '), Math.max(40, look.width - nameWidth))
  const text = rows.join(`\n${' '.repeat(nameWidth)}`).replaceAll(notLookedAt, (words) => paint(words, 'skip', look))
  const head = `${group.padEnd(nameWidth)}${text}\n`
  const steps = group === 'probe' ? stepsText(facts, look) : ''
  return `${head}${steps}${own.map((finding) => findingText(finding, look)).join('')}`
}

/** What throw-away pods tried, also what went well. */
function stepsText({ probe }: NodeFacts, look: Look): string {
  const words = { ok: ['ok', 'ok'], failed: ['failed', 'error'], skipped: ['skipped', 'skip'] } as const
  const lines = (probe?.steps ?? []).map(({ what, outcome, detail = '' }) => {
    const [word, as] = words[outcome]
    const why = outcome === 'skipped' ? `: ${oneLine(detail)}` : ''
    const rows = rowsOf(`${what}${why}`, Math.max(40, look.width - 11))
    return `  ${paint(word.padEnd(7), as, look)}  ${rows.join(`\n${' '.repeat(11)}`)}\n`
  })
  return lines.join('')
}

function findingText({ id, severity, on, seen, consequence, cause, cure, run }: Finding, look: Look): string {
  const word = paint(severity.padEnd(7), severity, look)
  const rest = severity === 'note' ? [] : [`cause: ${cause}`, `cure:  ${cure}`]
  const lines = [`seen:  ${seen}`, ...(consequence === seen ? [] : [`so:    ${consequence}`]), ...rest]
  const command = run === undefined ? '' : `${run.trimEnd().replace(/^/gm, '             ')}\n`
  const rows = lines.map((line) => wrapped(oneLine(line), look.width))
  return `  ${word}  ${id}: ${oneLine(on)}\n${rows.join('')}${command}`
}

/** Broken between words, the rest below the text behind the title. */
function wrapped(line: string, width: number): string {
  const [title, text] = [line.slice(0, 7), line.slice(7)]
  const rows = rowsOf(text, Math.max(40, width - 18))
  return rows.map((row, at) => `           ${at === 0 ? title : ' '.repeat(7)}${row}\n`).join('')
}

function paint(text: string, as: keyof typeof colours, { hasColour }: Look): string {
  return hasColour ? `\x1b[${colours[as]}m${text}\x1b[0m` : text
}

function worstOf(findings: readonly Finding[]): Severity {
  const severities = findings.map(({ severity }) => severity)
  return severities.includes('error') ? 'error' : severities.includes('warning') ? 'warning' : 'note'
}

function countsOf(findings: readonly Finding[]): string {
  const count = (severity: Severity) => findings.filter((finding) => finding.severity === severity).length
  const some = (number: number, word: string) => (number === 0 ? [] : [`${number} ${word}${number === 1 ? '' : 's'}`])
  return [...some(count('error'), 'error'), ...some(count('warning'), 'warning'), ...some(count('note'), 'note')].join(
    ', ',
  )
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
