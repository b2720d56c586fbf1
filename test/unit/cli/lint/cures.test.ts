// SPDX-License-Identifier: Apache-2.0
// What lint tells to do, and why: nothing that breaks what works, and nothing that is not the case.

import { describe, expect, it } from 'vitest'
import { lintText } from '../../../../src/commands/lint/file.ts'
import { openPrograms } from '../../../../src/commands/lint/programs.ts'

const nowhere = openPrograms(['/nonexistent/bin'])

/** The first finding of the id. */
function findingOf(id: string, text: string, { file = '10-x.conflist' } = {}) {
  return lintText(file, text, nowhere).findings.find((each) => each.id === id)
}

const list = (...plugins: readonly object[]) => JSON.stringify({ cniVersion: '1.1.0', name: 'n', plugins })
const ptp = { type: 'ptp', ipam: { type: 'host-local', subnet: '10.1.2.0/24' } }
const ours = (more: object) => list({ type: 'trestle', podcidr: '10.1.2.0/24', ...more })

describe('the cure', () => {
  it.each([
    ['of a misspelt key is the key', 'unknown-key', ours({ ipMask: true }), 'write "ipMasq"'],
    ['of a key in another place is its place', 'unknown-key', ours({ snat: false }), 'move it into portmap'],
    ['of a missing type names no plugin', 'type-missing', list({ ipam: {} }), 'file name of the plugin that is meant'],
    ['of a misspelt type is its spelling', 'type-missing', list({ tpye: 'ptp' }), 'write "type" for "tpye"'],
    ['of missing plugins names none', 'plugins-missing', '{"cniVersion":"1.1.0"}', '"type": …, … }'],
    [
      'of a capability that is misspelt is the capability',
      'capability-unknown',
      list({ ...ptp, capabilities: { portMapping: true } }),
      'write "portMappings"',
    ],
    ['of an MTU in quotes is a number', 'wrong-type', ours({ mtu: '1500' }), 'a number from 68 to 65535'],
    [
      'of a capability in quotes has none',
      'wrong-type',
      list({ ...ptp, capabilities: { ips: 'true' } }),
      'without quotes',
    ],
    ['of a range with host bits is the range', 'range-subnet', ours({ podcidr: '10.1.2.3/24' }), '10.1.2.0/24'],
  ])('%s', (_, id, text, cure) => {
    expect(findingOf(id, text)?.cure).toContain(cure)
  })

  it.each([
    ['{"a": 1,}', 'remove the comma: the last entry has none'],
    ['{"a": 1,, "b": 2}', 'remove'],
    ['{"a": 1 "b": 2}', 'put a comma between the entries'],
    ['{"a" 1}', 'put a colon between key and value'],
    ["{'a': 1}", 'use double quotes'],
    ['{a: 1}', 'put it in double quotes'],
    ['{"a": "C:\\dir"}', 'write a backslash as'],
    ['{"a": {"b": 1}', 'the file is cut short'],
    ['{} {}', 'a file holds one object'],
  ])('of %s', (text, cure) => expect(findingOf('json-syntax', text)?.cure).toContain(cure))
})

describe('what other tools need', () => {
  it.each([
    [
      'keys of nerdctl and podman',
      `{"nerdctlID":"f5","nerdctlLabels":{},"args":{"podman_labels":{}},${list(ptp).slice(1)}`,
    ],
    ["Multus' file about a device", list({ type: 'ovs', bridge: 'br1', capabilities: { CNIDeviceInfoFile: true } })],
  ])('%s: is not to be removed', (_, text) => {
    const { findings } = lintText('10-x.conflist', text, nowhere)
    expect(findings.map(({ id }) => id)).toEqual(['bin-dir-missing'])
  })
})
