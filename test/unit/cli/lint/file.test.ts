// SPDX-License-Identifier: Apache-2.0
// Each finding about a file, from a file that has it: the id, the place and the words.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { checks } from '../../../../src/cli/lint/checks.ts'
import { fileChecks } from '../../../../src/cli/lint/checks-file.ts'
import { lintText } from '../../../../src/cli/lint/file.ts'
import type { Finding } from '../../../../src/cli/lint/finding.ts'
import { openPrograms } from '../../../../src/cli/lint/programs.ts'
import { runCli } from '../../../support/collect.ts'

/** No directory of plugins: types are not looked at. */
const nowhere = openPrograms(['/nonexistent/bin'])

/** Findings as `id TOKEN message`, TOKEN being what is at the place, without the one about the directory. */
function lint(text: string, file = '10-x.conflist'): readonly string[] {
  const { findings } = lintText(file, text, nowhere)
  return findings
    .filter(({ id }) => id !== 'bin-dir-missing')
    .map((finding) => `${finding.id} ${tokenAt(text, finding)} ${finding.message}`)
}

function tokenAt(text: string, { line, column }: Finding): string {
  if (line === undefined || column === undefined) return '-'
  const rest = text
    .split('\n')
    .slice(line - 1)
    .join('\n')
    .slice(column - 1)
  return /^(?:"[^"]*"|[^\s,:\]}]+|.)/.exec(rest)?.[0] ?? 'end'
}

/** A list with one trestle, on one line each. */
function list(plugin: object, more: object = {}): string {
  const head = { cniVersion: '1.1.0', name: 'pods', ...more }
  return `${JSON.stringify(head).slice(0, -1)},\n"plugins": [\n${JSON.stringify({ type: 'trestle', ...plugin })}\n]}`
}
const pool = (ipam: object, more: object = {}) => list({ ipam: { type: 'host-local', ...ipam }, ...more })
const net = { podcidr: '10.240.0.0/24' }
const reference = (plugin: object) => `{"cniVersion":"1.1.0","name":"n","plugins":[\n${JSON.stringify(plugin)}]}`

