// SPDX-License-Identifier: Apache-2.0
// The document of `-o json`, with one shape of findings for all commands. docs/findings.schema.json is generated from
// it (test/unit/cli/document-schema.test.ts compares both).

import { z } from 'zod'

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

export type Finding = z.infer<typeof findingSchema>

/** The JSON Schema of docs/findings.schema.json. */
export function publishedSchema(): unknown {
  return { ...z.toJSONSchema(documentSchema, { target: 'draft-2020-12' }), title: 'trestle -o json' }
}
