// SPDX-License-Identifier: Apache-2.0
// Every file in conf-examples is run, list by list as a runtime does, with every capability it declares:
// ADD, CHECK, DEL, and nothing of the pod is left.

import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { execaSync } from 'execa'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { environment, type Finished, type Host, openHost, trestle, type Verb } from '../../support/host.ts'
import { type NetworkList, type PluginConf, readNetworkList, requestConf } from '../../support/network-list.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { addUplink } from '../../support/traffic/traffic.ts'
import { upstreamPlugins } from '../../support/upstream.ts'

const files = readdirSync('conf-examples').filter((name) => /\.conf(list)?$/.test(name))

/** Stands in for the upstream dhcp plugin, which needs a daemon and a server: answers as it would. */
const dhcp = `#!/bin/sh
cat >/dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion":"1.1.0","ips":[{"address":"192.168.7.23/24","gateway":"192.168.7.1"}],"routes":[]}'
`

/** What a runtime has for each capability; a plugin gets those it declares. */
const capabilityArgs = {
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }],
  bandwidth: { ingressRate: 10_000_000, ingressBurst: 4294967295, egressRate: 10_000_000, egressBurst: 4294967295 },
  ipRanges: [[{ subnet: '10.250.0.0/24' }]],
  mac: '0a:00:00:00:00:42',
  dns: { servers: ['10.96.0.10'], searches: ['svc.cluster.local'] },
}

/** An address to ask for, where the network has it. */
const wantedIps: Readonly<Record<string, readonly string[]>> = {
  capable: ['10.250.0.77'],
  everything: ['10.254.0.77', 'fd00:254::77'],
}

/** Why the network cannot be run with the upstream plugins of this machine. */
function unfitFor(network: NetworkList, { type }: PluginConf): string | undefined {
  if (type === 'trestle') return undefined
  const file = `${upstreamPlugins}/${type}`
  if (!existsSync(file)) return `no ${file}`
  const env = { CNI_COMMAND: 'VERSION' }
  const { supportedVersions } = JSON.parse(execaSync(file, { env, stdin: 'ignore' }).stdout)
  return supportedVersions.includes(network.cniVersion) ? undefined : `${file} has no CNI ${network.cniVersion}`
}

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
    addUplink(host)
    // Of host-device.conflist.
    const lan = host.pod('lan')
    const peer = ['peer', 'name', 'lan1', 'netns', lan.slice('/run/netns/'.length)]
    expect(host.run('ip', ['link', 'add', 'eth1', 'type', 'veth', ...peer]).code).toBe(0)
    host.inPod(lan, 'ip', ['link', 'set', 'lan1', 'up'])
  })
  afterEach(() => host.close())

  const links = () =>
    ['veth', 'ifb', 'macvlan'].map((kind) => host.run('ip', ['-br', 'link', 'show', 'type', kind]).stdout)

  /** Runs one plugin of a list: ours, or the upstream one of its type. */
  function run(verb: Verb, plugin: PluginConf, sent: { conf: object; call: object }): Finished {
    const call = { ...sent.call, path: `${plugins}:${upstreamPlugins}:${dirname(trestle)}` }
    if (plugin.type === 'trestle') return host.cni(verb, sent.conf, call)
    const env = Object.entries({ ...environment(verb, call), ...stateEnv(host) })
    const words = env.map(([name, value]) => `${name}=${value}`)
    const done = host.run('env', ['-i', ...words, `${upstreamPlugins}/${plugin.type}`], JSON.stringify(sent.conf))
    return { ...done, json: verb === 'ADD' && done.code === 0 ? JSON.parse(done.stdout) : undefined }
  }

  async function expectWorking(network: NetworkList, ifName: string): Promise<void> {
    const before = links()
    const netns = host.pod('a')
    const call = { netns, ifName }
    const ips = wantedIps[network.name]
    const args = { ...capabilityArgs, ...(ips ? { ips } : {}) }
    const send = (verb: Verb, plugin: PluginConf, prevResult?: unknown): Finished => {
      const done = run(verb, plugin, { conf: requestConf(network, plugin, { capabilityArgs: args, prevResult }), call })
      expect(done.code, `${verb} ${plugin.type}: ${done.stdout}${done.stderr}`).toBe(0)
      return done
    }
    let result: Finished['json']
    for (const plugin of network.plugins) result = send('ADD', plugin, result).json
    const shown = () => host.inPod(netns, 'ip', ['-o', 'link', 'show', ifName]).stdout
    await expect.poll(shown, { timeout: 20_000 }).toContain('LOWER_UP')
    const addresses = host.inPod(netns, 'ip', ['-o', 'addr', 'show', ifName]).stdout
    for (const { address } of result?.ips ?? []) expect(addresses).toContain(address)
    for (const wanted of ips ?? []) expect(addresses).toContain(wanted)
    if (network.cniVersion !== '0.3.1') for (const plugin of network.plugins) send('CHECK', plugin, result)
    for (const plugin of [...network.plugins].reverse()) send('DEL', plugin, result)
    expect(host.inPod(netns, 'ip', ['link', 'show', ifName]).code).not.toBe(0)
    expect(links()).toEqual(before)
  }

  it.for(files)('%s works', async (file, context) => {
    const network = readNetworkList(readFileSync(`conf-examples/${file}`, 'utf8'))
    const unfit = network.plugins.flatMap((plugin) => unfitFor(network, plugin) ?? [])[0]
    if (unfit !== undefined) {
      const reason = `conf-examples/${file} is not run: ${unfit}; scripts/peers.sh cni builds it`
      process.stdout.write(`${reason}\n`)
      context.skip(reason)
    }
    await expectWorking(network, file.startsWith('multus') ? 'net1' : 'eth0')
  })
})