/** Text, file name, findings in order. */
const cases: readonly (readonly [title: string, text: string, found: readonly string[], file?: string])[] = [
  ['nothing', ' \n', ['file-empty - there is nothing in it']],
  [
    'a comma after the last entry (pain 9: broken JSON)',
    '{\n  "name": "n",\n  "plugins": [\n    {},\n  ]\n}',
    ['json-syntax , a comma before "]"'],
  ],
  ['half a file', '{"name": "n", "plu', ['json-syntax end the text ends inside a string']],
  ['a comment', '{\n// net\n"name": "n"}', ['json-syntax // expected a key in double quotes, found "/"']],
  ['a byte order mark', '\ufeff{}', ['json-syntax ﻿ the file begins with a byte order mark, which JSON does not have']],
  ['two objects', '{}\n{}', ['json-syntax { more text after the JSON value']],
  ['a list of lists', '\n[]', ['not-an-object [ [] is not an object']],
  ['a key twice', list(net).replace('"name"', '"name":"a","name"'), ['duplicate-key "name" name is there twice']],
  ['no name', list(net, { name: undefined }), ['name-missing {"cniVersion" the network has no name']],
  ['a name that is a number', list(net, { name: 7 }), ['name-missing "name" name: 7 is no text']],
  [
    'a name with a space',
    list(net, { name: 'a b' }),
    ['name-invalid "name" name: "a b" has characters that are not allowed'],
  ],
  [
    'no cniVersion',
    list(net, { cniVersion: undefined }),
    ['cni-version-missing {"name" there is no cniVersion: it counts as 0.1.0'],
  ],
  [
    'a cniVersion that is short',
    list(net, { cniVersion: '1.1' }),
    ['cni-version-unknown "1.1" cniVersion: "1.1" is no version of CNI; did you mean "1.1.0"?'],
  ],
  [
    'a cniVersion that is a number',
    list(net, { cniVersion: 1.1 }),
    ['wrong-type "cniVersion" cniVersion: 1.1 is no text'],
  ],
  [
    'a list of two with an old version',
    `{"cniVersion":"0.2.0","name":"n","plugins":[\n${JSON.stringify({ type: 'trestle', ...net })},{"type":"debug"}]}`,
    [
      'cni-version-old "cniVersion" with 0.2.0 no runtime calls CHECK, STATUS and GC',
      'cni-version-too-old "cniVersion" a list of 2 plugins needs cniVersion 0.3.0 or newer, this is 0.2.0',
    ],
  ],
  [
    'a version without STATUS',
    list(net, { cniVersion: '1.0.0' }),
    ['cni-version-old "cniVersion" with 1.0.0 no runtime calls STATUS and GC'],
  ],
  ['several versions', list(net, { cniVersion: undefined, cniVersions: ['0.4.0', '1.1.0'] }), []],
  ['no plugins', '{"cniVersion":"1.1.0","name":"n"}', ['plugins-missing {"cniVersion" no \'plugins\' key']],
  [
    'an empty list',
    '{"cniVersion":"1.1.0","name":"n","plugins":[]}',
    ['plugins-missing "plugins" plugins: the list is empty'],
  ],
  [
    'plugins of another case',
    '{"cniVersion":"1.1.0","name":"n","Plugins":[]}',
    [
      'plugins-missing "Plugins" no \'plugins\' key',
      'unknown-key "Plugins" a list has no key Plugins; did you mean "plugins"?',
    ],
  ],
  [
    'a list named .conf',
    list(net),
    ['list-in-conf "plugins" this is a list of plugins, and the file is not named .conflist'],
    '10-x.conf',
  ],
  ['a plugin without a type', reference({ ...net }), ['type-missing {"podcidr" the plugin has no type']],
  ['a plugin whose type is a number', reference({ type: 7 }), ['type-missing "type" type: 7 is no text']],
  [
    'a misspelt key (pain 9: bad fields)',
    list({ podcdir: '10.0.0.0/8' }),
    ['unknown-key "podcdir" trestle has no key plugins[0].podcdir; did you mean "podcidr"?'],
  ],
  [
    'a key in another place',
    list({ ...net, snat: false }),
    ['unknown-key "snat" trestle has no key plugins[0].snat; it belongs to portmap'],
  ],
  [
    'a key of a list that is misspelt',
    list(net, { disableChek: true }),
    ['unknown-key "disableChek" a list has no key disableChek; did you mean "disableCheck"?'],
  ],
  [
    'a key of a range that is misspelt',
    pool({ ranges: [[{ subnet: '10.1.0.0/24', rangestop: '10.1.0.9' }]] }),
    ['unknown-key "rangestop" trestle has no key plugins[0].ipam.ranges[0][0].rangestop; did you mean "rangeStart"?'],
  ],
  [
    'a key of the reference bridge that is misspelt',
    reference({ type: 'bridge', isgatway: true }),
    ['unknown-key "isgatway" bridge has no key plugins[0].isgatway; did you mean "isGateway"?'],
  ],
  [
    'a key of the reference host-local that is misspelt',
    reference({ type: 'ptp', ipam: { type: 'host-local', subnett: '10.1.0.0/24' } }),
    ['unknown-key "subnett" ptp has no key plugins[0].ipam.subnett; did you mean "subnet"?'],
  ],
  ['remarks', list({ ...net, _comment: 'x', '//': 'y' }), []],
  ['keys in another case', list({ PodCIDR: '10.240.0.0/24', IPMASQ: true }), []],
  [
    'a key of trestle elsewhere',
    reference({ type: 'bridge', ...net }),
    ['key-of-trestle "podcidr" podcidr is a key of trestle, and the type is "bridge"'],
  ],
  [
    'values of a wrong type',
    list({ ...net, hairpinMode: 'yes', mtu: '1500' }),
    [
      'wrong-type "yes" hairpinMode: "yes" is not true or false',
      'wrong-type "1500" mtu: "1500" is not "auto" or an MTU',
    ],
  ],
  [
    'a switch of the list',
    list(net, { disableCheck: 'maybe' }),
    ['wrong-type "disableCheck" disableCheck: "maybe" is not true or false'],
  ],
  [
    'values that cannot be',
    list({ ...net, bridge: 'a b', nonMasqueradeCIDRs: ['x'] }),
    [
      'invalid-value "bridge" bridge: "a b" is not a bridge name: interface name contains / or : or whitespace characters',
      'invalid-value "x" nonMasqueradeCIDRs[0]: "x" is not a prefix in CIDR notation',
    ],
  ],
  [
    'a range with host bits',
    pool({ subnet: '10.1.0.9/24' }),
    [
      'range-invalid "subnet" ipam.subnet: invalid range set 0: Network has host bits set. For a subnet mask of length 24 the network address is 10.1.0.0',
    ],
  ],
  [
    'ranges that overlap',
    pool({ ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: '10.1.0.0/16' }]] }),
    ['ranges-overlap [{"subnet" ipam.ranges[1]: range set 0 overlaps with 1'],
  ],
  [
    'a chain of iptables',
    list({ ...net, firewall: { iptablesAdminChainName: 'MINE' } }),
    [
      'unsupported-value "iptablesAdminChainName" unsupported value of firewall.iptablesAdminChainName: "MINE"',
      'no-effect "iptablesAdminChainName" firewall.iptablesAdminChainName has no effect: trestle has no chain in iptables',
    ],
  ],
  [
    'keys of another mode',
    list({ mode: 'ptp', ...net, bridge: 'cni0', firewall: {}, hairpinMode: false }),
    [
      'no-effect "bridge" bridge has no effect: with mode ptp it is not read',
      'no-effect "firewall" firewall has no effect: with mode ptp it is not read',
    ],
  ],
  [
    'a VLAN',
    list({ ipam: {}, vlan: 7 }),
    ['experimental "vlan" vlan needs a kernel with CONFIG_BRIDGE_VLAN_FILTERING'],
  ],
  [
    'a gateway outside its subnet (pain 9: bad fields)',
    pool({ ranges: [[{ subnet: '10.1.0.0/24', gateway: '10.2.0.1' }]] }, { isDefaultGateway: true }),
    ['gateway-outside-subnet "10.2.0.1" ipam.ranges[0][0].gateway: 10.2.0.1 is not in 10.1.0.0/24'],
  ],
  [
    'masquerade without a gateway',
    pool({ subnet: '10.1.0.0/24' }, { ipMasq: true }),
    ['masquerade-without-gateway "ipMasq" ipMasq is set, and the bridge is no gateway'],
  ],
  [
    'portmap without its capability',
    list({ ...net, portmap: { snat: true } }),
    [
      'capability-missing "portmap" portmap is set, and the capability portMappings is not declared: no pod gets a host port',
    ],
  ],
  [
    'a misspelt capability',
    list({ ...net, capabilities: { portMapping: true } }),
    ['capability-unknown "portMapping" no runtime sends the capability "portMapping"; did you mean "portMappings"?'],
  ],
  [
    'a runtimeConfig',
    list({ ...net, runtimeConfig: { mac: '02:00:00:00:00:01' } }),
    ['runtime-config-in-file "runtimeConfig" runtimeConfig is what a runtime puts in, and is in the file'],
  ],
  [
    'a chained plugin that comes first',
    list({ mode: 'chained', sbr: {} }),
    ['chained-first "mode" mode chained needs a plugin before it'],
  ],
  [
    'a reference plugin that comes first and is none to begin with',
    reference({ type: 'portmap' }),
    ['chained-first "portmap" portmap is the first plugin, and works on the interface of one before it'],
  ],
]

