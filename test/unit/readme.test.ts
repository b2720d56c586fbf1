// SPDX-License-Identifier: Apache-2.0
// The README against the sources: every key and every option is in it, and every one that it shows exists.

import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { commands } from '../../src/cli/main.ts'
import { configKeys } from '../../src/cni/config-schema.ts'
import type { KeyShape } from '../../src/cni/json-keys.ts'

const readme = readFileSync('README.md', 'utf8')

/** Of the specification, whose words the README does not repeat: what is in a DNS, a port mapping, a GC. */
const ofSpecification = ['dns', 'portMappings', 'cni.dev/valid-attachments', 'cni.dev/attachments']

function namesIn(shape: KeyShape | undefined): readonly string[] {
  if (shape?.items !== undefined) return namesIn(shape.items)
  return [...(shape?.keys?.values() ?? [])].flatMap(({ name, shape: inner }) => {
    return ofSpecification.includes(name) ? [] : [name, ...namesIn(inner)]
  })
}

const keys = [...new Set(namesIn(configKeys))]

describe('README', () => {
  it('there are keys', () => {
    expect(keys.length).toBeGreaterThan(60)
  })

  it.each(keys)('has the key %s', (key) => {
    expect(readme).toMatch(new RegExp(`[\`.{, ]${key}[\`.}, ]`))
  })

  it.each(commands.flatMap(({ name, options }) => Object.keys(options).map((option) => [name, option])))(
    'has trestle %s --%s',
    (name, option) => {
      expect(readme).toMatch(new RegExp(`trestle ${name} [^\`\n]*--${option}\\b`))
    },
  )

  it('shows no command and no option that there is not', () => {
    const shown = [...readme.matchAll(/(?:^ {4}|`)trestle ([a-z]+)([^`\n]*)/gm)]
    expect(shown.length).toBeGreaterThan(20)
    const wrong = shown.filter(([, name, rest = '']) => {
      const command = commands.find((each) => each.name === name)
      const options = [...rest.matchAll(/--([a-z-]+)/g)].map(([, option = '']) => option)
      return command === undefined || options.some((option) => !Object.hasOwn(command.options, option))
    })
    expect(wrong.map(([text]) => text)).toEqual([])
  })

  it('shows no npm script and no example that there is not', () => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
    const run = [...readme.matchAll(/npm run ([a-z0-9:]+)/g)].map(([, name = '']) => name)
    expect(run.length).toBeGreaterThan(8)
    expect(run.filter((name) => !Object.hasOwn(scripts, name))).toEqual([])
    const files = [...readme.matchAll(/\b(?:conf-examples|scripts)\/[\w./-]*\w/g)].map(([file]) => file)
    expect(files.length).toBeGreaterThan(5)
    expect(files.filter((file) => !existsSync(file))).toEqual([])
  })
})
