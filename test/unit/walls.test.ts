// SPDX-License-Identifier: Apache-2.0
// The walls of src/: imports go one way, the inner layers are pure, files are named for what they hold.
// Reads the sources as text.

import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'

const src = new URL('../../src-before/', import.meta.url).pathname
const layers = [
  ...(['cni', 'model', 'features', 'config', 'drivers', 'plan', 'tools'] as const),
  ...(['system', 'commands', 'snapshot', 'main'] as const),
] as const
const pure: readonly string[] = layers.slice(0, layers.indexOf('system'))
const pureBuiltins = ['node:crypto', 'node:path', 'node:util']
/** A built-in module that is loaded when it is needed counts as an import, and as nothing else. */
const impure =
  /\basync\b|\bawait\b|\bDate\b|\bMath\.random\b|\bprocess(?!\.getBuiltinModule\(''\))[.[?]|\bsetTimeout\b|\bperformance\b/
/** Statements, expressions, types and the separator of fields of nft(8). */
const nftText = new RegExp(
  [
    /\b(?:add|insert|delete|flush|list|destroy|replace) (?:table|chains?|rule(?:set)?|set|map|element)\b/,
    /\b(?:[io]ifname|iifkind|ip6? [sd]addr|ct (?:state|status)|meta (?:mark|l4proto|nfproto)|th dport|vmap|fib [sd]addr)\b/,
    /\btype (?:filter|nat) hook\b|\b(?:ipv[46]_addr|inet_service|inet_proto|ether_addr)\b|^ \. $|\} \. \$\{|^goto \$\{/,
  ]
    .map(({ source }) => source)
    .join('|'),
)
/** A mode compared with the name of one. */
const modeByName = /\b\w*mode(?:'\])?\)* [!=]== '(?:bridge|ptp|chained|loopback|macvlan)'/i
/** Columns. The formatter breaks code only: no comment, no text. */
const widest = 120

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
    expect([...new Set(sources.map(({ layer }) => layer))].sort()).toEqual([...layers, 'catalogue', 'cli'].sort())
  })

  it('imports one way, from later layers to earlier ones, and cli alone imports catalogue', () => {
    const arrows = sources.flatMap(({ file, layer, imports }) =>
      imports
        .filter((path) => path.startsWith('.'))
        .map((path) => relative(src, join(src, dirname(file), path)))
        .filter((target) => !mayImport(layer, layerOf(target)))
        .map((target) => `${file} -> ${target}`),
    )
    expect(arrows).toEqual([])
  })

  it('has no circle between rooms, the folders inside a layer', () => {
    const arrows = new Map<string, Set<string>>()
    for (const { file, imports } of sources)
      for (const path of imports.filter((each) => each.startsWith('.'))) {
        const [from, to] = [dirname(file), dirname(relative(src, join(src, dirname(file), path)))]
        // main.ts is a door, no room: what is behind it is asked for by each.
        if (from !== to && from !== '.' && to !== '.') arrows.set(from, (arrows.get(from) ?? new Set()).add(to))
      }
    expect([...arrows.keys()].flatMap((room) => wayBack(arrows, room))).toEqual([])
  })

  it('has no circle of files by what runs: a table would be filled before a file that it names', () => {
    const valueImport = /^import (?!type )(?:\{([^}]*)\}|[^'{]*)(?: from )?'(\.[^']+)'/gm
    const isValue = (names?: string) => names?.split(',').some((name) => /^\s*(?!type )\w/.test(name)) ?? true
    const arrows = new Map(
      sources
        .filter(({ layer }) => layer !== 'cli')
        .map(({ file, text }) => {
          const found = [...text.matchAll(valueImport)].filter(([, names]) => isValue(names))
          return [file, new Set(found.map(([, , path = '']) => join(dirname(file), path)))] as const
        }),
    )
    expect([...arrows.keys()].flatMap((file) => wayBack(arrows, file))).toEqual([])
  })

  it('imports only files that are there, by their name with .ts, or data as .json', () => {
    const data = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.json'))
    const known = new Set([...sources.map(({ file }) => file), ...data])
    const unknown = sources.flatMap(({ file, imports }) =>
      imports
        .filter((path) => path.startsWith('.'))
        .map((path) => relative(src, join(src, dirname(file), path)))
        .filter((target) => !known.has(target))
        .map((target) => `${file} -> ${target}`),
    )
    expect(unknown).toEqual([])
  })

  it('names only files that are there in comments', () => {
    const names = new Set(sources.map(({ file }) => basename(file)))
    const named = sources.flatMap(({ file, text }) =>
      [...text.matchAll(/^\s*(?:\/\/|\/?\*).*$/gm)].flatMap(([line]) =>
        [...line.matchAll(/(?<![\w.-])[\w-]+\.ts\b/g)].map(([name]) => `${file}: ${name}`),
      ),
    )
    expect(named.length).toBeGreaterThan(50)
    expect(named.filter((each) => !names.has(each.split(': ')[1] ?? ''))).toEqual([])
  })

  it('keeps the layers before system pure: no effects, no clock, no chance', () => {
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
    expect(effects).toEqual([])
  })

  it('writes nft in one file and reads it beside: port-conditions.ts has the language of a key, explain cites others', () => {
    const files = offenders(({ text }) => textsOf(text).some((each) => nftText.test(each)))
    expect(files.filter((file) => !file.startsWith('cli/explain/known/')).sort()).toEqual([
      'cli/doctor/rule-matches.ts',
      'features/port-conditions.ts',
      'tools/foreign-nft.ts',
      'tools/nft.ts',
    ])
  })

  it('asks for a mode by its name in few places: the configuration, loopback without a driver, the text of lint', () => {
    const files = offenders(({ text }) => modeByName.test(text.replace(/^ *(?:\/\/|\*).*$/gm, '')))
    expect(files).toEqual([
      ...['config/config.ts', 'cli/lint/file.ts', 'cli/plan/assume.ts', 'cli/plan/plan.ts'],
      ...['commands/verbs/check.ts', 'commands/verbs/status.ts'],
    ])
  })

  it('tells the family of an address in one place', () => {
    expect(offenders(({ text }) => text.includes("includes(':')"))).toEqual(['cni/address.ts'])
  })

  it('has no character beyond Latin-1 in a regular expression: the build does not escape those', () => {
    const found = sources.flatMap(({ file, text }) =>
      codeLines(text)
        .filter((line) => /\/.*[^\0-\xff].*\//.test(line))
        .map((line) => `${file}: ${line.trim()}`),
    )
    expect(found).toEqual([])
  })

  it(`has no line over ${widest} columns, but rows of tables and regular expressions`, () => {
    const map = { file: 'README.md', text: readFileSync(join(src, 'README.md'), 'utf8') }
    const wide = [...sources, map].flatMap(({ file, text }) =>
      text
        .split('\n')
        .map((line, at) => ({ line, place: `${file}:${at + 1}` }))
        .filter(({ line }) => line.length > widest && !(file === map.file ? line.startsWith('|') : isPattern(line)))
        .map(({ place }) => place),
    )
    expect(wide).toEqual([])
  })

  it('says licence and purpose at the top of every file', () => {
    expect(offenders(({ text }) => !/^\/\/ SPDX-License-Identifier: Apache-2\.0\n\/\/ \S/.test(text))).toEqual([])
  })

  it('compares the id of a plan or stage with no text: a story decides by states, and by the stages that it made', () => {
    const compared =
      /\b(?:id|plan\.id|stage\.id)\)?\s*(?:[!=]==|\.startsWith\(|\.includes\()\s*['"`]|switch \([\w.]*\bid\)/
    const ordering = ({ file }: Source) => /^(?:plan\/order|commands|system\/kernel)\//.test(file)
    expect(offenders((source) => ordering(source) && compared.test(source.text))).toEqual([])
    expect(compared.test("if (last.plan.id === 'usual')")).toBe(true)
  })

  it('exports no function and no constant that nobody imports', () => {
    const used = new Set(['test', 'scripts', 'src'].flatMap((top) => namesImportedBelow(join(src, '..', top))))
    // What the executable starts: the build names them (build.mjs, system/process/executable.ts).
    const entries = ['cli/main.ts main', 'cli/agent/main.ts main']
    const unused = sources.flatMap(({ file, text }) =>
      [...text.matchAll(/^export (?:async )?(?:function\*?|const|class) (\w+)/gm)]
        .map(([, name]) => `${file} ${name}`)
        .filter((each) => !used.has(each)),
    )
    expect(unused.sort()).toEqual(entries.sort())
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

it('the golden cases are those of test/cases, from whatever folder a test names them', () => {
  const test = new URL('..', import.meta.url).pathname
  const files = readdirSync(test, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  const astray = files.flatMap((file) => {
    const named = readFileSync(join(test, file), 'utf8').matchAll(/toMatchFileSnapshot\(['`]([^'`]+)/g)
    return [...named].map(([, path = '']) => join(dirname(file), path)).filter((path) => !path.startsWith('cases/'))
  })
  expect(astray).toEqual([])
})

const namesImported = /^(?:import|export) (?:type )?\{([^}]*)\} from '(\.[^']+)'/gm
const namesLoaded = /\bconst \{([^}]*)\} = await import\('(\.[^']+)'\)/g

/** What the files below a folder import from src/, as `file name`. */
function namesImportedBelow(top: string): readonly string[] {
  const files = readdirSync(top, { recursive: true, encoding: 'utf8' }).filter((file) => /\.(?:ts|mjs|cjs)$/.test(file))
  return files.flatMap((file) => {
    const text = readFileSync(join(top, file), 'utf8')
    return [...text.matchAll(namesImported), ...text.matchAll(namesLoaded)].flatMap(([, names = '', path = '']) => {
      const target = relative(src, join(top, dirname(file), path))
      return names.split(',').map((name) => `${target} ${/(?:type )?(\w+)/.exec(name.trim())?.[1]}`)
    })
  })
}

/** A regular expression that has the line for itself, as an entry or a value. */
function isPattern(line: string): boolean {
  return /^\s*(?:\w+: )?\/.*\/[a-z]*,?$/.test(line)
}

function layerOf(file: string): string {
  const slash = file.indexOf('/')
  return slash === -1 ? 'main' : file.slice(0, slash)
}

/** A way from a room back to itself, or nothing. */
function wayBack(arrows: ReadonlyMap<string, ReadonlySet<string>>, room: string): readonly string[] {
  const seen = new Set<string>()
  const next = [...(arrows.get(room) ?? [])].map((to) => [room, to])
  for (let way = next.shift(); way; way = next.shift()) {
    const last = way.at(-1) ?? ''
    if (last === room) return [way.join(' -> ')]
    if (seen.has(last)) continue
    seen.add(last)
    next.push(...[...(arrows.get(last) ?? [])].map((to) => [...(way ?? []), to]))
  }
  return []
}

function mayImport(from: string, to: string): boolean {
  if (from === 'cli') return to !== 'main'
  const [a, b] = [layers.indexOf(from as never), layers.indexOf(to as never)]
  return to === from || (b !== -1 && b < a)
}

/** What is imported, types included: an arrow in the types is an arrow. */
function importsOf(text: string): readonly string[] {
  const found = text.matchAll(
    /^(?:import|export)\b[^'"]*?from '([^']+)'|^import '([^']+)'|\b(?:import|getBuiltinModule)\('([^']+)'\)/gm,
  )
  return [...found].map((match) => match[1] ?? match[2] ?? match[3] ?? '')
}

/** Lines without comments and texts: what is said in an error message is no effect. */
function codeLines(text: string): readonly string[] {
  const bare = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g, "''")
  return bare.split('\n').map((line) => line.replace(/\/\/.*$/, ''))
}

/** Texts of the code, without their quotes; none of comments. */
function textsOf(text: string): readonly string[] {
  const found = text.matchAll(/\/\*[\s\S]*?\*\/|\/\/.*|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g)
  return [...found].flatMap((match) => match[1] ?? match[2] ?? [])
}
