// SPDX-License-Identifier: Apache-2.0
// The command line run inside the test process, with what it prints collected.

import { run } from '../../src/commands/command-line.ts'
import { asPublished } from './published.ts'

/** What a command left. `json`: stdout parsed, undefined when it is no JSON. */
export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
  readonly json: unknown
}

/** Runs the words after the program's name. */
export async function runCli(args: readonly string[], options: { readonly hasColour?: boolean } = {}): Promise<Ran> {
  const texts = { stdout: '', stderr: '' }
  const out = (text: string) => {
    texts.stdout += text
  }
  const err = (text: string) => {
    texts.stderr += text
  }
  const code = await run(args, { out, err, hasColour: options.hasColour ?? false })
  return { code, ...texts, json: asPublished(parse(texts.stdout), code) }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
