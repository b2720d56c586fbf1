// SPDX-License-Identifier: Apache-2.0
// Files of public projects and issues: no error and no warning on a good one, the fault on a faulty one, and nothing else.

import { describe, expect, it } from 'vitest'
import { lintFile } from '../../../../src/commands/lint/attachments.ts'
import { lintText } from '../../../../src/commands/lint/file.ts'
import { openPrograms } from '../../../../src/commands/lint/programs.ts'
import { publicLists } from '../convert/public-lists.ts'
import { faultyFiles, goodFiles, type PublicFile } from './public-files.ts'

const nowhere = openPrograms(['/nonexistent/bin'])

/** Errors and warnings of the file itself. */
function idsOf({ name, text }: Pick<PublicFile, 'name' | 'text'>): readonly string[] {
  const lints = name.endsWith('.yaml') ? lintFile(name, text, nowhere) : [lintText(name, text, nowhere)]
  const findings = lints.flatMap((lint) => lint.findings)
  return findings.filter(({ severity, id }) => severity !== 'note' && id !== 'bin-dir-missing').map(({ id }) => id)
}

describe('files of public projects', () => {
  it.each(goodFiles)('nothing is wrong with $from', (file) => {
    expect(idsOf(file)).toEqual([])
  })

  const lists = publicLists.filter(({ warnings }) => !warnings.includes('bandwidth.runtimeConfig'))
  it.each(lists)('nothing is wrong with the list of $from', ({ plugins }) => {
    const text = JSON.stringify({ cniVersion: '1.0.0', name: 'net', plugins })
    expect(idsOf({ name: '10-net.conflist', text })).toEqual([])
  })

  it.each(faultyFiles)('the fault is found: $from', (file) => {
    expect(idsOf(file)).toEqual(file.found)
  })
})
