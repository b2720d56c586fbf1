// SPDX-License-Identifier: Apache-2.0
// The command that `trestle explain` gives for a full range of host-local, run as printed on a made-up node: a
// directory in place of /var/lib/cni/networks and a crictl that lists the pods of the test.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { diagnosis } from '../../../../src/catalogue/diagnosis.ts'
import { runCli } from '../../../support/collect.ts'

const clearHostLocal = diagnosis('host-local-full').run ?? ''
const old = new Date('2026-01-01')

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'host-local-'))
  mkdirSync(join(root, 'networks/cbr0'), { recursive: true })
})
afterEach(() => rmSync(root, { recursive: true }))

function reservation(name: string, text: string, time = old, network = 'cbr0'): void {
  const file = join(root, 'networks', network, name)
  writeFileSync(file, text)
  utimesSync(file, time, time)
}

/** What the command leaves when `crictl pods -q` prints `pods` and ends with `status`. */
function cleared(pods: string, status = 0): readonly string[] {
  const crictl = join(root, 'crictl')
  writeFileSync(crictl, `#!/bin/sh\n[ "$*" = "pods -q" ] || exit 9\nprintf '${pods}'\nexit ${status}\n`)
  chmodSync(crictl, 0o755)
  const command = clearHostLocal.replace('/var/lib/cni/networks/NETWORK', join(root, 'networks/cbr0'))
  execFileSync('sh', ['-c', `${command} || true`], { env: { PATH: `${root}:${process.env['PATH']}` } })
  return readdirSync(join(root, 'networks/cbr0')).sort()
}

describe('the command that clears leaked reservations of host-local', () => {
  it('is what explain prints', async () => {
    expect((await runCli(['explain', 'host-local-full'])).stdout).toContain(clearHostLocal)
  })

  it('removes those of pods that are not listed and those that a power cut emptied, and keeps the others', () => {
    reservation('10.1.2.2', 'aaaa\r\neth0')
    reservation('10.1.2.3', 'bbbb\r\neth0')
    reservation('10.1.2.4', '')
    reservation('fd00::5', 'cccc\r\neth0')
    reservation('10.1.2.6', 'aaa')
    reservation('10.1.2.7', 'dddd\r\neth0', new Date())
    reservation('last_reserved_ip.0', '10.1.2.4')
    reservation('lock', '')
    expect(cleared('aaaa\\nabcd\\n')).toEqual(['10.1.2.2', '10.1.2.7', 'last_reserved_ip.0', 'lock'])
  })

  it('leaves other networks of the directory alone', () => {
    mkdirSync(join(root, 'networks/nerdctl0'))
    reservation('10.4.0.2', 'default-bbbb\r\neth0', old, 'nerdctl0')
    reservation('10.1.2.3', 'bbbb\r\neth0')
    expect(cleared('aaaa\\n')).toEqual([])
    expect(readdirSync(join(root, 'networks/nerdctl0'))).toEqual(['10.4.0.2'])
  })

  it.each([
    ['fails', 'aaaa\\n', 1],
    ['lists nothing', '', 0],
  ])('removes nothing when crictl %s', (_, pods, status) => {
    reservation('10.1.2.3', 'bbbb\r\neth0')
    expect(cleared(pods, status)).toEqual(['10.1.2.3'])
  })
})
