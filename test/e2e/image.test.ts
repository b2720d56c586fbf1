// SPDX-License-Identifier: Apache-2.0
// `npm run image`: the same bytes each time, and an image that a real containerd imports and runs, with the programs that
// the agent starts.
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Lab, missingParts, openContainerdLab, peers, pluginType, prepareLab } from './lab/lab.ts'

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
const name = `localhost/trestle:${version}`
const parts = ['bin/containerd', 'bin/containerd-shim-runc-v2', 'bin/ctr', 'bin/runc', 'cni/loopback', 'images/lab.tar']
const missing = missingParts(parts, 'cni containerd')
const scratch = mkdtempSync(join(tmpdir(), 'trestle-image-'))
const isArchiveThere = !execaSync('apt-get', ['-q', 'download', 'dash'], { cwd: scratch, reject: false }).failed
if (!isArchiveThere) console.warn("skipped, missing: Debian's archive (apt-get download)")
afterAll(() => rmSync(scratch, { recursive: true }))

function image(file: string, ...more: readonly string[]): string {
  const out = join(scratch, file)
  execaSync(process.execPath, ['scripts/image.mjs', '--out', out, ...more])
  return out
}

it.skipIf(!isArchiveThere)('two builds of the image have the same bytes', () => {
  const sums = ['one.tar', 'two.tar'].map((file) =>
    createHash('sha256')
      .update(readFileSync(image(file, '--executable', '/usr/bin/env')))
      .digest('hex'),
  )
  expect(sums[0]).toBe(sums[1])
})

describe.skipIf(!isArchiveThere || missing.length > 0 || pluginType !== 'trestle')('the image in containerd', () => {
  let lab: Lab
  let ctr: (...words: readonly string[]) => Promise<string>
  beforeAll(async () => {
    lab = await openContainerdLab(await prepareLab({}))
    const { stdout } = await lab.run('stat', ['-fc', '%T', lab.dir])
    // As containerd-up.sh chooses it.
    const snapshotter = ['--snapshotter', stdout.trim() === 'overlayfs' ? 'native' : 'overlayfs']
    const env = { PATH: `${join(peers, 'bin')}:${process.env['PATH']}` }
    ctr = async (...words) => {
      const args = ['--address', join(lab.dir, 'containerd.sock'), '--namespace', 'k8s.io', ...words]
      const ran = await lab.run(join(peers, 'bin/ctr'), args, { env })
      expect(ran.exitCode, `ctr ${words.join(' ')}: ${ran.stdout}${ran.stderr}`).toBe(0)
      return ran.stdout
    }
    await ctr('images', 'import', ...snapshotter, image('whole.tar'))
    const run = ctr
    ctr = (...words) => (words[0] === 'run' ? run('run', ...snapshotter, ...words.slice(1)) : run(...words))
  })
  afterAll(() => lab?.close())

  it('has the name that the manifest uses', async () => {
    const names = (await ctr('images', 'list', '--quiet')).split('\n')
    expect(names).toContain(name)
    // As install.yaml of a release names it.
    expect(names).toContainEqual(expect.stringMatching(/^localhost\/trestle@sha256:[0-9a-f]{64}$/))
    const kustomization = readFileSync('conf-examples/kubernetes/kustomization.yaml', 'utf8')
    expect(kustomization).toContain(`name: localhost/trestle\n    newTag: ${version}`)
  })

  it('runs trestle', async () => {
    const shown = await ctr('run', '--rm', '--read-only', name, 'version', '/usr/local/bin/trestle', 'version')
    expect(shown).toMatch(new RegExp(`^trestle ${version}`))
  })

  it('has every program that the agent starts, with its libraries', async () => {
    const versions = [
      ...['ip -V', 'tc -V', 'bridge -V', 'nft --version', 'nsenter --version', 'lsns --version', 'sysctl --version'],
      ...['conntrack --version', 'iptables-nft --version', 'ip6tables-nft --version'],
      ...['iptables-nft -m conntrack --help', 'iptables-nft -m comment --help'],
    ]
    const script = versions.map((line) => `${line} >/dev/null || echo "failed: ${line}"`).join('; ')
    expect(await ctr('run', '--rm', name, 'programs', '/bin/sh', '-c', script)).toBe('')
  })
})
