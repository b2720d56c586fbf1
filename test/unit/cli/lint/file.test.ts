// SPDX-License-Identifier: Apache-2.0
// Each finding about a file, from a file that has it: the id, the place and the words.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, expect, it } from 'vitest'
import type { Finding } from '../../../../src/commands/findings.ts'
import { lintText } from '../../../../src/commands/lint/file.ts'
import { openPrograms } from '../../../../src/commands/lint/programs.ts'
import { runCli } from '../../../support/collect.ts'
import { idsNamedIn, idsOfFamily } from '../../../support/ids.ts'
import { cases } from './file-cases.ts'

/** No directory of plugins: types are not looked at. */
const nowhere = openPrograms(['/nonexistent/bin'])

/** Findings as `id TOKEN message`, TOKEN being what is at the place, without the one about the directory. */
function lint(text: string, file = '10-x.conflist'): readonly string[] {
  const { findings } = lintText(file, text, nowhere)
  return findings
    .filter(({ id }) => id !== 'bin-dir-missing')
    .map((finding) => `${finding.id} ${tokenAt(text, finding)} ${finding.message}`)
}

function tokenAt(text: string, { line, column }: Finding): string {
  if (line === undefined || column === undefined) return '-'
  const rest = text
    .split('\n')
    .slice(line - 1)
    .join('\n')
    .slice(column - 1)
  return /^(?:"[^"]*"|[^\s,:\]}]+|.)/.exec(rest)?.[0] ?? 'end'
}

describe('lint of a file', () => {
  const named = cases.map(([title, text, found, file]) => ({ title, text, found, file }))
  it.each(named)('$title', ({ text, found, file }) => expect(lint(text, file)).toEqual(found))

  it('has a file for every check that needs no program', () => {
    const seen = new Set(cases.flatMap(([, , found]) => found.map((each) => each.split(' ')[0])))
    // Of a directory, and of programs: these have tests of their own.
    const elsewhere = idsNamedIn('src/commands/lint/{directory,programs}.ts')
    const missing = idsOfFamily('lint').filter((id) => !seen.has(id) && !elsewhere.has(id))
    expect(missing).toEqual([])
  })
})

describe('trestle lint FILE', () => {
  it.each(['podcidr-demo.conf', 'pod-network.conflist', 'everything.conflist', 'ptp-dns.conflist'])(
    '%s has no error',
    async (name) => {
      const { code, stdout } = await runCli(['lint', `conf-examples/${name}`, '--bin-dir', '/nonexistent/bin'])
      expect(code, stdout).toBe(0)
      expect(stdout).toMatch(/\n0 errors, 1 warning, \d notes? in 1 file\n$/)
    },
  )

  it('prints place, caret, cause and cure, and exits 1 in both formats', async () => {
    const args = ['lint', 'test/unit/cli/lint/trailing-comma.conflist', '--skip', 'bin-dir-missing']
    const { code, stdout } = await runCli([...args, '--bin-dir', '/nonexistent/bin'])
    expect(code).toBe(1)
    expect(stdout).toBe(readFileSync('test/unit/cli/lint/trailing-comma.txt', 'utf8'))
    const asJson = await runCli([...args, '--bin-dir', '/nonexistent/bin', '-o', 'json'])
    expect(asJson).toMatchObject({ code: 1, json: { formatVersion: 1, command: 'lint', counts: { errors: 1 } } })
    expect(asJson.json).toMatchObject({
      findings: [{ id: 'json-syntax', severity: 'error', line: 5, column: 54, cause: expect.any(String) }],
    })
  })

  it('shows 100 findings of a file, and refuses one that is no configuration by its size', async () => {
    const directory = mkdtempSync(`${tmpdir()}/trestle-large-`)
    try {
      const file = `${directory}/net.conflist`
      const lint = async (count: number) => {
        const keys = Object.fromEntries(Array.from({ length: count }, (_, at) => [`unknown${at}`, at]))
        const plugins = [{ type: 'trestle', bridge: 'cni0', ...keys }]
        writeFileSync(file, JSON.stringify({ cniVersion: '1.0.0', name: 'a', plugins }))
        return await runCli(['lint', file, '--bin-dir', '/nonexistent/bin'])
      }
      expect((await lint(150)).stdout).toMatch(/: 50 more findings are not shown[\s\S]*\n0 errors, 102 warnings/)
      const { code, stderr } = await lint(100_000)
      expect(code).toBe(3)
      expect(stderr).toContain('net.conflist has more than 1048576 characters')
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  it('waits for no writer of a pipe with a name', async () => {
    const directory = mkdtempSync(`${tmpdir()}/trestle-pipe-`)
    try {
      execFileSync('mkfifo', [`${directory}/net.conf`])
      const { code, stderr } = await runCli(['lint', `${directory}/net.conf`, '--bin-dir', '/nonexistent/bin'])
      expect(code).toBe(3)
      expect(stderr).toContain('net.conf: a named pipe; pass the text on standard input, with -')
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  it('with --strict a warning makes exit code 1', async () => {
    const args = ['lint', 'conf-examples/pod-network.conflist', '--bin-dir', '/nonexistent/bin']
    expect((await runCli(args)).code).toBe(0)
    expect((await runCli([...args, '--strict'])).code).toBe(1)
  })

  it('--skip leaves findings out, and a wrong id is a usage error', async () => {
    const args = ['lint', 'test/unit/cli/lint/trailing-comma.conflist', '--bin-dir', '/nonexistent/bin']
    expect(await runCli([...args, '--skip', 'json-syntax,bin-dir-missing'])).toMatchObject({
      code: 0,
      stdout: '0 errors, 0 warnings, 0 notes in 1 file\n',
    })
    const { stderr } = await runCli([...args, '--skip', 'json-syntx'])
    expect(stderr).toContain('did you mean "json-syntax"?')
  })
})
