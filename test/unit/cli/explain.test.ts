// SPDX-License-Identifier: Apache-2.0
// The table of error codes: complete, and the same in docs/errors.md.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { type Diagnosis, diagnosis } from '../../../src/catalogue/diagnosis.ts'
import { Code } from '../../../src/cni/errors.ts'
import { errorCodes, ownErrors } from '../../../src/commands/explain/recognise.ts'
import { runCli } from '../../support/collect.ts'
import { idsOfFamily } from '../../support/ids.ts'

/** The tables of docs/errors.md: of codes and of ids, a row a line. */
function errorTables(): readonly string[] {
  const codes = errorCodes().map((each) => [each.code, each.meaning, ...advice(each)])
  const ids = ownErrors().map((each) => [each.id, each.code ?? 'its own', ...advice(each)])
  const table = (title: string, rows: readonly (readonly unknown[])[]) =>
    [`| ${title} | cause | what to do |`, '|---|---|---|---|', ...rows.map((row) => `| ${row.join(' | ')} |`)].join(
      '\n',
    )
  return [table('code | meaning', codes), table('id | code', ids)]
}

function advice({ causes, cure }: Diagnosis): readonly string[] {
  return [causes.join('; or '), cure]
}

it('explains every code', async () => {
  expect(errorCodes().map(({ code }) => code)).toEqual(Object.values(Code).sort((a, b) => a - b))
  for (const { code, meaning, causes, cure } of errorCodes()) {
    const { stdout } = await runCli(['explain', `${code}`])
    for (const text of [`${code}: ${meaning}`, ...causes, cure]) expect(stdout).toContain(text)
  }
})

it('has the tables of docs/errors.md', () => {
  for (const table of errorTables()) expect(readFileSync('docs/errors.md', 'utf8')).toContain(`\n${table}\n`)
})

it('exits 1 for a word that is not known, with what it may mean', async () => {
  const { code, stdout, stderr } = await runCli(['explain', 'pool-exhaustd'])
  expect([code, stderr]).toEqual([1, ''])
  expect(stdout).toMatch(/^"pool-exhaustd" is no error code .*: did you mean "pool-exhausted"\?\n$/)
  const { json } = await runCli(['explain', 'abc', '-o', 'json'])
  expect(json).toMatchObject({ command: 'explain', diagnoses: [], exitCode: 1 })
})

it('exits 1 for a code that is not ours, in both formats', async () => {
  expect((await runCli(['explain', '77'])).code).toBe(1)
  expect(await runCli(['explain', '77', '-o', 'json'])).toMatchObject({ code: 1, json: { diagnoses: [], exitCode: 1 } })
})

it('lists all codes with --codes', async () => {
  const { code, stdout } = await runCli(['explain', '--codes'])
  expect(code).toBe(0)
  expect(stdout.split('\n')).toHaveLength(errorCodes().length + 1)
})

it('explains every check of lint by its id', async () => {
  for (const { id, meaning, causes, cure } of idsOfFamily('lint').map(diagnosis)) {
    const { code, stdout } = await runCli(['explain', id])
    expect(code).toBe(0)
    for (const text of [id, meaning, ...causes, cure]) expect(stdout).toContain(text)
  }
  expect((await runCli(['explain', 'json-syntax', '-o', 'json'])).json).toMatchObject({
    diagnoses: [{ id: 'json-syntax', severity: 'error' }],
  })
  expect((await runCli(['explain', 'jsn-syntax'])).stdout).toContain('did you mean "json-syntax"?')
})
