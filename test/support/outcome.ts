// SPDX-License-Identifier: Apache-2.0
// What a call may print (docs/design.md, "The verbs"): one JSON document for a result or an error, else nothing.

import { expect } from 'vitest'
import type { Finished, Host } from './host.ts'

/** Fails unless the call succeeded and printed nothing. */
export function expectSilent(finished: Finished): void {
  expect({ code: finished.code, stdout: finished.stdout }, finished.stderr).toEqual({ code: 0, stdout: '' })
}

/** Fails unless stdout is exactly one JSON document on a line of its own. */
export function expectOneDocument(finished: Finished): void {
  expect(finished.stdout).toMatch(/^\{.*\}\n$/)
  expect(finished.json, finished.stdout).toBeTypeOf('object')
}

/** Fails unless the call printed one error of this code, whose text holds `text` and whose message ends with an id. */
export function expectError(finished: Finished, code: number, text: string | RegExp = ''): void {
  expectOneDocument(finished)
  expect(finished.json, finished.stdout).toMatchObject({
    code,
    msg: expect.any(String),
    cniVersion: expect.any(String),
  })
  expect(finished.code).toBe(1)
  expect(`${finished.json?.msg}\n${finished.json?.details ?? ''}`).toMatch(text)
  expect(finished.json?.msg).toMatch(/^.* \[[a-z\d, -]+\]$/)
}

/** Runs the words of a command line in the host's namespace. Fails unless it ends with status 0. */
export function runLine({ run }: Pick<Host, 'run'>, line: string, input = ''): Finished {
  const [file = '', ...args] = line.trim().split(' ')
  const done = run(file, args, input)
  expect(done.code, `${line}: ${done.stderr}`).toBe(0)
  return done
}
