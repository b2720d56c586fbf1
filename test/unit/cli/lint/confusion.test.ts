// SPDX-License-Identifier: Apache-2.0
// Fault by fault: a file that has just this one gives the id of just this one, and the file without it gives none.

import { describe, expect, it } from 'vitest'
import { diagnoses } from '../../../../src/catalogue/diagnosis.ts'
import { lintText } from '../../../../src/commands/lint/file.ts'
import { openPrograms } from '../../../../src/commands/lint/programs.ts'

const nowhere = openPrograms(['/nonexistent/bin'])

function findingsIn(text: string) {
  return lintText('10-n.conflist', text, nowhere).findings.filter(({ id }) => id !== 'bin-dir-missing')
}
const idsOf = (text: string) => findingsIn(text).map(({ id }) => id)

type Conf = Readonly<Record<string, unknown>>

const list = (...plugins: readonly Conf[]) => JSON.stringify({ cniVersion: '1.1.0', name: 'pods', plugins })
const ours = (more: Conf = {}) => list({ type: 'trestle', podcidr: '10.1.0.0/24', ...more })
const inPool = (ipam: Conf) => list({ type: 'trestle', ipam: { type: 'host-local', ...ipam } })
const bridge = { type: 'bridge', isGateway: true, ipam: { type: 'host-local', subnet: '10.1.0.0/24' } }
const portMappings = { capabilities: { portMappings: true } }
const delegated = (ipam: Conf) => list({ ...bridge, ipam: { type: 'trestle', ...ipam } })
const good = ours()

