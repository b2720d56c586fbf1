// SPDX-License-Identifier: Apache-2.0
// trestle's own codes and ids (src/catalogue/errors.yaml), for `trestle explain` and docs/errors.md; a unit test
// compares that page with these tables.

import { type Diagnosis, diagnosis } from '../../catalogue/diagnosis.ts'
import { CniCode, type ErrorId, idsOfCode } from '../../cni/model/error-code.ts'

/** All codes, lowest first. */
export function errorCodes(): readonly Diagnosis[] {
  return Object.values(CniCode)
    .toSorted((a, b) => a - b)
    .map((code) => diagnosis(`code-${code}`))
}

/** All ids, by code. */
export function ownErrors(): readonly Diagnosis[] {
  const ids: readonly ErrorId[] = Object.values(idsOfCode).flat()
  return ids.map(diagnosis)
}

/** The tables of docs/errors.md: of codes and of ids, a row a line. */
export function errorTables(): readonly string[] {
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
