// SPDX-License-Identifier: Apache-2.0
// The format of a record: JSON lines, the first of them a header. docs/record.schema.json is generated from it
// (test/unit/cli/record/schema.test.ts compares both).

import { z } from 'zod'
import { recordVersion } from './document.ts'

const text = z.string()
const variables = z.record(z.string(), text)

const header = z
  .looseObject({
    type: z.literal('header'),
    version: z.literal(recordVersion),
    id: z.string().regex(/^[\w.-]{1,80}$/),
    time: text.describe('start of the call, ISO 8601, UTC'),
    by: text.describe('the program that wrote the record'),
    kernel: text.optional(),
    secrets: z.literal('masked').describe('each secret has become ***'),
  })
  .describe('the first line')

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
    isNetnsAbsent: z.literal(true).optional().describe('nothing was at the path of netns'),
    env: variables.describe('the six CNI_ variables of the specification, PATH and those of OpenTelemetry'),
    otherEnv: z.array(text).describe('the other variables, by name only'),
    stdin: text.optional(),
    stdinCut: z.int().optional().describe('characters of stdin that are left out'),
    wraps: text.optional().describe('record.wrap: the plugin that answered'),
    answers: z.literal(true).optional().describe('record.answer: the configuration gave the answer'),
  })
  .describe('the call as it was made')

const exec = z
  .looseObject({
    type: z.literal('exec'),
    argv: z.array(text).min(1),
    env: variables.optional().describe('of another plugin: the CNI_ variables'),
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

const link = z.looseObject({ ifname: text })

const isOfDead = z.literal(true).optional().describe("a record of an attachment whose pod's namespace is gone")
const stateText = z.strictObject({ text, isOfDead })
const stateLink = z.strictObject({ sameAs: text.describe('this file is a hard link to that one') })

const nodeWorld = z
  .looseObject({
    type: z.literal('world'),
    of: z.literal('node'),
    links: z
      .array(
        z.looseObject({
          name: text,
          mtu: z.int().optional(),
          isBridge: z.literal(true).optional(),
          isUplink: z.literal(true).optional().describe('has a default route'),
          isDown: z.literal(true).optional(),
          addresses: z.array(text),
        }),
      )
      .describe('uplinks and bridges'),
    state: z
      .record(text, z.union([stateText, stateLink]))
      .describe('files below the state directory, of the network and of reserved host ports'),
    isStateWhole: z.boolean(),
  })
  .describe('the node around the call: before it, or for a kept failure after it')

const podWorld = z
  .looseObject({
    type: z.literal('world'),
    of: z.literal('pod'),
    links: z.array(link).describe('as `ip -j -d address show` prints them'),
    before: z
      .array(text)
      .optional()
      .describe('its links before the call of a wrapped plugin, which may have made the others'),
    routes: z.array(z.looseObject({})).describe('as `ip -j route show table all` prints them, IPv4 and IPv6'),
  })
  .describe("the pod's network namespace after a failed ADD")

export const lineSchema = z.union([header, call, exec, result, nodeWorld, podWorld])

export type Header = z.infer<typeof header>
export type CallLine = z.infer<typeof call>
export type ExecLine = z.infer<typeof exec>
export type ResultLine = z.infer<typeof result>
export type NodeWorld = z.infer<typeof nodeWorld>
export type PodWorld = z.infer<typeof podWorld>
export type Line = z.infer<typeof lineSchema>

/** The JSON Schema of docs/record.schema.json: of one line. */
export function publishedRecordSchema(): unknown {
  return {
    ...z.toJSONSchema(lineSchema, { target: 'draft-2020-12' }),
    title: 'a line of a record of trestle',
    description: 'JSON lines: a header, the node, the call, its processes, the result, and the pod of a failed ADD',
  }
}
