// SPDX-License-Identifier: Apache-2.0
// Directories of configurations: which file each runtime uses, and a finding for each reason why it uses no other.

import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { choicesText } from '../../../../src/commands/lint/choice.ts'
import { lintDirectory } from '../../../../src/commands/lint/directory.ts'
import { openPrograms } from '../../../../src/commands/lint/programs.ts'
import type { NodeRuntime } from '../../../../src/commands/runtimes/node-runtimes.ts'
import { runCli } from '../../../support/collect.ts'
import { idsNamedIn } from '../../../support/ids.ts'

const list = (name: string, type = 'trestle', more: object = {}) =>
  JSON.stringify({ cniVersion: '1.1.0', name, plugins: [{ type, ...more }] })
const single = (name: string, type = 'trestle') => JSON.stringify({ cniVersion: '1.1.0', name, type })
const broken = '{"name": "half", "plu'

let root: string
let dir: string
beforeEach(() => {
  root = mkdtempSync(`${tmpdir()}/trestle-lint-`)
  dir = join(root, 'net.d')
  mkdirSync(join(root, 'bin'))
  mkdirSync(dir)
  for (const name of ['trestle', 'portmap']) {
    const text = `#!/bin/sh\necho '{"cniVersion":"1.1.0","supportedVersions":["0.3.1","1.0.0","1.1.0"]}'\n`
    writeFileSync(join(root, 'bin', name), text)
    chmodSync(join(root, 'bin', name), 0o755)
  }
})
afterEach(() => rmSync(root, { recursive: true }))

/** Writes the files and looks: who uses what, and findings about the directory as `id file`. */
function look(files: Readonly<Record<string, string>>, binDir = join(root, 'bin')) {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    writeFileSync(join(dir, name), text)
  }
  const { findings, prediction } = lintDirectory(dir, openPrograms([binDir]))
  const about = findings.map(({ id, on }) => `${id} ${on.slice(dir.length + 1)}`.trim())
  const uses = prediction === undefined ? [] : choicesText(prediction).trim().split('\n')
  return { about, uses: uses.map((line) => line.replaceAll(root, '')) }
}

describe('the plugin that containerd calls by itself', () => {
  const reader = (runtime: 'containerd' | 'CRI-O', more: object = {}): NodeRuntime => ({
    runtime,
    socket: '/run/runtime.sock',
    settings: { confDir: dir, binDirs: [join(root, 'bin')], ...more },
    source: 'CRI Status',
  })
  const found = (...readers: readonly NodeRuntime[]) =>
    lintDirectory(dir, openPrograms([join(root, 'bin')]), readers).findings

  it('is missing, where containerd is to use a file', () => {
    expect(found(reader('containerd')).map(({ id }) => id)).toEqual(['dir-empty'])
    writeFileSync(join(dir, '10-a.conflist'), list('a'))
    expect(found(reader('containerd'))).toMatchObject([
      { id: 'loopback-plugin-missing', severity: 'error', on: dir, cure: `ln -s trestle ${root}/bin/loopback` },
    ])
  })

  it('is there, under the name of trestle; or containerd has its own, or CRI-O is the runtime', () => {
    writeFileSync(join(dir, '10-a.conflist'), list('a'))
    expect(found(reader('containerd', { hasInternalLoopback: true }))).toEqual([])
    expect(found(reader('CRI-O'))).toEqual([])
    symlinkSync('trestle', join(root, 'bin/loopback'))
    expect(found(reader('containerd'))).toEqual([])
  })
})

