// SPDX-License-Identifier: Apache-2.0
// Every file in conf-examples is run: ADD, CHECK, DEL, and nothing of the pod is left.

import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type NetworkList, readNetworkList, requestConf } from '../../src/cli/network-list.ts'
import { type Host, openHost } from '../support/host.ts'

const files = readdirSync('conf-examples').filter((name) => /\.conf(list)?$/.test(name))

/** Stands in for the reference dhcp plugin, which needs a daemon and a server: answers as it would. */
const dhcp = `#!/bin/sh
cat >/dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion":"1.1.0","ips":[{"address":"192.168.7.23/24","gateway":"192.168.7.1"}],"routes":[]}'
`

describe('conf-examples', () => {
  let host: Host
  let plugins: string
  beforeAll(() => {
    plugins = mkdtempSync(`${tmpdir()}/trestle-plugins-`)
    writeFileSync(`${plugins}/dhcp`, dhcp)
    chmodSync(`${plugins}/dhcp`, 0o755)
  })
  afterAll(() => rmSync(plugins, { recursive: true }))
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  const read = (file: string): NetworkList => readNetworkList(readFileSync(`conf-examples/${file}`, 'utf8'))

  it.each(files)('%s works', (file) => {
    const network = read(file)
    const [plugin = { type: '' }] = network.plugins
    const netns = host.pod('a')
    const call = { netns, path: plugins, ifName: file.startsWith('multus') ? 'net1' : 'eth0' }
    const conf = (prevResult?: unknown) => requestConf(network, plugin, { prevResult })
    const added = host.cni('ADD', conf(), call)
    expect(added.code, added.stdout).toBe(0)
    expect(host.inPod(netns, 'ip', ['-o', 'link', 'show', call.ifName]).stdout).toContain('LOWER_UP')
    const addresses = host.inPod(netns, 'ip', ['-o', 'addr', 'show', call.ifName]).stdout
    const { ips = [] } = added.json as { ips?: readonly { address: string }[] }
    for (const ip of ips) expect(addresses).toContain(ip.address)
    if (network.cniVersion !== '0.3.1') {
      const checked = host.cni('CHECK', conf(added.json), call)
      expect(checked.code, checked.stdout).toBe(0)
    }
    expect(host.cni('DEL', conf(added.json), call)).toMatchObject({ code: 0, stdout: '' })
    expect(host.inPod(netns, 'ip', ['link', 'show', call.ifName]).code).not.toBe(0)
    for (const kind of ['veth', 'ifb']) expect(host.run('ip', ['-o', 'link', 'show', 'type', kind]).stdout).toBe('')
  })
})
