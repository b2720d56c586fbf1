// SPDX-License-Identifier: Apache-2.0
// Fault by fault: a file that has just this one gives the id of just this one, and the file without it gives none.

import { describe, expect, it } from 'vitest'
import { lintText } from '../../../../src/commands/lint/file.ts'
import { openPrograms } from '../../../../src/commands/lint/programs.ts'
import { idsOfFamily } from '../../../support/ids.ts'

const nowhere = openPrograms(['/nonexistent/bin'])

/** Errors and warnings of a file; `isWhole`: notes too. */
function idsOf(text: string, { isWhole = false, file = '10-n.conflist' } = {}): readonly string[] {
  const found = lintText(file, text, nowhere).findings.filter(({ id }) => id !== 'bin-dir-missing')
  return found.filter(({ severity }) => isWhole || severity !== 'note').map(({ id }) => id)
}

type Conf = Readonly<Record<string, unknown>>

const list = (...plugins: readonly Conf[]) => JSON.stringify({ cniVersion: '1.1.0', name: 'pods', plugins })
const route = { routes: [{ dst: '0.0.0.0/0' }] }
const hostLocal = (range: Conf) => ({ type: 'host-local', ranges: [[range]], ...route })
const bridge = (more: Conf = {}) => ({ type: 'bridge', bridge: 'br0', isGateway: true, ipMasq: true, ...more })
const inRange = (range: Conf, more: Conf = {}) => bridge({ ipam: hostLocal(range), ...more })
const whole = { subnet: '10.1.0.0/24' }
const portmap = { type: 'portmap', capabilities: { portMappings: true } }
const good = inRange(whole)
const trestle = (more: Conf = {}) => ({ type: 'trestle', bridge: 'br0', ...more })
const wrapped = (range: Conf) =>
  list({ ...inRange(range), type: 'trestle', record: { wrap: 'bridge' } }, { type: 'trestle', record: { wrap: 'sbr' } })