describe('lint of a file', () => {
  const named = cases.map(([title, text, found, file]) => ({ title, text, found, file }))
  it.each(named)('$title', ({ text, found, file }) => expect(lint(text, file)).toEqual(found))

  it('of a bridge with trestle as its IPAM plugin looks at our keys in ipam', () => {
    const bridge = { type: 'bridge', ipam: { type: 'trestle', subnet: '10.1.0.0/24', exclud: ['10.1.0.7'] } }
    expect(lint(reference(bridge))).toEqual([
      'unknown-key "exclud" trestle has no key plugins[0].ipam.exclud; did you mean "exclude"?',
    ])
  })

  it('has a file for every check that needs no program', () => {
    const seen = new Set(cases.flatMap(([, , found]) => found.map((each) => each.split(' ')[0])))
    const elsewhere = ['file-unreadable', 'bin-dir-missing', 'type-not-trestle']
    const missing = Object.keys(fileChecks).filter((id) => !seen.has(id) && !id.startsWith('plugin-'))
    expect(missing).toEqual(elsewhere)
  })
})

describe('trestle lint FILE', () => {
  it.each(['podcidr-demo.conf', 'pod-network.conflist', 'everything.conflist', 'ptp-dns.conflist'])(
    '%s has no error',
    async (name) => {
      const { code, stdout } = await runCli(['lint', `conf-examples/${name}`, '--bin-dir', '/nonexistent/bin'])
      expect(code, stdout).toBe(0)
      expect(stdout).toMatch(/\n0 errors, 1 warning, \d notes? in 1 file\n$/)
    },
  )

  it('prints place, caret, cause and cure, and exits 1 in both formats', async () => {
    const args = ['lint', 'test/unit/cli/lint/trailing-comma.conflist', '--bin-dir', '/nonexistent/bin']
    const { code, stdout } = await runCli(args)
    expect(code).toBe(1)
    expect(stdout).toBe(readFileSync('test/unit/cli/lint/trailing-comma.txt', 'utf8'))
    const asJson = await runCli([...args, '-o', 'json'])
    expect(asJson).toMatchObject({ code: 1, json: { formatVersion: 1, command: 'lint', counts: { errors: 1 } } })
    expect(asJson.json).toMatchObject({
      findings: [{ id: 'json-syntax', severity: 'error', line: 5, column: 7, cause: expect.any(String) }],
    })
  })

  it('with --strict a warning makes exit code 1', async () => {
    const args = ['lint', 'conf-examples/pod-network.conflist', '--bin-dir', '/nonexistent/bin']
    expect((await runCli(args)).code).toBe(0)
    expect((await runCli([...args, '--strict'])).code).toBe(1)
  })

  it('--skip leaves findings out, --list has every id, and a wrong id is a usage error', async () => {
    const args = ['lint', 'test/unit/cli/lint/trailing-comma.conflist', '--bin-dir', '/nonexistent/bin']
    expect(await runCli([...args, '--skip', 'json-syntax'])).toMatchObject({
      code: 0,
      stdout: '0 errors, 0 warnings, 0 notes in 1 file\n',
    })
    const { stderr } = await runCli([...args, '--skip', 'json-syntx'])
    expect(stderr).toContain('did you mean "json-syntax"?')
    const { code, stdout } = await runCli(['lint', '--list'])
    expect(code).toBe(0)
    for (const [id, { severity }] of Object.entries(checks))
      expect(stdout).toMatch(new RegExp(`^${severity} +${id} `, 'm'))
  })
})
