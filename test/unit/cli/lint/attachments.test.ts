// SPDX-License-Identifier: Apache-2.0
// NetworkAttachmentDefinitions as people write and kubectl prints them: what is wrong in spec.config is found, and shown
// at its place in the whole file.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, expect, it } from 'vitest'
import { lintFile } from '../../../../src/commands/lint/attachments.ts'
import { openPrograms } from '../../../../src/commands/lint/programs.ts'
import { runCli } from '../../../support/collect.ts'

const nowhere = openPrograms(['/nonexistent/bin'])

/** Errors and warnings as `id: the rest of the line at its place`. */
function lint(text: string, file = 'net.yaml'): readonly string[] {
  const findings = lintFile(file, text, nowhere).flatMap((each) => each.findings)
  return findings
    .filter(({ id, severity }) => severity !== 'note' && id !== 'bin-dir-missing')
    .map(({ id, line = 0, column = 0 }) => `${id}: ${(text.split('\n')[line - 1] ?? '').slice(column - 1)}`)
}

/** The same with what is wrong in place of the id. */
function messages(text: string): readonly string[] {
  const findings = lintFile('net.yaml', text, nowhere).flatMap((each) => each.findings)
  return findings
    .filter(({ id, severity }) => severity !== 'note' && id !== 'bin-dir-missing')
    .map(({ id, line = 0, column = 0, message }) => {
      const there = (text.split('\n')[line - 1] ?? '').slice(column - 1)
      return `${id} at ${there.slice(0, 12)}: ${message}`
    })
}

function definition(config: string, name = 'm'): string {
  const head = 'apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n'
  return `${head}  name: ${name}\nspec:\n  config: ${config}\n`
}

const good = '{"cniVersion":"0.4.0","type":"macvlan","master":"eth0","ipam":{"type":"dhcp"}}'
const faulty = good.replace('"master"', '"mode":"brige","master"')
const found = 'invalid-value: "brige"'

// kubectl and PyYAML take all of these: libyaml does not look at indents inside of quotes.
const shallow = `'{\n"cniVersion": "0.4.0",\n  "type": "macvlan", "mode": "bridge",\n}'`.replace(',\n}', '\n}')
const twice = `${definition(shallow, 'a')}---\n${definition(shallow, 'b')}`

describe('a definition without a fault', () => {
  it.each([
    ['in quotes whose lines are not indented', definition(shallow)],
    ['the same in double quotes', definition(shallow.replaceAll('"', '\\"').replaceAll("'", '"'))],
    ['the same with Windows line ends', definition(shallow).replaceAll('\n', '\r\n')],
    ['only the closing quote is not indented', definition(`'${good.replaceAll(',', ',\n      ')}\n'`)],
    ['two of them', twice],
    [
      'the same in an annotation of a pod beside it',
      `kind: Pod\nmetadata:\n  a: '[\n{}\n]'\n---\n${definition(`'${good}'`)}`,
    ],
    ['in single quotes', definition(`'${good}'`)],
    ['as a block', definition(`|\n    ${good}`)],
    ['as a folded block', definition(`>-\n    ${good}`)],
    ['over several lines of single quotes', definition(`'${good.replaceAll(',', ',\n      ')}'`)],
    ['in double quotes', definition(JSON.stringify(good))],
    ['behind another resource', `kind: ConfigMap\n---\n${definition(`'${good}'`)}`],
    ['with Windows line ends', definition(`|\n    ${good}`).replaceAll('\n', '\r\n')],
    ['with its name in the file only', definition(`'${good}'`)],
    ['without spec.config', 'apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: m}\n'],
  ])('%s is silent', (_, text) => expect(lint(text)).toEqual([]))
})

