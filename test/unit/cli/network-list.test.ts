// SPDX-License-Identifier: Apache-2.0
// Configuration lists as a runtime reads them.

import { describe, expect, it } from 'vitest'
import { readNetworkList } from '../../../src/commands/network-list.ts'
import { requestConf } from '../../../src/commands/plugin-runtime.ts'
import { errorOf, lineOf } from './call.ts'

const list = (more: object) => JSON.stringify({ name: 'n', cniVersion: '1.0.0', plugins: [{ type: 'a' }], ...more })

describe('readNetworkList', () => {
  it('reads a single configuration as a list of one', () => {
    const network = readNetworkList('{"name":"n","cniVersion":"0.3.1","type":"trestle","podcidr":"10.0.0.0/24"}')
    expect(network).toMatchObject({
      name: 'n',
      cniVersion: '0.3.1',
      plugins: [{ type: 'trestle', podcidr: '10.0.0.0/24' }],
    })
  })

  it('takes the newest of cniVersions and cniVersion that is supported', () => {
    expect(readNetworkList(list({ cniVersion: '1.1.0', cniVersions: ['0.4.0', '1.0.0'] })).cniVersion).toBe('1.1.0')
    expect(readNetworkList(list({ cniVersions: ['0.4.0', '1.1.0', '9.0.0'] })).cniVersion).toBe('1.1.0')
  })

  it('takes the oldest version where none is given, as libcni does', () => {
    expect(readNetworkList('{"name":"n","type":"a"}').cniVersion).toBe('0.1.0')
  })

  it.each([
    ['{"name": }', /^\(6\) .*not valid JSON/],
    [list({ name: '' }), /^\(7\) this is no network configuration: the network has no name/],
    [list({ plugins: [] }), /^\(7\) .*plugins/],
    [list({ plugins: { length: [{ toString: 1 }] } }), /^\(7\) .*plugins/],
    [list({ name: { length: [{ toString: 1 }] } }), /^\(7\) .*name/],
    [list({ plugins: [{}] }), /^\(7\) .*the plugin has no type/],
    [list({ plugins: [{ type: '../../run/evil' }] }), /^\(7\) .*plugins\[0\].type: .* is no name of a plugin/],
    [list({ cniVersion: '7.0.0' }), /^\(1\) cniVersion: "7.0.0" is no version of CNI/],
  ])('refuses %s', (text, message) => {
    expect(lineOf(errorOf(() => readNetworkList(text)))).toMatch(message)
  })
})

describe('requestConf', () => {
  const network = readNetworkList(list({ plugins: [{ type: 'a', capabilities: { mac: true, ips: false } }] }))
  const [plugin = { type: '' }] = network.plugins

  it('gives a plugin the capabilities it declares only', () => {
    const conf = requestConf(network, plugin, { capabilityArgs: { mac: 'x', ips: ['y'], bandwidth: {} } })
    expect(conf).toMatchObject({ name: 'n', cniVersion: '1.0.0', type: 'a', runtimeConfig: { mac: 'x' } })
  })

  it('adds neither runtimeConfig nor prevResult where there is none', () => {
    expect(Object.keys(requestConf(network, plugin, {}))).not.toEqual(
      expect.arrayContaining(['runtimeConfig', 'prevResult']),
    )
  })
})
