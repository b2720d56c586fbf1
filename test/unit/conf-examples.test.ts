// SPDX-License-Identifier: Apache-2.0
// Every file in conf-examples is one that trestle accepts.

import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { readNetworkList, requestConf } from '../../src/cli/network-list.ts'
import { readConfig } from '../../src/cni/config.ts'
import { callOf } from './cni/call.ts'

const files = readdirSync('conf-examples').filter((name) => /\.conf(list)?$/.test(name))

it('there are examples', () => expect(files.length).toBeGreaterThan(6))

it.each(files)('%s is accepted', (file) => {
  const network = readNetworkList(readFileSync(`conf-examples/${file}`, 'utf8'))
  const own = network.plugins.filter((plugin) => plugin.type === 'trestle')
  expect(own.length).toBeGreaterThan(0)
  for (const plugin of own) {
    const conf = readConfig(JSON.stringify(requestConf(network, plugin, {})), callOf('ADD'))
    expect(conf).toMatchObject({ name: network.name, type: 'trestle', role: 'main' })
  }
})

it('the demo is the one of the talk, word for word', () => {
  const text = readFileSync('conf-examples/podcidr-demo.conf', 'utf8').trim()
  expect(text).toBe('{"cniVersion":"0.3.1","name":"my-cni-demo","type":"trestle","podcidr":"10.240.0.0/24"}')
})
