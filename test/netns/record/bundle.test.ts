// SPDX-License-Identifier: Apache-2.0
// One archive for a bug report: every file of it is in its index, and no secret in any.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { expect, it } from 'vitest'
import { openHost } from '../../support/host.ts'
import { command } from '../../support/records.ts'
import { ringFiles } from '../../support/state-layout.ts'

it('has records, configuration, rules and an index, and no secrets; it replaces no file', () => {
  const host = openHost()
  const folder = mkdtempSync(`${tmpdir()}/trestle-bundle-`)
  try {
    const conf = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', podcidr: '10.95.0.0/24', token: 'CANARY' }
    mkdirSync('/etc/cni/net.d', { recursive: true })
    writeFileSync('/etc/cni/net.d/10-pods.conf', JSON.stringify(conf))
    expect(host.cni('ADD', conf, { netns: '/run/netns/none', args: 'IgnoreUnknown=1;PASSWORD=CANARY' }).code).toBe(1)
    const file = `${folder}/report.tar.gz`
    expect(command(host, 'bundle', file).code).toBe(0)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    execFileSync('tar', ['-xzf', file, '-C', folder, '--strip-components=1'])
    const index = readFileSync(`${folder}/INDEX`, 'utf8')
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.(?:txt|jsonl|conf)$/.test(name),
    )
    for (const name of names) expect(index).toContain(`${name}\n    `)
    const [kept = ''] = ringFiles(host, 'failures')
    expect(names).toEqual(
      expect.arrayContaining(['doctor.txt', 'nft.txt', 'net.d/10-pods.conf', `failures/${kept.replace(/.*\//, '')}`]),
    )
    expect(readFileSync(`${folder}/last.txt`, 'utf8')).toContain('ADD failed')
    expect(host.run('grep', ['-r', 'CANARY', folder]).stdout).toBe('')
    expect(command(host, 'bundle', file).code).toBe(3)
  } finally {
    rmSync('/etc/cni/net.d', { recursive: true })
    rmSync(folder, { recursive: true })
    host.close()
  }
}, 120_000)

it('has the configurations, whatever their names', () => {
  const host = openHost()
  const folder = mkdtempSync(`${tmpdir()}/trestle-bundle-`)
  try {
    mkdirSync('/etc/cni/net.d', { recursive: true })
    const long = `20-${'x'.repeat(70)}.conflist`
    writeFileSync(`/etc/cni/net.d/${long}`, '{"name":"long"}')
    expect(command(host, 'bundle', `${folder}/report.tar.gz`).code).toBe(0)
    const names = execFileSync('tar', ['-tzf', `${folder}/report.tar.gz`], { encoding: 'utf8' })
    expect(names).toMatch(new RegExp(`^trestle-bundle-[^/]+/net\\.d/${long}$`, 'm'))
  } finally {
    rmSync('/etc/cni/net.d', { recursive: true })
    rmSync(folder, { recursive: true })
    host.close()
  }
}, 120_000)
