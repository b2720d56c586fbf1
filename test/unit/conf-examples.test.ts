// SPDX-License-Identifier: Apache-2.0
// Every file in conf-examples is one that trestle accepts.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { readNetworkList } from '../../src/commands/network-list.ts'
import { requestConf } from '../../src/commands/plugin-runtime.ts'
import { readConfig } from '../../src/config/read-config.ts'
import { callOf } from './call.ts'

const files = readdirSync('conf-examples').filter((name) => /\.conf(list)?$/.test(name))

/** For those that declare them. */
const capabilityArgs = {
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }],
  ipRanges: [[{ subnet: '10.250.0.0/24' }]],
}

/** What the plugin before a chained one gave. */
const fromMacvlan = {
  cniVersion: '1.1.0',
  interfaces: [{ name: 'eth0', mac: '0a:00:00:00:00:01', sandbox: '/run/netns/a' }],
  ips: [{ address: '10.252.0.2/24', gateway: '10.252.0.1', interface: 0 }],
}

it('there are examples', () => expect(files.length).toBeGreaterThan(12))

it.each(files)('%s is accepted', (file) => {
  const network = readNetworkList(readFileSync(`conf-examples/${file}`, 'utf8'))
  const own = network.plugins.filter((plugin) => plugin.type === 'trestle')
  expect(own.length).toBeGreaterThan(0)
  for (const plugin of own) {
    const isFirst = plugin === network.plugins[0]
    const injected = isFirst ? { capabilityArgs } : { capabilityArgs, prevResult: fromMacvlan }
    const conf = readConfig(JSON.stringify(requestConf(network, plugin, injected)), callOf('ADD'))
    expect(conf).toMatchObject({ name: network.name, type: 'trestle', role: isFirst ? 'main' : 'chained' })
  }
})

it('together they declare every capability that trestle has', () => {
  const lists = files.map((file) => readNetworkList(readFileSync(`conf-examples/${file}`, 'utf8')))
  const declared = lists.flatMap(({ plugins }) => plugins.flatMap((plugin) => Object.keys(plugin.capabilities ?? {})))
  expect([...new Set(declared)].sort()).toEqual(['bandwidth', 'dns', 'ipRanges', 'ips', 'mac', 'portMappings'])
})

it('the demo is the one of the talk, word for word', () => {
  const text = readFileSync('conf-examples/podcidr-demo.conf', 'utf8').trim()
  expect(text).toBe('{"cniVersion":"0.3.1","name":"my-cni-demo","type":"trestle","podcidr":"10.240.0.0/24"}')
})
