// SPDX-License-Identifier: Apache-2.0
// The format of a record: JSON lines, the first of them a header. docs/record.schema.json is generated from it
// (test/unit/cli/record/schema.test.ts compares both).

import { z } from 'zod'

/** The version of the format (src/recording/recorder.ts): a reader refuses a newer one. */
export const recordVersion = 1

const text = z.string()
const variables = z.record(z.string(), text)

const header = z
  .looseObject({
    type: z.literal('record'),
    formatVersion: z.literal(recordVersion),
    id: z.string().regex(/^[\w.-]{1,80}$/),
    startedAt: text.describe('start of the call, ISO 8601, UTC'),
    version: text.describe('of the trestle that wrote the record'),
    commit: text,
  })
  .describe('the first line; each secret of the others has become ***')

const call = z
  .looseObject({
    type: z.literal('call'),
    verb: text.describe('CNI_COMMAND'),
    program: text.describe('the executable that the runtime started'),
    network: text.optional(),
    containerId: text.optional(),
    ifName: text.optional(),
    netns: text.optional(),
    pod: z.strictObject({ namespace: text, name: text, uid: text.optional() }).optional(),
    env: variables.describe('the CNI_ variables, and PATH'),
    otherEnv: z.array(text).describe('the other variables, by name only'),
    stdin: text.optional(),
  })
  .describe('the call as it was made')

const exec = z
  .looseObject({
    type: z.literal('exec'),
    argv: z.array(text).min(1),
    netns: z.literal('pod').optional().describe('descriptor 3 is the network namespace of the pod'),
    stdin: text.optional(),
    stdout: text.optional(),
    stderr: text.optional(),
    exit: z.int().optional(),
    signal: text.optional(),
    failure: text.optional().describe('why trestle gave up on it'),
    startMs: z.number().describe('milliseconds after the start of the call'),
    ms: z.number().optional().describe('how long it took; absent: it was still at work'),
  })
  .describe('a process that the call ran, in the order of their starts')

const result = z
  .looseObject({
    type: z.literal('result'),
    exit: z.int(),
    stdout: text,
    stderr: text,
    ms: z.number().describe('of the whole call, milliseconds'),
    code: z.int().optional().describe('of the error'),
    msg: text.optional(),
  })
  .describe('the answer')

export const lineSchema = z.union([header, call, exec, result])

export type Header = z.infer<typeof header>
export type CallLine = z.infer<typeof call>
export type ExecLine = z.infer<typeof exec>
export type ResultLine = z.infer<typeof result>
export type Line = z.infer<typeof lineSchema>

/** The JSON Schema of docs/record.schema.json: of one line. */
export function publishedRecordSchema(): unknown {
  return {
    ...z.toJSONSchema(lineSchema, { target: 'draft-2020-12' }),
    title: 'a line of a record of trestle',
    description: 'JSON lines: a header, the call, its processes and the result',
  }
}
