// SPDX-License-Identifier: Apache-2.0
// Inputs that once went wrong, or are close to what did: test/corpus has one a file, replayed before anything new is
// tried. The name says what it is. `NAME=VALUE` lines are the environment, an empty line ends them, the rest is stdin.

import { readdirSync, readFileSync } from 'node:fs'

const directory = 'test/corpus'

/** A call as bytes. */
export interface RawCall {
  readonly name: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: Buffer
}

/** Every file of the corpus, by name. */
export function readCorpus(): readonly RawCall[] {
  return readdirSync(directory)
    .sort()
    .map((name) => ({ name, ...parse(readFileSync(`${directory}/${name}`)) }))
}

/** A call as a file of the corpus, for a test to print what it found: base64, since it may hold any byte. */
export function corpusText({ env, stdin }: RawCall): string {
  return Buffer.concat([Buffer.from(`${linesOf(env)}\n`), stdin]).toString('base64')
}

function linesOf(env: RawCall['env']): string {
  return Object.entries(env)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('')
}

function parse(file: Buffer): Omit<RawCall, 'name'> {
  const end = file.indexOf('\n\n')
  const lines = file.subarray(0, end).toString('utf8').split('\n')
  const env = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
  return { env, stdin: file.subarray(end + 2) }
}