/** The fault, the file that has it, its id, and the same file without it. */
const faults: readonly (readonly [fault: string, faulty: string, id: string, good: string])[] = [
  ['a subnet that is none', list(inRange({ subnet: '10.1.0.0/33' })), 'range-invalid', list(good)],
  ['a subnet of a wrapped plugin that is none', wrapped({ subnet: '10.1.0.0/33' }), 'range-invalid', wrapped(whole)],
  [
    'answers in the place of a plugin',
    list({ ...good, type: 'trestle', record: { answer: {} } }),
    'record-stands-in',
    wrapped(whole),
  ],
  ['a subnet without a length', list(inRange({ subnet: '10.1.0.0' })), 'range-invalid', list(good)],
  ['host bits', list(inRange({ subnet: '10.1.0.9/24' })), 'range-invalid', list(good)],
  ['no range', list(bridge({ ipam: { type: 'host-local', ...route } })), 'range-invalid', list(good)],
  [
    'static without addresses',
    list(bridge({ ipam: { type: 'static', ...route } })),
    'addresses-missing',
    list(bridge({ ipam: { type: 'static', addresses: [{ address: '10.1.0.7/24' }], ...route } })),
  ],
  ['a name of 16 bytes', list(inRange(whole, { bridge: 'abcdefghijklmnop' })), 'invalid-value', list(good)],
  ['an MTU out of bounds', list(inRange(whole, { mtu: 70_000 })), 'invalid-value', list(inRange(whole, { mtu: 9000 }))],
  ['an MTU in quotes', list(inRange(whole, { mtu: '1500' })), 'wrong-type', list(inRange(whole, { mtu: 1500 }))],
  [
    'a policy that does not exist',
    list(good, { type: 'firewall', ingressPolicy: 'closed' }),
    'invalid-value',
    list(good, { type: 'firewall', ingressPolicy: 'same-bridge' }),
  ],
  [
    'a range that ends on the broadcast address',
    list(inRange({ ...whole, rangeEnd: '10.1.0.255' })),
    'range-edge',
    list(inRange({ ...whole, rangeEnd: '10.1.0.254' })),
  ],
  [
    'a range that begins on the network address',
    list(inRange({ ...whole, rangeStart: '10.1.0.0' })),
    'range-edge',
    list(inRange({ ...whole, rangeStart: '10.1.0.1' })),
  ],
  [
    'a gateway outside of its subnet',
    list(inRange({ ...whole, gateway: '10.2.0.1' })),
    'gateway-outside-subnet',
    list(inRange({ ...whole, gateway: '10.1.0.1' })),
  ],
  ['a gateway that nobody has', list(inRange(whole, { isGateway: false })), 'gateway-of-nobody', list(good)],
  [
    'no default route',
    list(bridge({ ipam: { type: 'host-local', ranges: [[whole]] } })),
    'no-default-route',
    list(bridge({ isDefaultGateway: true, ipam: { type: 'host-local', ranges: [[whole]] } })),
  ],
  ['a meta plugin first', list({ type: 'portmap' }, good), 'chained-first', list(good, portmap)],
  ['portmap without its capability', list(good, { type: 'portmap' }), 'capability-missing', list(good, portmap)],
  [
    'two main plugins',
    list(good, { type: 'macvlan', master: 'eth0', ipam: { type: 'dhcp' } }),
    'two-main-plugins',
    list(good),
  ],
  ['a placeholder of an installer', list(inRange(whole, { mtu: '__CNI_MTU__' })), 'placeholder', list(good)],
  ['a placeholder of helm', list(good).replace('"br0"', '"{{ .Values.bridge }}"'), 'placeholder', list(good)],
  ['a variable', list(inRange({ subnet: '$POD_CIDR' })), 'placeholder', list(good)],
  ['a word for an address', list(inRange({ subnet: 'SUBNET' })), 'placeholder', list(good)],
  ['a comment', list(good).replace('"name"', '/* ours */ "name"'), 'json-syntax', list(good)],
  ['a comma too many', list(good).replace(/\}$/, ',}'), 'json-syntax', list(good)],
  ['typographic quotes', list(good).replace('"name"', '“name”'), 'json-syntax', list(good)],
  ['UTF-16', `\ufffd\ufffd${list(good)}`, 'json-syntax', list(good)],
  ['a resource of Kubernetes', '{"kind":"NetworkAttachmentDefinition","spec":{}}', 'network-attachment', list(good)],
  ['an empty file', ' \n', 'file-empty', list(good)],
  ['a list of objects', '[]', 'not-an-object', list(good)],
  ['no name', list(good).replace('"name":"pods",', ''), 'name-missing', list(good)],
  ['a name with a slash', list(good).replace('"pods"', '"a/b"'), 'name-invalid', list(good)],
  ['a version that is none', list(good).replace('"1.1.0"', '"1.3.0"'), 'cni-version-unknown', list(good)],
  ['no type', list({ ...good, type: '' }), 'type-missing', list(good)],
  ['no plugins', '{"cniVersion":"1.1.0","name":"pods","plugins":[]}', 'plugins-missing', list(good)],
  ['a key twice', list(good).replace('"bridge":"br0"', '"bridge":"br0","bridge":"br1"'), 'duplicate-key', list(good)],
  ['a misspelt key', list(inRange(whole, { hairpinmode: true, isGatway: true })), 'unknown-key', list(good)],
  ['a key of trestle in bridge', list(bridge({ podcidr: '10.1.0.0/24' })), 'key-of-trestle', list(good)],
  [
    'a misspelt key of ours',
    list(trestle({ podcidr: '10.1.0.0/24', hairpin: 1 })),
    'unknown-key',
    list(trestle({ podcidr: '10.1.0.0/24' })),
  ],
  [
    'our host bits',
    list(trestle({ podcidr: '10.1.0.9/24' })),
    'range-invalid',
    list(trestle({ podcidr: '10.1.0.0/24' })),
  ],
  [
    'our MTU',
    list(trestle({ podcidr: '10.1.0.0/24', mtu: 50 })),
    'invalid-value',
    list(trestle({ podcidr: '10.1.0.0/24', mtu: 1400 })),
  ],
  [
    'our MTU in quotes',
    list(trestle({ podcidr: '10.1.0.0/24', mtu: '1400' })),
    'wrong-type',
    list(trestle({ podcidr: '10.1.0.0/24', mtu: 1400 })),
  ],
  [
    'a word that a key of ours does not take',
    list(trestle({ podcidr: '10.1.0.0/24', firewall: { ingressPolicy: 'close' } })),
    'invalid-value',
    list(trestle({ podcidr: '10.1.0.0/24', firewall: { ingressPolicy: 'isolated' } })),
  ],
  [
    'our type of a value',
    list(trestle({ podcidr: '10.1.0.0/24', ipMasq: 'yes' })),
    'wrong-type',
    list(trestle({ podcidr: '10.1.0.0/24', ipMasq: true })),
  ],
  [
    'a misspelt key in ipam of ours',
    list(
      trestle({ isDefaultGateway: true, ipam: { type: 'host-local', subnet: '10.1.0.0/24', rangestop: '10.1.0.9' } }),
    ),
    'unknown-key',
    list(trestle({ isDefaultGateway: true, ipam: { type: 'whereabouts', range: '10.1.0.0/24' } })),
  ],
  [
    'trestle chained twice',
    list(good, { type: 'trestle', firewall: {} }, { type: 'trestle', sbr: {} }),
    'chained-twice',
    list(good, { type: 'trestle', firewall: {}, sbr: {} }),
  ],
  [
    'a placeholder in the delegate of flannel',
    list({ type: 'flannel', delegate: { isDefaultGateway: true, mtu: '$MTU_OF_UPLINK' } }),
    'placeholder',
    list({ type: 'flannel', delegate: { isDefaultGateway: true, hairpinMode: true } }),
  ],
  [
    'a placeholder of Calico',
    list({ type: 'calico', mtu: '__CNI_MTU__', ipam: { type: 'calico-ipam' } }),
    'placeholder',
    list({ type: 'calico', mtu: 1440, ipam: { type: 'calico-ipam' } }),
  ],
]