describe('which file a runtime uses (cni#258: the wrong file is chosen)', () => {
  it('one file: all of them use it, and nothing is found', () => {
    expect(look({ '10-a.conflist': list('a') })).toEqual({
      about: [],
      uses: [
        'containerd uses 10-a.conflist (network a)',
        'CRI-O uses 10-a.conflist (network a)',
        'cnitool a uses 10-a.conflist (network a)',
      ],
    })
  })

  it('the first in the order of bytes: 10- before 9-, Z before a, whatever the extension', () => {
    const { about, uses } = look({ '9-b.conf': single('b'), '10-a.json': single('a'), 'Z.conflist': list('z') })
    expect(uses.slice(0, 2)).toEqual(['containerd uses 10-a.json (network a)', 'CRI-O uses 10-a.json (network a)'])
    expect(about).toEqual(['sorted-later 9-b.conf', 'sorted-later Z.conflist'])
  })

  it('a .conf beside the .conflist of the same network: cnitool takes the list, the others the first', () => {
    const { about, uses } = look({ '10-a.conf': single('a'), '10-a.conflist': list('a') })
    expect(uses).toEqual([
      'containerd uses 10-a.conf (network a)',
      'CRI-O uses 10-a.conf (network a)',
      'cnitool a uses 10-a.conflist (network a)',
    ])
    expect(about).toEqual(['sorted-later 10-a.conflist', 'same-network 10-a.conflist'])
  })

  it('a broken file behind them is a second cause: both are told', () => {
    const files = { '10-a.conf': single('a'), '10-a.conflist': list('a'), '20-b.conflist': broken }
    expect(look(files).about).toEqual([
      'json-syntax 20-b.conflist',
      'sorted-later 10-a.conflist',
      'same-network 10-a.conflist',
    ])
  })

  it('leftovers of editors and of other plugins are named', () => {
    const { about } = look({ '10-a.conflist': list('a'), '05-b.conflist.bak': list('b'), '.10-a.conflist.swp': '' })
    expect(about).toEqual(['wrong-extension .10-a.conflist.swp', 'wrong-extension 05-b.conflist.bak'])
  })

  it('a broken file that comes first: containerd stops, CRI-O and cnitool do not agree', () => {
    const { about, uses } = look({ '05-b.conflist': broken, '10-a.conflist': list('a') })
    expect(uses).toEqual([
      'containerd uses nothing: 05-b.conflist: it is not JSON',
      'CRI-O uses 10-a.conflist (network a)',
      'CRI-O skips 05-b.conflist: it is not JSON',
      'cnitool a uses nothing: 05-b.conflist: it is not JSON',
    ])
    // One cause, one finding: what follows from it is in the lines above.
    expect(about).toEqual(['json-syntax 05-b.conflist'])
  })

  it('a broken file that comes later stops nobody', () => {
    const { about, uses } = look({ '10-a.conflist': list('a'), '20-b.conflist': broken })
    expect(uses[0]).toBe('containerd uses 10-a.conflist (network a)')
    expect(about).toEqual(['json-syntax 20-b.conflist'])
  })

  it('a plugin that is missing: CRI-O goes on to the next file, containerd does not look', () => {
    const { about, uses } = look({ '05-b.conflist': list('b', 'absent'), '10-a.conflist': list('a') })
    expect(uses.slice(0, 3)).toEqual([
      'containerd uses 05-b.conflist (network b)',
      'CRI-O uses 10-a.conflist (network a)',
      expect.stringMatching(/^CRI-O skips 05-b\.conflist: there is no plugin "absent" in /),
    ])
    expect(about).toEqual(['plugin-missing 05-b.conflist'])
  })

  it('a network without a name is one for containerd and CRI-O, if it is no list', () => {
    const { uses } = look({ '10-a.conf': JSON.stringify({ cniVersion: '1.1.0', type: 'trestle' }) })
    expect(uses).toEqual([
      'containerd uses 10-a.conf (network without a name)',
      'CRI-O uses 10-a.conf (network 10-a.conf)',
    ])
  })
})

describe('why there is no network (containerd#11209: "cni plugin not initialized" without a reason)', () => {
  it.each<[string, Readonly<Record<string, string>>, string]>([
    ['no file', {}, 'dir-empty'],
    ['a wrong extension', { '10-a.conflist.disabled': list('a') }, 'dir-empty'],
    ['an empty file', { '10-a.conflist': '' }, 'file-empty 10-a.conflist'],
    ['half a file', { '10-a.conflist': broken }, 'json-syntax 10-a.conflist'],
    ['no plugins', { '10-a.conflist': '{"cniVersion":"1.1.0","name":"a"}' }, 'plugins-missing 10-a.conflist'],
    ['a list in a .conf', { '10-a.conf': list('a') }, 'list-in-conf 10-a.conf'],
    ['no name', { '10-a.conflist': '{"plugins":[{"type":"trestle"}]}' }, 'name-missing 10-a.conflist'],
    ['no type', { '10-a.conflist': '{"name":"a","plugins":[{}]}' }, 'type-missing 10-a.conflist'],
  ])('%s', (_, files, id) => {
    const { about, uses } = look(files)
    expect(about).toContain(id)
    expect(uses[0]).toMatch(/^containerd uses nothing/)
  })

  it('a file that cannot be read', () => {
    symlinkSync('/nonexistent/target', join(dir, '10-a.conflist'))
    mkdirSync(join(root, 'folder'))
    symlinkSync(join(root, 'folder'), join(dir, '20-b.conflist'))
    symlinkSync('/dev/zero', join(dir, '30-c.conf'))
    const { about, uses } = look({})
    const unreadable = ['10-a.conflist', '20-b.conflist', '30-c.conf'].map((name) => `file-unreadable ${name}`)
    expect(about).toEqual(expect.arrayContaining(unreadable))
    expect(uses[0]).toBe('containerd uses nothing: 10-a.conflist: it is a link to nothing')
  })

  it('no directory, or no directory at its place', async () => {
    const about = (name: string) => lintDirectory(name, openPrograms([dir])).findings.map(({ id }) => id)
    expect(about(join(root, 'none'))).toEqual(['dir-missing'])
    expect(about(join(root, 'bin/trestle'))).toEqual(['dir-unreadable'])
    const codes = [join(root, 'none'), join(root, 'none.conf')].map(async (name) => (await runCli(['lint', name])).code)
    expect(await Promise.all(codes)).toEqual([3, 3])
  })

  it('no plugin (go-cni#133: the node is ready without its plugins)', () => {
    const { about, uses } = look({ '10-a.conflist': list('a', 'absent') })
    expect(about).toEqual(['plugin-missing 10-a.conflist'])
    expect(uses[0]).toBe('containerd uses 10-a.conflist (network a)')
    expect(look({}, '/nonexistent/bin').about).toContain('bin-dir-missing')
  })
})