/** The fault, the file that has it, its id, and the same file without it. */
const faults: readonly (readonly [fault: string, faulty: string, id: string, good: string])[] = [
  ['a comment', good.replace('"name"', '/* ours */ "name"'), 'json-syntax', good],
  ['a comma too many', good.replace(/\}$/, ',}'), 'json-syntax', good],
  ['a comma too few', good.replace(',', ' '), 'json-syntax', good],
  ['a bracket too many', `${good}}`, 'json-syntax', good],
  ['typographic quotes', good.replace('"name"', '“name”'), 'json-syntax', good],
  ['UTF-16', `\ufffd\ufffd${good}`, 'json-syntax', good],
  [
    'a placeholder that is no JSON',
    ours({ mtu: 1 }).replace(':1}', ':__CNI_MTU__}'),
    'json-syntax',
    ours({ mtu: 1400 }),
  ],
  ['an empty file', ' \n', 'file-empty', good],
  ['a list of objects', '[]', 'not-an-object', good],
  ['no name', good.replace('"name":"pods",', ''), 'name-missing', good],
  ['a name with a slash', good.replace('"pods"', '"a/b"'), 'name-invalid', good],
  ['no version', good.replace('"cniVersion":"1.1.0",', ''), 'cni-version-missing', good],
  ['a version that is none', good.replace('"1.1.0"', '"1.3.0"'), 'cni-version-unknown', good],
  ['no type', list({ ...bridge, type: '' }), 'type-missing', list(bridge)],
  ['no plugins', '{"cniVersion":"1.1.0","name":"pods","plugins":[]}', 'plugins-missing', good],
  ['a key twice', ours({ mtu: 1400 }).replace('"mtu"', '"mtu":1300,"mtu"'), 'duplicate-key', ours({ mtu: 1400 })],
  ['two main plugins', list(bridge, { type: 'macvlan' }), 'two-main-plugins', list(bridge, { type: 'tuning' })],
  ['a misspelt key', ours({ hairpin: 1 }), 'unknown-key', ours({ hairpinMode: true })],
  [
    'a misspelt key in ipam',
    inPool({ subnet: '10.1.0.0/24', rangestop: '10.1.0.9' }),
    'unknown-key',
    inPool({ subnet: '10.1.0.0/24', rangeEnd: '10.1.0.9' }),
  ],
  [
    'a key that is not of our ipam',
    inPool({ range: '10.1.0.0/24' }),
    'unknown-key',
    delegated({ subnet: '10.1.0.0/24' }),
  ],
  ['a range without a length', ours({ podcidr: '10.1.0.0' }), 'podcidr-invalid', good],
  ['host bits', ours({ podcidr: '10.1.0.9/24' }), 'range-subnet', good],
  ['a subnet that is none', inPool({ subnet: '10.1.0.0/33' }), 'range-subnet', inPool({ subnet: '10.1.0.0/30' })],
  [
    'a range that nothing is left of',
    inPool({ subnet: '10.1.0.0/30', exclude: ['10.1.0.2'] }),
    'range-without-addresses',
    good,
  ],
  [
    'a subnet of our IPAM alone',
    delegated({ subnet: '10.1.0.9/24' }),
    'range-subnet',
    delegated({ subnet: '10.1.0.0/24' }),
  ],
  [
    'static without addresses',
    list({ type: 'trestle', ipam: { type: 'static' } }),
    'static-address-missing',
    list({ type: 'trestle', ipam: { type: 'static' }, capabilities: { ips: true } }),
  ],
  [
    'a gateway outside of its subnet',
    inPool({ subnet: '10.1.0.0/24', gateway: '10.2.0.1' }),
    'gateway-outside-subnet',
    inPool({ subnet: '10.1.0.0/24', gateway: '10.1.0.1' }),
  ],
  ['an MTU out of bounds', ours({ mtu: 50 }), 'invalid-value', ours({ mtu: 1400 })],
  ['an MTU in quotes', ours({ mtu: '1400' }), 'wrong-type', ours({ mtu: 1400 })],
  ['a name of 16 bytes', ours({ bridge: 'abcdefghijklmnop' }), 'bridge-name', ours({ bridge: 'abcdefghijklmno' })],
  ['a switch as a word', ours({ ipMasq: 'yes' }), 'wrong-type', ours({ ipMasq: true })],
  [
    'a word that a key does not take',
    ours({ firewall: { ingressPolicy: 'close' } }),
    'invalid-value',
    ours({ firewall: { ingressPolicy: 'isolated' } }),
  ],
  [
    'portmap without its capability',
    ours({ portmap: {} }),
    'capability-missing',
    ours({ portmap: {}, ...portMappings }),
  ],
  [
    'a misspelt capability',
    list({ ...bridge, capabilities: { ipRange: true } }),
    'capability-unknown',
    list({ ...bridge, capabilities: { ipRanges: true } }),
  ],
  ['a runtimeConfig', list({ ...bridge, runtimeConfig: { mac: 'x' } }), 'runtime-config-in-file', list(bridge)],
  [
    'host ports without an end on the host',
    ours({ mode: 'macvlan', master: 'eth0', ...portMappings }),
    'no-effect',
    ours({ mode: 'ptp', ...portMappings }),
  ],
  ['a chained plugin first', list({ type: 'trestle', mode: 'chained', sbr: {} }), 'chained-first', good],
  [
    'trestle chained twice',
    list(bridge, { type: 'trestle', firewall: {} }, { type: 'trestle', sbr: {} }),
    'chained-twice',
    list(bridge, { type: 'trestle', firewall: {}, sbr: {} }),
  ],
  ['answers in the place of a plugin', list({ type: 'trestle', record: { answer: {} } }), 'record-stands-in', good],
]

describe('one fault, one id', () => {
  it.each(faults)('%s', (_, faulty, id, without) => {
    expect({ faulty: idsOf(faulty), good: idsOf(without) }).toEqual({ faulty: [id], good: [] })
  })
})

it.each([
  ['a comma too many', (text: string) => text.replace(/\}$/, '\n,}'), 'remove the comma: the last entry has none'],
  ["Python's True", (text: string) => text.replace(':true', ':True'), 'true, false or null'],
  ['a bracket too many', (text: string) => `${text}}\n`, 'a file holds one object: remove the rest, or make it'],
])('a second error after %s is found', (_, spoilt, cure) => {
  const found = findingsIn(spoilt(ours({ mtu: '1500', ipMasq: true })))
  expect(found.map(({ id }) => id).toSorted()).toEqual(['json-syntax', 'wrong-type'])
  expect(found.find(({ id }) => id === 'json-syntax')?.cure).toContain(cure)
})

it('two plugins without a cniVersion are no error: cnitool runs them', () => {
  const text = list(bridge, { type: 'tuning' }).replace('"cniVersion":"1.1.0",', '')
  const found = findingsIn(text)
  expect(found.map(({ id, severity }) => `${severity} ${id}`)).toEqual(['warning cni-version-missing'])
  expect(found[0]?.cure).not.toContain('1.1.0')
})

it('every id is one of lint', () => {
  const known = [...diagnoses().keys()]
  expect(faults.filter(([, , id]) => !known.includes(id))).toEqual([])
})
