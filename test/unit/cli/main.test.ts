// SPDX-License-Identifier: Apache-2.0
// The frame: help, unknown words, exit codes, the two output formats.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commands } from '../../../src/commands/command-line.ts'
import { painted } from '../../../src/commands/findings.ts'
import { coloured, jsonText, standardOutput } from '../../../src/commands/output.ts'
import { runCli } from '../../support/collect.ts'

describe('help', () => {
  it.each([[[]], [['help']], [['--help']], [['-h']]])('%j names every command and exits 0', async (args) => {
    const { code, stdout, stderr } = await runCli(args)
    expect([code, stderr]).toEqual([0, ''])
    for (const { name } of commands) expect(stdout).toContain(`trestle ${name}`)
    expect(stdout).toContain('Examples:')
  })

  it.each(commands.map((command) => [command.name, command]))(
    'of %s has usage, options and examples',
    async (name, command) => {
      const { code, stdout } = await runCli([name, '--help'])
      expect(code).toBe(0)
      expect(stdout).toContain(`usage: trestle ${name}`)
      for (const example of command.examples) expect(stdout).toContain(example)
      expect((await runCli(['help', name])).stdout).toBe(stdout)
    },
  )

  it.each([[], ...commands.map(({ name }) => [name])])('%s fits a terminal of 120 columns', async (...names) => {
    const { stdout } = await runCli(['help', ...names])
    expect(stdout.split('\n').filter((line) => line.length > 120)).toEqual([])
  })

  it('hides what try starts inside its namespaces', async () => {
    expect((await runCli([])).stdout).not.toContain('__')
  })
})

