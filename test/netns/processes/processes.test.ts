// SPDX-License-Identifier: Apache-2.0
// How many programs a call starts, and what STATUS knows of them without starting any. Programs in a directory of the
// test's own note that they were started and are the real ones then; what `nsenter` starts is not counted again.

import { chmodSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateFiles, stateWord } from '../../support/state-layout.ts'
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

/** Installs a noting program in one step, as a package manager does; `first`: lines of shell that come before the real one. */
function install(tool: string, first = ''): void {
  const real = execaSync('sh', ['-c', `command -v ${tool}`], { reject: false }).stdout || `/nonexistent/${tool}`
  // The test's own way into the node, by which the call itself is started.
  const isCall = `case "$*" in *"-- ${trestle}") exec ${real} "$@" ;; esac`
  const note = `echo $(echo "${tool} $*" | tr '\\n' ' ') >>${bin}/started`
  const lines = ['#!/bin/sh', isCall, note, first, `PATH=${process.env['PATH']} exec ${real} "$@"`]
  writeFileSync(`${bin}/${tool}.new`, `${lines.join('\n')}\n`)
  chmodSync(`${bin}/${tool}.new`, 0o755)
  renameSync(`${bin}/${tool}.new`, `${bin}/${tool}`)
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

describe('an nft that is too old', () => {
  const old = (also = '') => `[ "$1" = --version ] && { echo "nftables v1.0.1 (Fearless Fosdick #3)"; exit; }\n${also}`
  const conf = netConf()

  it.each([
    ['though its rules were taken', '', 0],
    ['and refuses the rules', 'echo \'Could not open file "/dev/stdin"\' >&2; exit 1', 1],
  ])('is known to STATUS after a setup, %s, which starts nothing', (_, also, code) => {
    install('nft', old(also))
    expectSilent(host.cni('STATUS', conf, { env: env() }))
    const added = host.cni('ADD', conf, { netns: host.pod('a'), env: env() })
    expect(added.code, added.stdout).toBe(code)
    const started = startedBy(() => {
      const status = host.cni('STATUS', conf, { env: env() })
      expectError(status, 50, 'nft 1.0.1 is too old')
      expect(status.json?.details).toContain('nftables 1.0.2')
    })
    expect(started).toEqual([])
    // Not where no rules are needed.
    expectSilent(host.cni('STATUS', { ...conf, podcidr: undefined }, { env: env() }))
    // Another file is another version, which is not known yet.
    install('nft')
    expectSilent(host.cni('STATUS', conf, { env: env() }))
  })

  it('is known to STATUS after a setup also where a directory stood in the place of what is known', () => {
    mkdirSync(`${stateFiles(host).nftVersion}/something`, { recursive: true })
    install('nft', old())
    attach(host, conf, { env: env() })
    expectError(host.cni('STATUS', conf, { env: env() }), 50, 'nft 1.0.1 is too old')
  })

  it('is asked for its version at a setup, and at no other ADD', () => {
    const versions = (id: string) =>
      startedBy(() => attach(host, conf, { id, env: env() })).filter((line) => line.includes('--version'))
    expect([versions('first'), versions('second')]).toEqual([['nft --version'], []])
  })
})
