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
const routes = [{ dst: '0.0.0.0/0' }]
const pool = { type: 'host-local', subnet: '10.1.2.0/24' }
const ptp = { type: 'ptp', ipam: pool }
const portmap = { type: 'portmap', capabilities: { portMappings: true } }
const range = (more: object) => list({ type: 'ptp', ipam: { type: 'host-local', ...more } })

describe('the cure', () => {
  it.each([
    ['of a negated key says the opposite', 'unknown-key', list(ptp, { ...portmap, noSnat: true }), 'opposite value'],
    ['of a misspelt key is the key', 'unknown-key', list({ ...ptp, ipMask: true }), 'write "ipMasq"'],
    [
      'of a missing type names no plugin',
      'type-missing',
      list({ ipam: pool }),
      'file name of the plugin that is meant',
    ],
    ['of a misspelt type is its spelling', 'type-missing', list({ tpye: 'ptp' }), 'write "type" for "tpye"'],
    ['of missing plugins names none', 'plugins-missing', '{"cniVersion":"1.1.0"}', '"type": …, … }'],
    [
      'of misspelt plugins is their spelling',
      'plugins-missing',
      '{"cniVersion":"1.1.0","name":"n","pugins":[{"type":"calico"}]}',
      'write "plugins" for "pugins"',
    ],
    ['of a pool without ranges knows host-local only', 'range-invalid', range({}), '"ranges": [ [ { "subnet"'],
    ['of a gateway that nobody has spares an internal network', 'gateway-of-nobody', internal(), 'remove the default'],
    [
      'of an address with an octet too few shows one',
      'range-invalid',
      range({ ...pool, gateway: '10.1.2' }),
      '10.1.2.3',
    ],
  ])('%s', (_, id, text, cure) => {
    expect(findingOf(id, text)?.cure).toContain(cure)
    expect(findingOf(id, text)?.cure).not.toMatch(/trestle|podcidr/)
  })

  it.each([
    ['{"a":{"b":1},{"c":2}}', 'close the object before it'],
    ['{"a":1,: [2]}', 'put the key before the colon'],
    ['{"a":1,[2]}', 'put a key and a colon before it'],
    ['{"a":1,,"b":2}', 'remove one of them'],
    ['{a: 1}', 'put it in double quotes'],
  ])('of %s', (text, cure) => expect(findingOf('json-syntax', text)?.cure).toContain(cure))
})

function internal(): string {
  return list({ type: 'bridge', bridge: 'br0', ipam: { ...pool, routes } })
}

describe('the cause', () => {
  it('of a list in a .conf is what libcni finds in it', () => {
    const single = `{"type":"bridge",${list(ptp).slice(1)}`
    const file = '10-x.conf'
    expect(findingOf('list-in-conf', single, { file })?.cause).toContain('call the "bridge" at the top alone')
    expect(findingOf('list-in-conf', single, { file })?.cure).toContain('remove the type beside plugins')
    expect(findingOf('list-in-conf', list(ptp), { file })?.cause).toContain('find no type')
  })

  it.each([
    ['an octet too few', range({ ...pool, gateway: '10.1.2' })],
    ['no range', range({})],
    ['host bits', range({ subnet: '10.1.2.3/24' })],
  ])('of %s is not that of another range', (_, text) => {
    expect(findingOf('range-invalid', text)?.cause).toContain('ADD is refused')
    expect(findingOf('range-invalid', text)?.cause).not.toMatch(/host bits|outside/)
  })
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