it('a file that may not be read: nobody says what runtimes, which are root, make of it', async () => {
  // The one kind of file that even root may not read.
  symlinkSync('/proc/sys/net/ipv4/route/flush', join(dir, '10-a.conflist'))
  const { about, uses } = look({ '20-b.conflist': list('b') })
  expect([about, uses]).toEqual([['file-unreadable 10-a.conflist'], []])
  const { code, stdout } = await runCli(['lint', dir, '--bin-dir', join(root, 'bin')])
  expect(code).toBe(3)
  expect(stdout).toContain('permission denied [file-unreadable]')
})

it('names are printed with their control characters made visible', async () => {
  look({ '10-\x1b[31m.conflist': list('a\x1b[2J') })
  const { stdout } = await runCli(['lint', dir, '--bin-dir', join(root, 'bin')])
  expect(stdout).toContain('10-\\x1b[31m.conflist')
  expect(stdout).not.toMatch(/[\x00-\x08\x0b-\x1f]/)
})

it('folders below, as nerdctl has them: their files are read, and nobody chooses one', async () => {
  const files = { '10-a.conflist': list('a'), 'default/nerdctl-b.conflist': list('b'), 'k8s/c.conflist': broken }
  look({ ...files, 'default/nerdctl-a.conflist': list('c', 'trestle', { hairpin: 1 }), 'empty/readme': '' })
  const { json } = await runCli(['lint', dir, '--bin-dir', join(root, 'bin'), '-o', 'json'])
  const { files: read, findings } = json as { files: string[]; findings: { id: string; on: string }[] }
  expect(json).toMatchObject({ directories: [{ directory: dir, prediction: { crio: { file: '10-a.conflist' } } }] })
  expect(read.map((file) => file.slice(dir.length + 1))).toEqual([
    ...['10-a.conflist', 'default/nerdctl-a.conflist', 'default/nerdctl-b.conflist', 'k8s/c.conflist'],
  ])
  expect(findings.map(({ id, on }) => `${id} ${on.slice(dir.length + 1)}`)).toEqual([
    'unknown-key default/nerdctl-a.conflist',
    'json-syntax k8s/c.conflist',
  ])
})

it('is named by NETCONFPATH, and the directories of the plugins by CNI_PATH, as for cnitool', async () => {
  look({ '10-a.conflist': list('a', 'portmap') })
  vi.stubEnv('NETCONFPATH', dir)
  vi.stubEnv('CNI_PATH', `/nonexistent/bin:${join(root, 'bin')}`)
  try {
    const { stdout } = await runCli(['lint'])
    expect(stdout).toMatch(/^cnitool a uses 10-a\.conflist \(network a\)$/m)
    expect(stdout).not.toMatch(/plugin-missing|bin-dir-missing/)
    vi.stubEnv('CNI_PATH', '/nonexistent/bin')
    expect((await runCli(['lint'])).stdout).toContain('/nonexistent/bin is not there')
    // What is named goes before the environment.
    expect((await runCli(['lint', join(root, 'none'), '--bin-dir', dir])).stdout).toContain('[dir-missing]')
  } finally {
    vi.unstubAllEnvs()
  }
})

it('the report ends with who uses what, and JSON has the same', async () => {
  look({ '05-b.conflist': broken, '10-a.conflist': list('a') })
  const args = ['lint', dir, '--bin-dir', join(root, 'bin')]
  const { code, stdout } = await runCli(args)
  expect(code).toBe(1)
  expect(stdout).toMatch(
    /\ncontainerd uses nothing: .*\nCRI-O uses 10-a\.conflist \(network a\)\nCRI-O skips 05-b.*\ncnitool a .*\n\n/,
  )
  expect(stdout).toMatch(/\n1 error, 0 warnings, 0 notes in 2 files\n$/)
  const { json } = await runCli([...args, '-o', 'json'])
  expect(json).toMatchObject({
    runtimes: { containerd: { stoppedBy: '05-b.conflist' }, crio: { file: '10-a.conflist', network: 'a' } },
    exitCode: 1,
  })
})

it('has a test for every check of a directory', () => {
  const texts = ['directory', 'runtimes'].map((name) => readFileSync(`test/unit/cli/lint/${name}.test.ts`, 'utf8'))
  const ids = idsNamedIn('src/commands/lint/directory.ts')
  expect([...ids].filter((id) => !texts.join('').includes(`'${id}`))).toEqual([])
})