describe('usage errors', () => {
  it.each([
    [['nonsense'], 'there is no command "nonsense"'],
    [['help', 'nonsense'], 'there is no command "nonsense"'],
    [['nonsense'], 'commands are try, lint,'],
    [['lnit'], 'did you mean "lint"?'],
    [['-o', 'yaml'], '"-o" is no command: the command comes first'],
    [['help', 'try', 'lint'], 'unexpected argument "lint"'],
    [['version', '--bogus'], 'there is no option "--bogus"; options are --output, --help'],
    [['gc', '--aply'], 'there is no option "--aply"; did you mean --apply?'],
    [['gc', '-x'], 'there is no option "-x"; options are --apply'],
    [['gc', '--apply=yes'], "Option '--apply' does not take an argument"],
    [['version', 'word'], 'unexpected argument "word"'],
    [['version', '-o', 'yaml'], '--output yaml: use text or json'],
    [['version', '-o'], 'argument missing'],
    [['completion', 'abc'], 'name a shell'],
  ])('%j exits 2 and says why on stderr', async (args, message) => {
    const { code, stdout, stderr } = await runCli(args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(message)
    expect(stderr).toContain('usage: trestle')
  })
})

describe('with -o json', () => {
  it.each([
    ['nonsense', '-o', 'json'],
    ['-o', 'json'],
    ['help', 'nonsense', '--output=json'],
    ['version', '--bogus', '-ojson'],
    ['version', 'word', '-o', 'json'],
    ['completion', 'abc', '--output', 'json'],
    ['lint', '--skip', 'abc', '-o', 'json'],
  ])('%j is one document with the exit code', async (...args) => {
    const { code, json, stderr } = await runCli(args)
    expect(code).toBe(2)
    expect(json).toMatchObject({ formatVersion: 1, error: { msg: expect.any(String) }, exitCode: 2 })
    expect(stderr).toContain('usage: trestle')
  })

  it.each([[['help']], [['--help']], [['gc', '--help']], [['help', 'gc']]])('%j is help as data', async (args) => {
    const { code, json, stderr } = await runCli([...args, '-o', 'json'])
    expect([code, stderr]).toEqual([0, ''])
    const gc = { name: 'gc', options: expect.objectContaining({ apply: expect.objectContaining({ type: 'boolean' }) }) }
    const all = expect.arrayContaining([expect.objectContaining(gc)])
    expect(json).toMatchObject({ formatVersion: 1, command: 'help', commands: all, exitCode: 0 })
  })
})

describe('what could not be looked at', () => {
  it.each([
    ['try', '/nonexistent/file.conflist'],
    ['plan', '/nonexistent/file.conflist'],
  ])('%s exits 3 in both formats', async (...args) => {
    const text = await runCli(args)
    expect(text).toMatchObject({ code: 3, stdout: '' })
    expect(text.stderr).toContain('there is no such file')
    const { code, json } = await runCli([...args, '-o', 'json'])
    expect(code).toBe(3)
    expect(json).toMatchObject({ formatVersion: 1, command: args[0], error: { code: 5 }, exitCode: 3 })
  })
})

describe('a file that is no configuration', () => {
  let directory: string
  beforeAll(() => {
    directory = mkdtempSync(`${tmpdir()}/trestle-main-`)
  })
  afterAll(() => rmSync(directory, { recursive: true }))

  it.each([
    ['an empty one', '', 'it is empty'],
    ['bytes', '\u0000\u0001', 'the text does not begin with { at line 1, column 1'],
    ['a text cut short', '{"name":"x"', 'the text ends too early at line 1, column 12'],
    ['a byte order mark', '\ufeff{}', 'a byte order mark'],
    ['a list', '[]', '[] is not an object'],
    ['no network', '{"name":""}', 'this is no network configuration: '],
  ])('%s: the error names it, and not stdin', async (_, text, problem) => {
    const file = `${directory}/net.conf`
    writeFileSync(file, text)
    for (const command of ['try', 'plan', 'convert']) {
      const { code, stdout, stderr } = await runCli([command, file])
      expect([code, stdout]).toEqual([3, ''])
      expect(stderr).toContain(`trestle: ${file}: `)
      expect(stderr).toContain(problem)
      expect(stderr).not.toMatch(/stdin|unmarshall/)
    }
  })

  it('a directory is said to be one', async () => {
    expect((await runCli(['plan', directory])).stderr).toBe(
      `trestle: cannot read ${directory}: a directory, where a file is needed [input-unreadable]\n` +
        '  name a file that is there, or run the command as root\n',
    )
  })

  it('of plan: a wrong key comes with the name of the file', async () => {
    const file = `${directory}/key.conf`
    writeFileSync(file, '{"cniVersion":"1.0.0","name":"n","type":"trestle","podcidr":"10.9.0.0/99"}')
    expect((await runCli(['plan', file])).stderr).toContain(`trestle: ${file}: podcidr: "10.9.0.0/99" is not a range`)
  })
})

describe('version', () => {
  it.each(['version', '--version', '-V'])('%s prints the versions', async (word) => {
    const { code, stdout } = await runCli([word])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^trestle \S+ \(\S+\), Node /)
    expect(stdout).toContain('1.1.0')
  })

  it('prints one document with -o json', async () => {
    const { code, json } = await runCli(['version', '-o', 'json'])
    expect(code).toBe(0)
    expect(json).toMatchObject({ formatVersion: 1, command: 'version', exitCode: 0 })
    expect(json).toMatchObject({ version: expect.any(String), cniVersions: expect.arrayContaining(['0.1.0', '1.1.0']) })
  })
})

it('uses no colour where stdout is no terminal, or NO_COLOR is set', () => {
  // The test's own stdout is a pipe or a file.
  expect(standardOutput({ NO_COLOR: '1' }).hasColour).toBe(false)
  expect(standardOutput({ TERM: 'dumb' }).hasColour).toBe(false)
})

describe('escape sequences in the names and values of others', () => {
  const title = '\u001b]0;owned\u0007\u009b2J'
  it('are shown as text, whether or not the output has colours', () => {
    const source = `import { standardOutput } from '${import.meta.dirname}/../../../src/commands/output.ts'
      standardOutput().out(${JSON.stringify(`${title}\n`)})`
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', source], { encoding: 'utf8' })
    expect(stdout, stderr).toBe('\\x1b]0;owned\\x07\\x9b2J\n')
    expect(coloured(`${painted(title, 'fail', { hasColour: true })}\n`)).toBe(
      '\u001b[31m\\x1b]0;owned\\x07\\x9b2J\u001b[39m\n',
    )
  })

  it('are escapes in a document, which has the same value', () => {
    const text = jsonText({ title, deleted: '\u007f' })
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/)
    expect(JSON.parse(text)).toEqual({ title, deleted: '\u007f' })
  })
})
