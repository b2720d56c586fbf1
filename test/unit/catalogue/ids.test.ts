// SPDX-License-Identifier: Apache-2.0
// Ids in the code and ids of the catalogue: each finding and error of trestle has its record, and each record of these
// is found or thrown somewhere.

import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { diagnoses } from '../../../src/catalogue/diagnosis.ts'
import { Code } from '../../../src/cni/errors.ts'
import { idsNamedIn, idsOfFamily } from '../../support/ids.ts'

it.each(['lint', 'doctor'])('every finding of %s is found somewhere', (family) => {
  // A probe that fails has the id of its target.
  const probes = globSync('src/commands/{doctor,probe}/*.ts').map((file) => readFileSync(file, 'utf8'))
  const targets = probes.flatMap((text) => [...text.matchAll(/'([a-z-]+)'/g)].map(([, target]) => target))
  const named = new Set([...idsNamedIn('src/commands/**/*.ts'), ...targets.map((target) => `probe-${target}`)])
  expect(idsOfFamily(family).filter((id) => !named.has(id))).toEqual([])
})

it('every finding that is made has its record', () => {
  const files = globSync('src/commands/{lint,doctor,probe}/*.ts')
  const made = files.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/\bid: '([^']+)'/g)].map(([, id = '']) => ({ file, id })),
  )
  expect(made.length).toBeGreaterThan(50)
  expect(made.filter(({ id }) => !diagnoses().has(id))).toEqual([])
})

it('every code of trestle has its record, and every error the code that it is thrown with', () => {
  const codes = idsOfFamily('errors').filter((id) => id.startsWith('code-'))
  expect(codes).toEqual(
    Object.values(Code)
      .toSorted((a, b) => a - b)
      .map((code) => `code-${code}`),
  )
  const texts = globSync('src/**/*.ts').map((file) => readFileSync(file, 'utf8'))
  const thrown = texts.flatMap((text) => [...text.matchAll(/new CniError\(\s*Code\.(\w+),\s*'([a-z][a-z\d-]+)'/g)])
  expect(thrown.length).toBeGreaterThan(40)
  // The code of another plugin's error is its own.
  const wrong = thrown.filter(([, name, id = '']) => {
    const code = diagnoses().get(id)?.code
    return code !== undefined && code !== Code[name as keyof typeof Code]
  })
  expect(wrong.map(([text]) => text)).toEqual([])
})

it('every error that the core throws has its record', () => {
  const texts = globSync('src/**/*.ts').map((file) => readFileSync(file, 'utf8'))
  const thrown = texts.flatMap((text) => [
    ...[...text.matchAll(/new CniError\(\s*[^,]+,\s*'([a-z][a-z\d-]+)'/g)].map(([, id = '']) => id),
    ...[...text.matchAll(/\bid: '([a-z][a-z\d]*(?:-[a-z\d]+)+)'/g)].map(([, id = '']) => id),
  ])
  expect(thrown.length).toBeGreaterThan(80)
  expect([...new Set(thrown)].filter((id) => !diagnoses().has(id))).toEqual([])
})
