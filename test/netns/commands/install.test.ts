// SPDX-License-Identifier: Apache-2.0
// `trestle install`: the executable and a configuration into the usual directories of a node without a runtime, which are
// empty here; what cannot work is said before anything is written; `uninstall` removes what was written.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { trestle } from '../../support/host.ts'

const binDir = '/opt/cni/bin'
const confDir = '/etc/cni/net.d'
const pods = { cniVersion: '1.1.0', name: 'pods', plugins: [{ type: 'trestle', podcidr: '10.77.0.0/24' }] }

describe('trestle install', () => {
  let node: ChildProcess
  beforeEach(async () => {
    const script = [
      'for dir in /etc /opt /var/lib /mnt; do mount -t tmpfs none $dir; done',
      `mkdir -p ${binDir} /mnt/release /var/lib/containers`,
      `cp '${trestle}' /mnt/release/trestle`,
      'echo ready; exec sleep 300',
    ]
    node = spawn('unshare', ['--mount', '--net', '--propagation', 'private', 'sh', '-ec', script.join('\n')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(node.stdout as NodeJS.ReadableStream, 'data')
    write('/mnt/pods.conflist', pods)
  })
  afterEach(async () => {
    const ended = once(node, 'exit')
    node.kill('SIGKILL')
    await ended
  })

  const run = (words: readonly string[], input = '') =>
    execaSync('nsenter', [`--target=${node.pid}`, '--mount', '--net', '--', ...words], {
      input,
      reject: false,
    })
  const write = (file: string, content: object | string) =>
    run(['tee', file], typeof content === 'string' ? content : JSON.stringify(content))
  const install = (...words: readonly string[]) => run(['/mnt/release/trestle', 'install', ...words])
  /** Every file below the directories that are written to, with its mode. */
  const files = () =>
    run(['find', '/etc', '/opt', '/var/lib', '-not', '-type', 'd', '-printf', '%m %p\n'])
      .stdout.split('\n')
      .filter(Boolean)
      .toSorted()
  const all = [`600 ${confDir}/10-pods.conflist`, '600 /var/lib/trestle/installed.json', `755 ${binDir}/trestle`]

  it('writes the executable and the configuration, again as an update, and uninstall removes both', () => {
    const dry = install('--dry-run', '/mnt/pods.conflist')
    expect(dry).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`to write  ${binDir}/trestle`) })
    expect(files()).toEqual([])
    const first = install('/mnt/pods.conflist')
    expect(first.stdout).toBe(
      [
        'no runtime answers on this node: these are the usual directories',
        `  written   ${binDir}/trestle`,
        `  written   ${confDir}/10-pods.conflist`,
        'containerd uses 10-pods.conflist (network pods)',
        'CRI-O uses 10-pods.conflist (network pods)',
        'cnitool pods uses 10-pods.conflist (network pods)',
      ].join('\n'),
    )
    expect(files()).toEqual(all)
    expect(run([`${binDir}/trestle`, 'lint']).exitCode).toBe(0)
    write('/mnt/pods.conflist', { ...pods, plugins: [{ type: 'trestle', podcidr: '10.78.0.0/24' }] })
    const update = install('/mnt/pods.conflist')
    const kept = `  the same  ${binDir}/trestle\n`
    expect(update).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining(`${kept}  written   ${confDir}/10-pods.conflist\n`),
    })
    expect(files()).toEqual(all)
    expect(run(['cat', `${confDir}/10-pods.conflist`]).stdout).toContain('10.78.0.0/24')
    // A file of somebody else stays.
    write(`${binDir}/other`, 'other')
    const removed = run(['/mnt/release/trestle', 'uninstall', '--apply'])
    expect(removed.stdout.split('\n').slice(0, 2)).toEqual([
      `  removed   file ${confDir}/10-pods.conflist`,
      `  removed   file ${binDir}/trestle`,
    ])
    expect(removed.exitCode).toBe(0)
    expect(files()).toEqual([`644 ${binDir}/other`])
  })

  it('shows what lint warns of, and says how an earlier file is replaced', () => {
    write('/mnt/pods.conflist', { ...pods, plugins: [{ ...pods.plugins[0], nonMasqueradeCIDR: ['10.0.0.0/8'] }] })
    const warned = install('/mnt/pods.conflist')
    expect(warned.stdout).toContain('did you mean "nonMasqueradeCIDRs"?')
    expect(warned.exitCode).toBe(0)
    run(['mv', '/mnt/pods.conflist', '/mnt/renamed.conflist'])
    const refused = install('/mnt/renamed.conflist')
    expect(refused.stdout).toContain(`an earlier install wrote ${confDir}/10-pods.conflist: call the new file`)
    expect(refused.exitCode).toBe(1)
  })

  it('updates the executable alone without a configuration', () => {
    write(`${binDir}/trestle`, 'an older one')
    expect(install()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`written   ${binDir}/trestle`) })
    expect(run([`${binDir}/trestle`, 'version']).stdout).toMatch(/^trestle /)
    const again = run([`${binDir}/trestle`, 'install', '-o', 'json'])
    expect(JSON.parse(again.stdout)).toMatchObject({ applied: true, files: [] })
  })

  it('leaves a link of a package alone', () => {
    run(['ln', '-s', '/mnt/release/trestle', `${binDir}/trestle`])
    expect(install('/mnt/pods.conflist').exitCode).toBe(0)
    run(['/mnt/release/trestle', 'uninstall', '--apply'])
    expect(files()).toEqual([`777 ${binDir}/trestle`])
  })

  it.each([
    [
      'what lint calls an error',
      () => write('/mnt/pods.conflist', '{"cniVersion":"1.1.0",}'),
      1,
      'pods.conflist:1:22: error',
    ],
    [
      'a plugin that is not there',
      () => write('/mnt/pods.conflist', { ...pods, plugins: [{ type: 'nobody' }] }),
      1,
      'nobody',
    ],
    [
      'another network that sorts before',
      () => [run(['mkdir', '-p', confDir]), write(`${confDir}/05-other.conf`, { ...pods.plugins[0], name: 'other' })],
      1,
      'containerd would use 05-other.conf, not 10-pods.conflist',
    ],
    [
      'a read-only directory',
      () => run(['mount', '-o', 'remount,ro', '/opt']),
      3,
      `${binDir} cannot be written to: it is read-only`,
    ],
    ['a full disk', () => run(['mount', '-o', 'remount,size=40m', '/opt']), 3, 'ENOSPC'],
    ['a file system that starts no programs', () => run(['mount', '-o', 'remount,noexec', '/opt']), 3, 'EACCES'],
    ['a file that is not there', () => run(['rm', '/mnt/pods.conflist']), 3, 'there is no such file'],
    ['a directory', () => run(['sh', '-c', 'rm /mnt/pods.conflist; mkdir /mnt/pods.conflist']), 3, 'directory'],
  ])('refuses %s, and leaves no half of a file', (_, make, code, text) => {
    make()
    const before = files()
    const { exitCode, stdout, stderr } = install('/mnt/pods.conflist')
    expect(`${stdout}${stderr}`).toContain(text)
    expect(exitCode).toBe(code)
    expect(files().filter((file) => !file.endsWith('installed.json'))).toEqual(before)
  })
})
