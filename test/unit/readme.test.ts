// SPDX-License-Identifier: Apache-2.0
// The README and the pages of docs/ against the sources: every key, every command and the agent's options are in them, every one that they show
// exists, and every link and every citation in a comment leads somewhere.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { commands } from '../../src/commands/command-line.ts'
import { schemas } from '../../src/config/schema.ts'

const files = ['README.md', ...readdirSync('docs').map((name) => `docs/${name}`)]
const pages = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]))
const text = [...pages.values()].join('\n')

/** The headings of a page, as they are written. */
function headingsOf(page: string): readonly string[] {
  return [...(pages.get(page) ?? '').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading)
}

/** GitHub's anchor of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-')
}

/** Of the specification, whose words the README does not repeat: what is in a DNS, a port mapping, a GC. */
const ofSpecification = ['dns', 'portMappings', 'cni.dev/valid-attachments', 'cni.dev/attachments']

type KeyShape = typeof schemas.own.keys

function namesIn(shape: KeyShape): readonly string[] {
  if (shape?.items !== undefined) return namesIn(shape.items)
  return [...(shape?.keys?.values() ?? [])].flatMap(({ name, shape: inner }) => {
    return ofSpecification.includes(name) ? [] : [name, ...namesIn(inner)]
  })
}

const keys = [...new Set(namesIn(schemas.own.keys))]

describe('README and docs', () => {
  it('there are keys', () => {
    expect(keys.length).toBeGreaterThan(60)
  })

  it.each(keys)('has the key %s', (key) => {
    expect(text).toMatch(new RegExp(`[\`.{, ]${key}[\`.}, ]`))
  })

  it.each(commands.map(({ name }) => name))('has the command %s', (name) => {
    expect(pages.get('docs/commands.md')).toMatch(new RegExp(`\`(?:trestle )?${name}[\` ]`))
  })

  // The options of the other commands are in their --help.
  it.each(Object.keys(commands.find(({ name }) => name === 'agent')?.options ?? {}))(
    'has trestle agent --%s',
    (option) => {
      expect(text).toMatch(new RegExp(`--${option}\\b`))
    },
  )

  it('shows no command and no option that there is not', () => {
    const shown = [...text.matchAll(/(?:^ {4}|`)trestle ([a-z]+)([^`\n]*)/gm)]
    expect(shown.length).toBeGreaterThan(20)
    const wrong = shown.filter(([, name, rest = '']) => {
      const command = commands.find((each) => each.name === name)
      const options = [...rest.matchAll(/--([a-z-]+)/g)].map(([, option = '']) => option)
      return command === undefined || options.some((option) => !Object.hasOwn(command.options, option))
    })
    expect(wrong.map(([found]) => found)).toEqual([])
  })

  it('shows no npm script and no example that there is not', () => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
    const run = [...text.matchAll(/npm run ([a-z0-9:]+)/g)].map(([, name = '']) => name)
    expect(run.length).toBeGreaterThan(8)
    expect(run.filter((name) => !Object.hasOwn(scripts, name))).toEqual([])
    const named = [...text.matchAll(/\b(?:conf-examples|scripts)\/[\w./-]*\w/g)].map(([file]) => file)
    expect(named.length).toBeGreaterThan(5)
    expect(named.filter((file) => !existsSync(file))).toEqual([])
  })

  it('links to pages and headings that there are', () => {
    const links = [...pages].flatMap(([page, markdown]) =>
      [...markdown.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)].map(([, path = '', anchor]) => {
        return { page, target: path === '' ? page : join(dirname(page), path), anchor }
      }),
    )
    expect(links.length).toBeGreaterThan(15)
    const broken = links.filter(({ target, anchor }) => {
      return !existsSync(target) || (anchor !== undefined && !headingsOf(target).map(anchorOf).includes(anchor))
    })
    expect(broken).toEqual([])
  })

  it('has a map of the source that names files that there are', () => {
    const map = readFileSync('src/README.md', 'utf8')
    const named = [...map.matchAll(/`((?:[\w-]+\/)+[\w-]+\.ts)`/g)].map(([, path = '']) => path)
    expect(named.length).toBeGreaterThan(30)
    expect(named.filter((path) => !existsSync(path.startsWith('test/') ? path : `src/${path}`))).toEqual([])
  })

  it('has a README that an operator reads in one go', () => {
    expect(pages.get('README.md')?.split('\n').length).toBeLessThanOrEqual(150)
  })
})

/** Sources with comments, and the papers they may cite. */
const sources = ['src', 'test', 'scripts'].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|mjs|cjs)$/.test(name))
    .map((name) => ({ file: `${folder}/${name}`, source: readFileSync(join(folder, name), 'utf8') })),
)

describe('a comment', () => {
  it('cites headings of docs/ that there are', () => {
    const cited = sources.flatMap(({ file, source }) =>
      [...source.matchAll(/docs\/([a-z]+\.md), "([^"]+)"/g)].map(([, page = '', heading = '']) => ({
        file,
        page,
        heading,
      })),
    )
    expect(cited.length).toBeGreaterThan(3)
    const broken = cited.filter(({ page, heading }) => !headingsOf(`docs/${page}`).includes(heading))
    expect(broken).toEqual([])
  })

  it('cites no paper that is not in the repository', () => {
    const self = 'test/unit/readme.test.ts'
    const absent = /contract §|reference-plugins\.md|user-pain|\bpain \d/
    expect(sources.filter(({ file, source }) => file !== self && absent.test(source)).map(({ file }) => file)).toEqual(
      [],
    )
  })
})
