// SPDX-License-Identifier: Apache-2.0
// The catalogue's files: each record whole, each id once, each pattern short, quick and with its source. A failure
// lists every record that is wrong.

import { expect, it } from 'vitest'
import * as z from 'zod/mini'
import { compile, readRecords } from '../../../src/catalogue/compile.ts'
import { diagnoses, diagnosis, isKnownError, wordings } from '../../../src/catalogue/diagnosis.ts'
import { hasNestedRepetition, slowestMs } from './repetition.ts'

const records = readRecords()
const printed = records.flatMap(({ id, patterns: all = [] }) =>
  all.flatMap(Object.values).map((pattern) => ({ id, pattern })),
)
const patterns = [
  ...printed,
  ...records.flatMap(({ id, retold = [], unless = [] }) => [...retold, ...unless].map((pattern) => ({ id, pattern }))),
]
const longest = 300

const text = z.string().check(z.regex(/^\S.*\S$/))
/** A repository, an issue of one, an address, or what the programs of our tests printed. */
const source = z.string().check(z.regex(/^(?:[\w.-]+(?:\/[\w.-]+)?(?:#\d+)?|https?:\/\/\S+|printed)$/))
const shared = {
  id: z.string().check(z.regex(/^[a-z\d]+(?:-[a-z\d]+)*$/)),
  family: text,
  meaning: text,
  causes: z.array(text).check(z.minLength(1)),
  look: z.optional(z.array(text)),
  cure: text,
  run: z.optional(text),
  severity: z.optional(z.enum(['error', 'warning', 'note'])),
  group: z.optional(text),
}
const ofOurs = z.strictObject({
  ...shared,
  code: z.optional(z.number()),
})
const ofOthers = z.strictObject({
  ...shared,
  program: text,
  findings: z.optional(z.array(text)),
  words: z.optional(z.enum(['shared', 'around'])),
  alsoOurs: z.optional(z.literal(true)),
  patterns: z.array(z.record(source, z.string())).check(z.minLength(1)),
  retold: z.optional(z.array(z.string())),
  unless: z.optional(z.array(z.string())),
})

const ids = (wrong: readonly { readonly id: string }[]) => [...new Set(wrong.map(({ id }) => id))]

it('has every field of every record, and no other', () => {
  const wrong = records.flatMap((record) => {
    const { error } = ('program' in record ? ofOthers : ofOurs).safeParse(record)
    return error === undefined ? [] : [`${record.id}: ${z.prettifyError(error)}`]
  })
  expect(wrong).toEqual([])
})

it('has each id once', () => {
  expect(ids(records.filter(({ id }, at) => records.findIndex((each) => each.id === id) !== at))).toEqual([])
})

it(`has no pattern of more than ${longest} characters, and none twice`, () => {
  expect(ids(patterns.filter(({ pattern }) => pattern.length > longest))).toEqual([])
  const seen = new Set<string>()
  expect(ids(printed.filter(({ pattern }) => seen.size === seen.add(pattern).size))).toEqual([])
})

it('has no pattern that repeats within a repetition, or takes long for its own words', () => {
  expect(patterns.filter(({ pattern }) => hasNestedRepetition(pattern))).toEqual([])
  expect(patterns.filter(({ pattern }) => slowestMs(pattern) > 100)).toEqual([])
})

it.each([
  ['(a+)+b', true],
  ['(?:a|[b)]{2,})*', true],
  ['((a+)b)+', true],
  ['(?:ab)+c+', false],
  ['(?:a{0,9})+', false],
  ['\\(a+\\)+', false],
])('%s is a repetition within a repetition: %s', (pattern, isNested) => {
  expect(hasNestedRepetition(pattern)).toBe(isNested)
})

it('is read by id, the patterns apart from the texts', () => {
  expect([...diagnoses().keys()]).toEqual(records.map(({ id }) => id))
  const known = [...diagnoses().values()].filter(isKnownError)
  expect(wordings().map(({ id }) => id)).toEqual(known.map(({ id }) => id))
  expect(compile()['diagnoses.json']).not.toMatch(/"(?:patterns|retold|unless)"/)
  expect(() => diagnosis('no-such-id')).toThrow('no-such-id')
})
