// SPDX-License-Identifier: Apache-2.0
// The node's allow-list of sysctls (/etc/cni/tuning/allowlist.conf) as the upstream tuning plugin reads it.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'

const directory = '/etc/cni/tuning'
const key = 'net.ipv4.conf.IFNAME.arp_filter'
const conf = netConf({ tuning: { sysctl: { [key]: '1' } } })

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => {
  rmSync(directory, { recursive: true, force: true })
  host.close()
})

function allow(...lines: string[]): void {
  mkdirSync(directory, { recursive: true })
  writeFileSync(`${directory}/allowlist.conf`, `${lines.join('\n')}\n`)
}

describe('a sysctl', () => {
  it.each([
    ['its key', ['', '^net\\.ipv6\\.', '^net\\.ipv4\\.conf\\.IFNAME\\.arp_filter$']],
    ['its key with the name', ['^net\\.ipv4\\.conf\\.eth0\\.']],
    ['part of its key', ['arp_filter']],
    ['its path', ['^net/ipv4/conf/']],
  ])('is set where a line matches %s', (_, lines) => {
    allow(...lines)
    const pod = attach(host, conf)
    expect(host.inPod(pod.netns, 'sysctl', ['-n', 'net.ipv4.conf.eth0.arp_filter']).stdout).toBe('1\n')
    // What is allowed is asked when it is set, not afterwards.
    allow('^nothing$')
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it.each<[string, object, string[]]>([
    ['no line matches', conf, ['^net\\.ipv6\\.', '^arp_filter$']],
    ['the list is empty', conf, []],
    ['it is asked for in args', netConf({ tuning: {}, args: { cni: { sysctl: { [key]: '1' } } } }), ['^net\\.ipv6\\.']],
  ])('is refused before anything is touched where %s', (_, asked, lines) => {
    allow(...lines)
    const netns = host.pod('a')
    const before = snapshot(host)
    const refused = host.cni('ADD', asked, { netns })
    expectError(refused, 7, 'tuning.sysctl: Sysctl net.ipv4.conf.eth0.arp_filter is not allowed')
    expect(refused.json?.details).toContain(`Only the following sysctls are allowed: [${lines.join(' ')}]`)
    expectUntouched(host, before)
  })

  it('is refused (5) where the list cannot be read, naming the line', () => {
    allow('(')
    expectError(host.cni('ADD', conf, { netns: host.pod('a') }), 5, '"(" is no regular expression')
  })
})
