// SPDX-License-Identifier: Apache-2.0
// The walls of src/: imports go one way between folders, and a file is known by its name alone. Reads the sources as text.

import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'

const src = new URL('../../src/', import.meta.url).pathname

/**
 * What runs below comes first: a file imports code of its own line and of those before. A line is a folder, or files that
 * are used below the rest of their folder. Types may come from anywhere: nothing of them runs.
 */
const order: readonly (readonly string[])[] = [
  ['cni/'],
  // What everything is called, and what was decided: plain data.
  ['drivers/spec.ts', 'drivers/names.ts'],
  ['kernel/'],
  ['process/clock.ts'],
  ['state/files.ts', 'state/layout.ts'],
  ['process/'],
  ['state/'],
  ['recording/'],
  ['features/'],
  ['ipam/'],
  ['config/'],
  ['drivers/'],
  ['verbs/'],
  // The edge of the protocol reads the configuration.
  ['cni/dispatch.ts'],
  ['snapshot/'],
  ['catalogue/'],
  ['commands/', 'agent/'],
  ['main.ts'],
]

interface Source {
  readonly file: string
  readonly text: string
  /** Files below src/ that run with this one, and what else is imported, types included. */
  readonly runs: readonly string[]
  readonly imports: readonly string[]
}

const sources: readonly Source[] = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .sort()
  .map((file) => {
    const text = readFileSync(join(src, file), 'utf8')
    return { file, text, ...importsOf(file, text) }
  })

const offenders = (isWrong: (source: Source) => boolean) => sources.filter(isWrong).map(({ file }) => file)

describe('src/', () => {
  it('has every line of the order, and no folder beside it', () => {
    const known = order.flat().filter((each) => each !== 'agent/')
    expect(known.filter((each) => !sources.some(({ file }) => file.startsWith(each)))).toEqual([])
    expect(offenders(({ file }) => placeOf(file) < 0)).toEqual([])
  })

  it('imports one way', () => {
    const arrows = sources.flatMap(({ file, runs }) =>
      runs
        .filter((target) => !target.startsWith('..') && placeOf(target) > placeOf(file))
        .map((target) => `${file} -> ${target}`),
    )
    expect(arrows).toEqual([])
  })

  it('has no circle of files by what runs: a table would be filled before a file that it names', () => {
    const arrows = new Map(sources.map(({ file, runs }) => [file, new Set(runs)]))
    expect([...arrows.keys()].flatMap((file) => wayBack(arrows, file))).toEqual([])
  })

  it('has no two files of one name, no index, no drawer for odds and ends, no default export', () => {
    const names = Map.groupBy(sources, ({ file }) => basename(file))
    expect([...names].filter(([, files]) => files.length > 1).map(([name]) => name)).toEqual([])
    expect(offenders(({ file }) => /(^|\/)(utils?|helpers?|common|misc|types|index)(\.ts|\/)/.test(file))).toEqual([])
    expect(offenders(({ text }) => /^export (default|\* from)/m.test(text))).toEqual([])
  })

  it('imports only files that are there', () => {
    const known = new Set(sources.map(({ file }) => file))
    const unknown = sources.flatMap(({ file, imports }) =>
      imports
        .filter((target) => target.endsWith('.ts') && !target.startsWith('..') && !known.has(target))
        .map((target) => `${file} -> ${target}`),
    )
    expect(unknown).toEqual([])
  })

  it('writes statements of nft in one folder, but for a rule in chains of others', () => {
    const statement =
      /(?<!nft )\b(?:add|insert|delete|flush|list) (?:table|chain|rule|set|map|element)\b(?! of)|\b[io]ifname @|\bct status\b/
    const files = offenders(({ text }) => textsOf(text).some((each) => statement.test(each)))
    expect(files.filter((file) => !file.startsWith('kernel/') && !file.startsWith('commands/'))).toEqual([
      'features/host-accept.ts',
    ])
  })

  it('has no character beyond Latin-1 in a regular expression: the build does not escape those', () => {
    const lines = sources.flatMap(({ file, text }) => {
      const code = text.replace(/\/\*[\s\S]*?\*\//g, '').split('\n')
      return code.map((line) => `${file}: ${line.replace(/\/\/ .*$/, '')}`)
    })
    expect(lines.filter((line) => /^\S+ .*\/.*[^\0-\xff].*\//.test(line))).toEqual([])
  })

  it('says licence and purpose at the top of every file', () => {
    expect(offenders(({ text }) => !/^\/\/ SPDX-License-Identifier: Apache-2\.0\n\/\/ \S/.test(text))).toEqual([])
  })

  it('switches no check off and leaves nothing for later', () => {
    const left = /@ts-(ignore|expect-error|nocheck)|biome-ignore|\bas any\b|\b(TODO|FIXME|XXX)\b/
    expect(offenders(({ text }) => left.test(text))).toEqual([])
  })
})

/** Where a file stands in the order: by its own name before its folder's. */
function placeOf(file: string): number {
  const own = order.findIndex((line) => line.includes(file))
  return own >= 0 ? own : order.findIndex((line) => line.some((each) => each.endsWith('/') && file.startsWith(each)))
}

function importsOf(file: string, text: string): Pick<Source, 'runs' | 'imports'> {
  const found = [...text.matchAll(/^(?:import|export)(?: (type))?(?: |$)([^'"]*?)(?:from )?'(\.{1,2}\/[^']+)'/gm)]
  const targets = found.map(([, type, names = '', path = '']) => {
    const named = /\{([^}]*)\}/
      .exec(names)?.[1]
      ?.split(',')
      .filter((name) => name.trim() !== '')
    const isType = type !== undefined || named?.every((name) => /^\s*type /.test(name)) === true
    return { target: join(dirname(file), path), isType }
  })
  const loaded = [...text.matchAll(/\bimport\('(\.[^']+)'\)/g)].map(([, path = '']) => join(dirname(file), path))
  return {
    runs: targets.filter(({ isType }) => !isType).map(({ target }) => target),
    imports: [...targets.map(({ target }) => target), ...loaded],
  }
}

/** A way from a file back to itself, or nothing. */
function wayBack(arrows: ReadonlyMap<string, ReadonlySet<string>>, from: string): readonly string[] {
  const seen = new Set<string>()
  const ways = [...(arrows.get(from) ?? [])].map((to) => [from, to])
  for (let way = ways.shift(); way; way = ways.shift()) {
    const last = way.at(-1) ?? ''
    if (last === from) return [way.join(' -> ')]
    if (seen.has(last)) continue
    seen.add(last)
    for (const to of arrows.get(last) ?? []) ways.push([...way, to])
  }
  return []
}

/** Texts of the code, without their quotes; none of comments. */
function textsOf(text: string): readonly string[] {
  const found = text.matchAll(/\/\*[\s\S]*?\*\/|\/\/.*|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g)
  return [...found].flatMap((match) => match[1] ?? match[2] ?? [])
}
