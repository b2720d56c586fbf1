// SPDX-License-Identifier: Apache-2.0
// The programs that `type` and `ipam.type` name, in a directory of scripts and broken files.

import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { lintText } from '../../../../src/commands/lint/file.ts'
import { openPrograms } from '../../../../src/commands/lint/programs.ts'

const answering = (...versions: string[]) =>
  `#!/bin/sh\necho '${JSON.stringify({ cniVersion: '1.1.0', supportedVersions: versions })}'\n`

let bin: string
beforeAll(() => {
  bin = mkdtempSync(`${tmpdir()}/trestle-lint-`)
  const install = (name: string, content: string, mode = 0o755) => {
    writeFileSync(join(bin, name), content)
    chmodSync(join(bin, name), mode)
  }
  install('trestle', answering('0.3.1', '1.0.0', '1.1.0'))
  install('host-local', answering('1.0.0', '1.1.0'))
  install('old', answering('0.3.1', '0.4.0'))
  install('silent', '#!/bin/sh\nexit 1\n')
  install('unmarked', answering('1.1.0'), 0o644)
  install('empty', '')
  install('lost', '#!/nonexistent/interpreter\n')
  mkdirSync(join(bin, 'folder'))
  symlinkSync('/nonexistent/target', join(bin, 'dangling'))
  symlinkSync('trestle', join(bin, 'pod-network'))
})
afterAll(() => rmSync(bin, { recursive: true }))

/** Findings about programs, as `id message`, of a list with this plugin. */
function lint(plugin: object, cniVersion = '1.1.0'): readonly string[] {
  const text = JSON.stringify({ cniVersion, name: 'n', plugins: [plugin] })
  return lintText('10-n.conflist', text, openPrograms([bin]))
    .findings.filter(({ id }) => /^plugin-|^bin-dir-missing$|-key$/.test(id))
    .map(({ id, message }) => `${id} ${message.replaceAll(bin, 'BIN')}`)
}

const cannotStart = 'cannot be started: it is no regular file, has no x in its mode, or its file system is noexec'

describe('a plugin that is missing or cannot be started (go-cni#133: the node is ready without its plugins)', () => {
  it.each([
    ['none', 'plugin-missing there is no plugin "none" in BIN'],
    ['tresle', 'plugin-missing there is no plugin "tresle" in BIN; did you mean "trestle"?'],
    ['../etc/passwd', 'plugin-missing "../etc/passwd" is no name of a plugin: it has a path'],
    ['dangling', 'plugin-missing there is no plugin "dangling" in BIN'],
    ['folder', `plugin-not-executable BIN/folder ${cannotStart}`],
    ['unmarked', `plugin-not-executable BIN/unmarked ${cannotStart}`],
    ['empty', 'plugin-version BIN/empty does not answer VERSION: status 0, no list of versions'],
    ['lost', 'plugin-version BIN/lost does not answer VERSION: spawnSync BIN/lost ENOENT'],
    ['silent', 'plugin-version BIN/silent does not answer VERSION: status 1, no list of versions'],
    ['old', 'plugin-version the plugin "old" does not support cniVersion 1.1.0'],
  ])('%s', (type, found) => expect(lint({ type })).toEqual([found]))

  it('as the IPAM plugin of another, and of trestle only where it is not in-process', () => {
    const ipam = { type: 'nobodys-ipam' }
    const missing = 'plugin-missing there is no plugin "nobodys-ipam" in BIN'
    expect(lint({ type: 'trestle', ipam })).toEqual([missing])
    expect(lint({ type: 'host-local', ipam })).toEqual([missing])
    expect(lint({ type: 'trestle', ipam: { type: 'static', addresses: [{ address: '10.1.0.2/24' }] } })).toEqual([])
  })
})

describe('a plugin', () => {
  it('that is there and speaks the version is no finding', () => {
    expect(lint({ type: 'trestle', podcidr: '10.240.0.0/24' })).toEqual([])
    expect(lint({ type: 'old' }, '0.4.0')).toEqual([])
  })

  it('that is trestle under another name has the keys of trestle', () => {
    expect(lint({ type: 'pod-network', podcidr: '10.240.0.0/24', hairpinMod: true })).toEqual([
      'unknown-key trestle has no key plugins[0].hairpinMod; did you mean "hairpinMode"?',
    ])
    expect(lint({ type: 'pod-network', ipam: { type: 'pod-network', subnet: '10.240.0.0/24' } })).toEqual([])
  })

  it('is not looked for where there is no directory', () => {
    const text = JSON.stringify({ cniVersion: '1.1.0', name: 'n', plugins: [{ type: 'none' }] })
    const { findings } = lintText('n.conflist', text, openPrograms(['/nonexistent/bin']))
    expect(findings.map(({ id }) => id)).toEqual(['bin-dir-missing'])
  })
})
