// SPDX-License-Identifier: Apache-2.0
// How many programs a call starts. Programs in a directory of the test's own note that they were started and are the
// real ones then; what `nsenter` starts is not counted again.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectSilent } from '../../support/outcome.ts'
import { stateWord } from '../../support/state-layout.ts'
import { attach, ipamConf, later, netConf } from '../../support/traffic/pods.ts'

const tools = ['ip', 'nft', 'tc', 'nsenter', 'sysctl', 'bridge', 'conntrack']
const sysctls = { 'net.ipv4.conf.IFNAME.arp_filter': '1', 'net.core.somaxconn': '500' }
const limits = { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: 8_000_000, egressBurst: 800_000 }

let host: Host
let bin: string
beforeEach(() => {
  host = openHost()
  bin = mkdtempSync(`${tmpdir()}/trestle-counted-`)
  for (const tool of tools) install(tool)
})
afterEach(() => {
  host.close()
  rmSync(bin, { recursive: true, force: true })
})

/** Installs a noting program. */
function install(tool: string): void {
  const real = execaSync('sh', ['-c', `command -v ${tool}`], { reject: false }).stdout || `/nonexistent/${tool}`
  // The test's own way into the node, by which the call itself is started.
  const isCall = `case "$*" in *"-- ${trestle}") exec ${real} "$@" ;; esac`
  const note = `echo $(echo "${tool} $*" | tr '\\n' ' ') >>${bin}/started`
  const lines = ['#!/bin/sh', isCall, note, `PATH=${process.env['PATH']} exec ${real} "$@"`]
  writeFileSync(`${bin}/${tool}`, `${lines.join('\n')}\n`, { mode: 0o755 })
}

const env = () => ({ PATH: `${bin}:${process.env['PATH']}` })

/** What was started by `body`, a line each. */
function startedBy(body: () => void): readonly string[] {
  writeFileSync(`${bin}/started`, '')
  body()
  return readFileSync(`${bin}/started`, 'utf8').split('\n').filter(Boolean)
}

describe('programs', () => {
  it('that cannot start for want of descriptors are named as such, and no path is called unwritable', () => {
    const pod = host.pod('few')
    const input = JSON.stringify(netConf({ podcidr: '10.240.0.0/24' }))
    const request = `CNI_COMMAND=ADD CNI_CONTAINERID=few CNI_NETNS=${pod} CNI_IFNAME=eth0 CNI_PATH=/x`
    const limited = (most: number) =>
      host.run('sh', ['-c', `ulimit -n ${most}; echo '${input}' | ${request} ${stateWord(host)} ${trestle}`])
    // With fewer descriptors nothing begins, with more all is well.
    const found = Array.from({ length: 20 }, (_, at) => limited(24 + 2 * at).json?.msg ?? '')
    expect(found.filter((message) => message.includes('spawn'))).toEqual([])
    expect(found.join('\n')).toMatch(/^cannot run \S+: EMFILE \[command-not-started\]$/m)
  })

  it('of a CHECK are four where bandwidth and sysctls meet, and it sees both', () => {
    const conf = netConf({
      podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
      bandwidth: limits,
      tuning: { sysctl: sysctls },
    })
    const pod = attach(host, conf)
    const call = { conf, pod, call: { env: env() } }
    const started = startedBy(() => expectSilent(later(host, 'CHECK', call)))
    expect(started.map((line) => line.split(' ')[0]).sort()).toEqual(['ip', 'nft', 'nsenter', 'tc'])
    host.inPod(pod.netns, 'sysctl', ['-qw', 'net.core.somaxconn=7', 'net.ipv4.conf.eth0.arp_filter=0'])
    const { json } = later(host, 'CHECK', call)
    expect(json?.details).toContain('net.core.somaxconn')
    expect(json?.details).toContain('net.ipv4.conf.eth0.arp_filter')
  })

  it.each([
    ['IPv4', { podcidr: '10.240.0.0/24' }],
    ['both families', { podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }],
    ['IPv6', { podcidr: 'fd00:240::/64' }],
  ])('of an ADD are three where the network is there: %s', (_, options) => {
    attach(host, netConf(options))
    const netns = host.pod('second')
    const started = startedBy(() => attach(host, netConf(options), { netns, id: 'second', env: env() }))
    expect(started.map((line) => line.split(' ')[0]).sort()).toEqual(['ip', 'nft', 'nsenter'])
  })

  it('of an ADD with delegated IPAM set sysctls once', () => {
    const plugin = installIpam({ ADD: answer() })
    try {
      const conf = ipamConf({ type: 'scripted' }, { tuning: { sysctl: sysctls } })
      const netns = host.pod('a')
      const started = startedBy(() => attach(host, conf, { netns, path: plugin.path, env: env() }))
      expect(started.filter((line) => line.includes(' sysctl '))).toHaveLength(1)
      expect(host.inPod(netns, 'sysctl', ['-n', 'net.core.somaxconn', 'net.ipv4.conf.eth0.arp_filter']).stdout).toBe(
        '500\n1\n',
      )
    } finally {
      plugin.remove()
    }
  })
})