describe('a fault in spec.config', () => {
  it.each([
    ['in single quotes', definition(`'${faulty}'`), `${found},"master":"eth0","ipam":{"type":"dhcp"}}'`],
    ['as a block', definition(`|\n    ${faulty}`), `${found},"master":"eth0","ipam":{"type":"dhcp"}}`],
    ['as a folded block', definition(`>-\n    ${faulty.replaceAll(',', ',\n    ')}`), `${found},`],
    ['over lines of single quotes', definition(`'${faulty.replaceAll(',', ',\n      ')}'`), `${found},`],
    [
      'in double quotes',
      definition(JSON.stringify(faulty)),
      'invalid-value: \\"brige\\",\\"master\\":\\"eth0\\",\\"ipam\\":{\\"type\\":\\"dhcp\\"}}"'.replace('\\"', '"'),
    ],
    [
      'with escaped line ends',
      definition(JSON.stringify(faulty.replaceAll(',', ',\n'))),
      'invalid-value: "brige\\",\\n\\"master\\":\\"eth0\\",\\n\\"ipam\\":{\\"type\\":\\"dhcp\\"}}"',
    ],
    ['with an apostrophe before it', definition(`'{"_":"it''s",${faulty.slice(1)}'`), `${found},"master":"eth0"`],
    ['in quotes whose lines are not indented', definition(shallow.replace('"bridge"', '"brige"')), `${found}`],
    ['of the second one of them', twice.replace(/"bridge"(?![\s\S]*"bridge")/, '"brige"'), `${found}`],
    ['of the second one', `${definition(`'${good}'`)}---\n${definition(`|\n    ${faulty}`)}`, `${found},"master"`],
  ])('%s is shown in the file', (_, text, start) => {
    const [first, ...more] = lint(text)
    expect(first?.slice(0, start.length)).toBe(start)
    expect(more).toEqual([])
  })

  it('of a list that kubectl prints as JSON is shown in the file', () => {
    const item = (config: string) => ({
      kind: 'NetworkAttachmentDefinition',
      metadata: { name: 'm' },
      spec: { config },
    })
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [item(good), item(faulty)] }, undefined, 4)
    expect(lint(list, '-')).toEqual([expect.stringMatching(/^invalid-value: "?brige/)])
  })

  it('a comma too many, and a list', () => {
    const list = `|\n    {"cniVersion": "1.0.0", "plugins": [\n      {"type": "macvlan", "mode": "bridge",}\n    ]}`
    expect(lint(definition(list))).toEqual(['json-syntax: ,}'])
  })

  it('an object where text has to be', () => {
    expect(lint(definition('{cniVersion: 0.4.0}'))).toEqual(['attachment-config: {cniVersion: 0.4.0}'])
  })

  it('YAML that is none', () => {
    expect(lint(definition(`'${good}`))[0]).toMatch(/^yaml-syntax: /)
  })

  it.each([
    ['a quote that nothing closes', definition(`'{\n${good}`), ": Missing closing 'quote"],
    [
      'an indent too deep',
      definition(`'${good}'`).replace('metadata', '  metadata'),
      'NetworkAttac: Nested mappings are not allowed in compact mappings',
    ],
    [
      'quotes behind the sign of a block',
      definition(`> '{\n    "type": "a"\n    }'`),
      "'{: Implicit map keys need to be followed by map values",
    ],
    ['a second colon', definition(`a: b`), 'a: b: Nested mappings are not allowed in compact mappings'],
  ])('%s is told once, at its place', (_, text, said) => {
    expect(messages(text)).toEqual([`yaml-syntax at ${said}`])
  })

  it('300 definitions in such quotes are read, and a quote that is open in one spoils no other', () => {
    const many = Array.from({ length: 300 }, (_, at) => definition(shallow, `n${at}`)).join('---\n')
    const broken = definition(`'{\n${good}`)
    expect(messages(`${many}---\n${broken}---\n${definition(shallow.replace('"bridge"', '"brige"'))}`)).toEqual([
      "yaml-syntax at : Missing closing 'quote",
      expect.stringMatching(/^invalid-value at "brige"/),
    ])
  })

  it('a comment in quoted text is told once: the text is one line', () => {
    const commented = shallow.replace('"bridge"', '"bridge" # as a rule')
    expect(messages(definition(commented))).toEqual([expect.stringMatching(/^json-syntax at # as a rule: JSON has no/)])
  })

  it.each([
    ['of helm around it', `{{- if .Values.on }}\n${definition(`'${good}'`)}{{- end }}\n`, '{{- if .Values.on }}'],
    ['of Jinja', `${definition(`'${good}'`)}{% if a %}\n  b: c\n{% endif %}\n`, '{% if a %}'],
  ])('a template %s is one finding', (_, text, what) => {
    const start = what.slice(0, 12)
    expect(messages(text)).toEqual([`placeholder at ${start}: the file is a template that was not rendered: ${what}`])
  })

  it('a name in it that no network can have', () => {
    const named = good.replace('"type"', '"name":"a b","type"')
    expect(lint(definition(`'${named}'`))).toEqual([expect.stringMatching(/^name-invalid: "name":"a b"/)])
  })
})

it('trestle lint NET.yaml finds it, and exits 1', async () => {
  const directory = mkdtempSync(`${tmpdir()}/trestle-nad-`)
  try {
    writeFileSync(`${directory}/net.yaml`, definition(`|\n    ${faulty}`))
    const words = ['lint', `${directory}/net.yaml`, '--bin-dir', '/nonexistent/bin', '-o', 'json']
    const { code, json } = await runCli(words)
    expect(code).toBe(1)
    expect(json).toMatchObject({ findings: expect.arrayContaining([expect.objectContaining({ line: 7 })]) })
    expect((await runCli(['lint', `${directory}/none.yaml`])).code).toBe(3)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
