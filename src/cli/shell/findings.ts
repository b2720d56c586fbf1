// SPDX-License-Identifier: Apache-2.0
// A finding of lint, doctor, explain or try: a diagnosis of the catalogue with its place and observation, as text and
// as JSON.

import { z } from 'zod'
import { type Diagnosis, diagnosis, isKnownError, type Severity } from '../../catalogue/diagnosis.ts'
import { defined } from '../../cni/model/defined.ts'
import { oneLine } from '../../cni/model/error.ts'
import { exitCode as exitCodes, type Input, UsageError } from './command.ts'
import { nearestWord } from './nearest-word.ts'
import { print, rowsOf } from './output.ts'

/** A diagnosis and its place. A key that is left out is as the diagnosis says. */
export type Found = Pick<Finding, 'id' | 'on' | 'message'> & { readonly [K in keyof Finding]?: Finding[K] | undefined }

/** The finding with the texts of its diagnosis. */
export function findingOf(found: Found): Finding {
  const { severity = 'error', group, meaning, causes, cure, run } = diagnosis(found.id)
  const ofDoctor = (found.group ?? group) === undefined ? {} : { group, consequence: meaning }
  return defined({ severity, ...ofDoctor, cause: causes.join('; or '), cure, run, ...defined(found) }) as Finding
}

/** A diagnosis as `-o json` has it; `cause`: all causes as one text. */
export function documentOf(about: Diagnosis): Readonly<Record<string, unknown>> {
  const { id, code, severity, group, meaning, causes, look, cure, run } = about
  const { program: who, findings: checks } = isKnownError(about) ? about : {}
  return { id, who, code, severity, group, meaning, cause: causes.join('; or '), causes, look, cure, run, checks }
}

/** `--list`: the diagnoses of a command's findings, a line each. */
export function listDiagnoses(input: Input, command: string, all: readonly Diagnosis[]): number {
  const lines = all.map(({ id, group, severity = 'error', meaning }) => {
    const place = group === undefined ? '' : `${group.padEnd(14)} `
    return `${place}${severity.padEnd(7)}  ${id.padEnd(26)}  ${meaning}\n`
  })
  return print(input, {
    command,
    document: { checks: all.map(documentOf) },
    text: lines.join(''),
    code: exitCodes.fine,
  })
}

/** The words of a comma-separated option. Throws UsageError for an unknown word, which would have no effect. */
export function wordsOf(option: string, value: string | boolean | undefined, known: readonly string[]) {
  const words = `${value ?? ''}`.split(',').filter((word) => word !== '')
  const wrong = words.find((word) => !known.includes(word))
  if (wrong === undefined) return words
  const meant = nearestWord(wrong, known)
  throw new UsageError(`--${option} ${wrong}: ${meant === undefined ? 'see --list' : `did you mean "${meant}"?`}`)
}

/** The layout of a text. `width`: in columns; commands stay on one line. */
export interface Look {
  readonly hasColour: boolean
  readonly width: number
}

const colours = { error: 31, warning: 33, note: 36, ok: 32, skip: 33, fail: 31 } as const

/** A word in the colour of its severity or outcome. */
export function painted(word: string, as: keyof typeof colours, { hasColour }: Pick<Look, 'hasColour'>): string {
  return hasColour ? `\x1b[${colours[as]}m${word}\x1b[0m` : word
}

/** A finding, its line break included: in a file as a compiler prints one, elsewhere below a group of the report. */
export function findingText(finding: Finding, look: Look): string {
  const { id, severity, on, message, consequence = message, cause, cure, run } = finding
  const advice = severity === 'note' ? [] : [`cause: ${cause}`, `cure:  ${cure}`]
  if (finding.file !== undefined) return `${placeText(finding, look)}${rowsText(advice, Number.POSITIVE_INFINITY, 7)}`
  const rows = [`seen:  ${message}`, ...(consequence === message ? [] : [`so:    ${consequence}`]), ...advice]
  const command = run === undefined ? '' : `${run.trimEnd().replace(/^/gm, '             ')}\n`
  const head = `  ${painted(severity.padEnd(7), severity, look)}  ${id}: ${oneLine(on)}\n`
  return `${head}${rowsText(rows, look.width, 11)}${command}`
}

