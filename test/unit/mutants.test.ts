// SPDX-License-Identifier: Apache-2.0
// The tables of mutants say what is in the tree: a text that has moved on, or a test that has another name, is found
// here and not by a run of an hour.

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Mutant } from '../mutants/mutant.ts'

const root = new URL('../../', import.meta.url).pathname
const folder = join(root, 'test/mutants')
const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.ts') && name !== 'mutant.ts',
)
const tables = await Promise.all(
  names.map(async (name) => {
    const { mutants } = (await import(join(folder, name))) as { mutants: readonly Mutant[] }
    return { name, mutants }
  }),
)
const all = tables.flatMap(({ name, mutants }) => mutants.map((mutant) => ({ table: name, ...mutant })))

describe('test/mutants', () => {
  it('has two mutants a table or more, each with a name of its own', () => {
    expect(tables.filter(({ mutants }) => mutants.length < 2).map(({ name }) => name)).toEqual([])
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length)
  })

  it.each(all)('$table: $name', ({ file, find, replace, caughtBy }) => {
    expect(file).toMatch(/^src\/.*\.ts$/)
    expect(replace).not.toBe(find)
    expect(readFileSync(join(root, file), 'utf8').split(find).length - 1, `times that its text is in ${file}`).toBe(1)
    expect(caughtBy.file.startsWith(`test/${caughtBy.project}/`) && caughtBy.file.endsWith('.test.ts')).toBe(true)
    expect(caughtBy.test).not.toBe('')
    expect(textsOf(caughtBy.file).includes(caughtBy.test), `${caughtBy.file} names the test`).toBe(true)
  })
})

/** A test file's text, and that of the files of test/ that it imports: some take their tests' names from a table. */
function textsOf(file: string): string {
  const text = readFileSync(join(root, file), 'utf8')
  const imported = [...text.matchAll(/ from '(\.[^']+)'/g)].map(([, path = '']) => join(dirname(file), path))
  const tests = imported.filter((path) => path.startsWith('test/'))
  return [text, ...tests.map((path) => readFileSync(join(root, path), 'utf8'))].join('\n')
}
