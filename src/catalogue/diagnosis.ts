// SPDX-License-Identifier: Apache-2.0
// What the catalogue (the YAML files beside) says of an error or a finding. The texts are read at the first question
// for one of them, the patterns at the first text in which errors are looked for.

import { builtFile } from './built-file.ts'

/** `error`: something will fail. `warning`: probably not what is meant. `note`: good to know. */
export type Severity = 'error' | 'warning' | 'note'

/** One error or finding, and what to make of it. */
export interface Diagnosis {
  /** Stable, and of one diagnosis only. */
  readonly id: string
  /** The name of the YAML file that has it. */
  readonly family: string
  readonly severity?: Severity
  readonly meaning: string
  /** The usual causes, the likely one first. */
  readonly causes: readonly string[]
  /** Commands to look with, to paste. */
  readonly look: readonly string[]
  readonly cure: string
  /** A command that cures it, to paste. */
  readonly run?: string
  /** The part of a report that has it. */
  readonly group?: string
  /** The number with which trestle answers. */
  readonly code?: number
}

/** An error that another program prints. */
export interface KnownError extends Diagnosis {
  /** The program, or programs, that print it. */
  readonly program: string
  /** Findings of `trestle lint` that go with it. */
  readonly findings?: readonly string[]
  /** `shared`: programs without pod networks print these words, too. `around`: the words quote another error. */
  readonly words?: 'shared' | 'around'
  /** trestle prints these words, too, and its code says more. */
  readonly alsoOurs?: true
}

/** The wordings of one error, each field the source of one regular expression. */
export interface Wordings {
  readonly id: string
  readonly pattern: string
  /** As people retell it: looked for where no error is known by its own wording. */
  readonly retold?: string
  /** A line with these words is about something else. */
  readonly unless?: string
}

let read: ReadonlyMap<string, Diagnosis> | undefined

/** All diagnoses by their ids, in the order of the files and of the records in each. */
export function diagnoses(): ReadonlyMap<string, Diagnosis> {
  read ??= new Map((JSON.parse(builtFile('diagnoses.json')) as Diagnosis[]).map((each) => [each.id, each]))
  return read
}

/** The diagnosis with this id. Throws where there is none: ids in the code are compared with the files by a test. */
export function diagnosis(id: string): Diagnosis {
  const found = diagnoses().get(id)
  if (found === undefined) throw new Error(`the catalogue has no diagnosis "${id}"`)
  return found
}

/** Whether an error of trestle has this id. */
export function isErrorId(id: string): boolean {
  const found = diagnoses().get(id)
  if (found === undefined || id === `code-${found.code}`) return false
  return found.family === 'errors' || found.code !== undefined
}

/** Whether a diagnosis is an error of another program. */
export function isKnownError(each: Diagnosis): each is KnownError {
  return 'program' in each
}

let wordingsRead: readonly Wordings[] | undefined

/** Errors of other programs by their wordings, in the catalogue's order. */
export function wordings(): readonly Wordings[] {
  wordingsRead ??= JSON.parse(builtFile('patterns.json')) as readonly Wordings[]
  return wordingsRead
}
