// SPDX-License-Identifier: Apache-2.0
// The format of a record: JSON lines, the first of them a header, then the call, its processes and the result.

import { z } from 'zod'

/** The version of the format (src/recording/recorder.ts): a reader refuses a newer one. */
export const recordVersion = 1

const text = z.string()
const variables = z.record(z.string(), text)

const header = z.looseObject({
  type: z.literal('record'),
  formatVersion: z.literal(recordVersion),
  id: z.string().regex(/^[\w.-]{1,80}$/),
  startedAt: text,
  version: text,
  commit: text,
})

const call = z.looseObject({
  type: z.literal('call'),
  verb: text,
  program: text,
  network: text.optional(),
  containerId: text.optional(),
  ifName: text.optional(),
  netns: text.optional(),
  pod: z.strictObject({ namespace: text, name: text, uid: text.optional() }).optional(),
  env: variables,
  otherEnv: z.array(text),
  stdin: text.optional(),
})

const exec = z.looseObject({
  type: z.literal('exec'),
  argv: z.array(text).min(1),
  netns: z.literal('pod').optional(),
  stdin: text.optional(),
  stdout: text.optional(),
  stderr: text.optional(),
  exit: z.int().optional(),
  signal: text.optional(),
  failure: text.optional(),
  startMs: z.number(),
  ms: z.number().optional(),
})

const result = z.looseObject({
  type: z.literal('result'),
  exit: z.int(),
  stdout: text,
  stderr: text,
  ms: z.number(),
  code: z.int().optional(),
  msg: text.optional(),
})

export const lineSchema = z.union([header, call, exec, result])

export type Header = z.infer<typeof header>
export type CallLine = z.infer<typeof call>
export type ExecLine = z.infer<typeof exec>
export type ResultLine = z.infer<typeof result>
export type Line = z.infer<typeof lineSchema>