describe('one fault, one id', () => {
  it.each(faults)('%s', (_, faulty, id, without) => {
    expect({ faulty: idsOf(faulty), good: idsOf(without) }).toEqual({ faulty: [id], good: [] })
  })
})

it('a public range is a note', () => {
  expect(idsOf(list(inRange({ subnet: '8.8.8.0/24' })), { isWhole: true })).toEqual(['range-public'])
  expect(idsOf(list(good), { isWhole: true })).toEqual([])
})

it.each([
  ['a comma too many', (text: string) => text.replace(/\}$/, ',}'), 'remove the comma: the last entry has none'],
  ['two commas', (text: string) => text.replace(',', ',,'), 'remove one of them'],
  ["Python's True", (text: string) => text.replace(':true', ':True'), 'write true'],
  ['a bracket too many', (text: string) => `${text}}\n`, 'a file holds one object: remove the rest, or make it'],
])('a second error after %s is found', (_, spoilt, cure) => {
  const text = spoilt(list(inRange(whole, { mtu: '1500' })))
  expect(idsOf(text).toSorted()).toEqual(['json-syntax', 'wrong-type'])
  const { findings } = lintText('10-n.conflist', text, nowhere)
  expect(findings.find(({ id }) => id === 'json-syntax')?.cure).toContain(cure)
})

it('a number out of its bounds is not told to lose its quotes, and one in quotes is', () => {
  const cureOf = (conf: Conf) =>
    lintText('10-n.conflist', list(inRange(whole, conf)), nowhere).findings.find(({ severity }) => severity === 'error')
      ?.cure
  expect([cureOf({ mtu: '1500' }), cureOf({ vlan: '5' })].every((cure) => cure?.includes('without quotes'))).toBe(true)
  expect(cureOf({ mtu: 70_000 })).toBe("use the uplink's, 1500 as a rule, or leave it out")
  expect(cureOf({ vlan: 5000 })).toBe('use a number from 0 to 4094, or leave it out')
})

it('two plugins without a cniVersion are no error: cnitool runs them', () => {
  const text = list(good, portmap).replace('"cniVersion":"1.1.0",', '')
  const { findings } = lintText('10-n.conflist', text, nowhere)
  const found = findings.filter(({ id }) => id !== 'bin-dir-missing')
  expect(found.map(({ id, severity }) => `${severity} ${id}`)).toEqual(['warning cni-version-missing'])
  expect(found[0]?.cure).not.toContain('1.1.0')
})

it('every id is one of lint', () => {
  const known = idsOfFamily('lint')
  expect(faults.filter(([, , id]) => !known.includes(id))).toEqual([])
})
