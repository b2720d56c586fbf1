// SPDX-License-Identifier: Apache-2.0
// The walls of src/: imports go one way, the inner layers are pure, files are small and named for what
// they hold. Reads the sources as text.

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'

const src = new URL('../../src/', import.meta.url).pathname
const layers = ['cni', 'plan', 'compile', 'system', 'commands', 'main'] as const
const pure = ['cni', 'plan', 'compile']
const pureBuiltins = ['node:crypto', 'node:path']
const impure = /\basync\b|\bawait\b|\bDate\b|\bMath\.random\b|\bprocess[.[?]|\bsetTimeout\b|\bperformance\b/
const longest = 250

interface Source {
  readonly file: string
  readonly text: string
  readonly layer: string
  readonly imports: readonly string[]
}

const sources: readonly Source[] = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => {
    const text = readFileSync(join(src, file), 'utf8')
    return { file, text, layer: layerOf(file), imports: importsOf(text) }
  })

const offenders = (isWrong: (source: Source) => boolean) => sources.filter(isWrong).map(({ file }) => file)

describe('src/', () => {
  it('has every layer', () => {
    expect([...new Set(sources.map(({ layer }) => layer))].sort()).toEqual([...layers, 'cli'].sort())
  })

  it('imports one way: cni <- plan <- compile <- system <- commands <- main, and nobody imports cli', () => {
    const arrows = sources.flatMap(({ file, layer, imports }) =>
      imports
        .filter((path) => path.startsWith('.'))
        .map((path) => relative(src, join(src, dirname(file), path)))
        .filter((target) => !mayImport(layer, layerOf(target)))
        .map((target) => `${file} -> ${target}`),
    )
    expect(arrows).toEqual([])
  })

  it('imports only files that are there, by their name with .ts', () => {
    const known = new Set(sources.map(({ file }) => file))
    const unknown = sources.flatMap(({ file, imports }) =>
      imports
        .filter((path) => path.startsWith('.'))
        .map((path) => relative(src, join(src, dirname(file), path)))
        .filter((target) => !known.has(target))
        .map((target) => `${file} -> ${target}`),
    )
    expect(unknown).toEqual([])
  })

  it('keeps cni, plan and compile pure: no effects, no clock, no chance', () => {
    const effects = sources
      .filter(({ layer }) => pure.includes(layer))
      .flatMap(({ file, text, imports }) => [
        ...imports
          .filter((path) => path.startsWith('node:') && !pureBuiltins.includes(path))
          .map((path) => `${file}: ${path}`),
        ...codeLines(text)
          .filter((line) => impure.test(line))
          .map((line) => `${file}: ${line.trim()}`),
      ])
    expect(effects.filter((each) => !isTheEdge(each))).toEqual([])
  })

  it(`has no file over ${longest} lines`, () => {
    expect(offenders(({ text }) => text.split('\n').length - 1 > longest)).toEqual([])
  })

  it('says licence and purpose at the top of every file', () => {
    expect(offenders(({ text }) => !/^\/\/ SPDX-License-Identifier: Apache-2\.0\n\/\/ \S/.test(text))).toEqual([])
  })

  it('has no drawer for odds and ends, no barrel, no default export', () => {
    expect(offenders(({ file }) => /(^|\/)(utils?|helpers?|common|misc|types|index)(\.ts|\/)/.test(file))).toEqual([])
    expect(offenders(({ text }) => /^export (default|\* from)/m.test(text))).toEqual([])
  })

  it('switches no check off and leaves nothing for later', () => {
    expect(
      offenders(({ text }) =>
        /@ts-(ignore|expect-error|nocheck)|biome-ignore|\bas any\b|\b(TODO|FIXME|XXX)\b/.test(text),
      ),
    ).toEqual([])
  })
})

function layerOf(file: string): string {
  const slash = file.indexOf('/')
  return slash === -1 ? 'main' : file.slice(0, slash)
}

function mayImport(from: string, to: string): boolean {
  if (from === 'cli') return to !== 'main'
  const [a, b] = [layers.indexOf(from as never), layers.indexOf(to as never)]
  return to === from || (b !== -1 && b < a)
}

/** What is imported, types included: an arrow in the types is an arrow. */
function importsOf(text: string): readonly string[] {
  const found = text.matchAll(/^(?:import|export)\b[^'"]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm)
  return [...found].map((match) => match[1] ?? match[2] ?? match[3] ?? '')
}

/** Lines without comments and texts: what is said in an error message is no effect. */
function codeLines(text: string): readonly string[] {
  const bare = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g, "''")
  return bare.split('\n').map((line) => line.replace(/\/\/.*$/, ''))
}

/** dispatch.ts is the protocol edge: it waits for the verbs, which are asynchronous, and does nothing else. */
function isTheEdge(found: string): boolean {
  return /^cni\/dispatch\.ts: .*\b(async|await|Promise)\b/.test(found)
}