function placeText({ id, severity, file, line, column, message, excerpt }: Finding, look: Look): string {
  const name = file === '-' ? '<stdin>' : oneLine(file ?? '')
  const place = line === undefined ? name : `${name}:${line}:${column}`
  const [above, below] = excerpt ?? []
  const lines = excerpt === undefined ? '' : `${`${line}`.padStart(6)} | ${above}\n${' '.repeat(6)} | ${below}\n`
  return `${place}: ${painted(severity, severity, look)}: ${oneLine(message)} [${id}]\n${lines}`
}

/** Each line broken between words; further rows stand below the text behind the title of seven columns. */
function rowsText(lines: readonly string[], width: number, indent: number): string {
  const broken = lines.map(oneLine).flatMap((line) => {
    const rows = rowsOf(line.slice(7), Math.max(40, width - indent - 7))
    return rows.map((row, at) => `${' '.repeat(indent)}${at === 0 ? line.slice(0, 7) : ' '.repeat(7)}${row}\n`)
  })
  return broken.join('')
}

/** The number of findings of a severity. */
export function countOf(findings: readonly Finding[], severity: Severity): number {
  return findings.filter((finding) => finding.severity === severity).length
}

/** A number with its word: `1 error`, `2 errors`. */
export function counted(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? '' : 's'}`
}

const text = z.string().min(1)

/** One finding of lint, doctor, explain or try. */
const findingSchema = z.strictObject({
  id: z
    .string()
    .regex(/^[a-z][a-z\d-]*$/)
    .describe('what was found; stays the same from release to release; `trestle explain ID` tells about it'),
  severity: z
    .enum(['error', 'warning', 'note'])
    .describe('error: something fails or will; warning: probably not what is meant; note: good to know'),
  on: text.describe('what it is about: a file, a link, a pod, a setting, the plugin that said it'),
  message: text.describe('what was seen, in one line'),
  cause: text.describe('why it comes, the likely cause first'),
  cure: text.describe('what to do'),
  run: text.optional().describe('a command line that does it, where one does'),
  file: text.optional().describe('lint: the file as it was named; - is standard input'),
  line: z.int().min(1).optional().describe('lint: from 1'),
  column: z.int().min(1).optional().describe('lint: from 1, in UTF-16 units'),
  excerpt: z.tuple([z.string(), z.string()]).optional().describe('lint: the line, and under it a caret at the column'),
  group: text.optional().describe('doctor: the group of the report'),
  seen: text.optional().describe('doctor: the same as message'),
  consequence: text.optional().describe('doctor: what comes of it'),
  role: z
    .enum(['cause', 'around', 'after'])
    .optional()
    .describe('explain: the cause, what passed it on, or what was said while cleaning up after it'),
  said: text.optional().describe('explain: the words of the text that were recognised'),
})

/** The document of any command. Further keys belong to the command. */
export const documentSchema = z
  .looseObject({
    formatVersion: z.literal(1),
    command: text.describe('the command that printed it'),
    exitCode: z.int().min(0).max(3).describe('0 fine, 1 findings, 2 usage, 3 could not look: as the process exits'),
    findings: z.array(findingSchema).optional().describe('lint, doctor, explain, try'),
    error: z
      .looseObject({ msg: text, code: z.int().optional(), details: z.string().optional() })
      .optional()
      .describe('why the command could not do its work (exit code 2 or 3)'),
  })
  .describe('What a command of trestle prints with -o json')

/** A finding of the published schema. */
export type Finding = z.infer<typeof findingSchema>

/** The JSON Schema of docs/findings.schema.json. */
export function publishedSchema(): unknown {
  return { ...z.toJSONSchema(documentSchema, { target: 'draft-2020-12' }), title: 'trestle -o json' }
}
