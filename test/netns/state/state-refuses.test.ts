// SPDX-License-Identifier: Apache-2.0
// A state directory on a full disk, or read-only: ADD fails as a whole, and everything works once it is mended.
// Single refused system calls are in test/faults.

import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { attach, netConf } from '../../support/traffic/pods.ts'
import { pings } from '../../support/traffic/traffic.ts'

const conf = netConf({
  podcidr: ['10.88.0.0/24', 'fd88::/64'],
  firewall: { ingressPolicy: 'same-bridge' },
  bandwidth: { ingressRate: 8_000_000, ingressBurst: 800_000 },
  runtimeConfig: { portMappings: [{ hostPort: 18080, containerPort: 80, protocol: 'udp' }] },
})

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

describe('a state directory that refuses', () => {
  it.each(['full', 'read-only'])('because it is %s: ADD fails as a whole, DEL works once it is mended', (how) => {
    attach(host, { ...conf, runtimeConfig: {} }, { id: 'before' })
    const before = snapshot(host)
    const netns = host.pod('a')
    mountOver(host.stateDir, how)
    try {
      const added = host.cni('ADD', conf, { id: 'a', netns })
      expect(added.code).toBeGreaterThan(0)
      expect(added.json).toMatchObject({ code: expect.any(Number), msg: expect.any(String) })
      expect(added.json).not.toMatchObject({ code: 999 })
      expect(host.cni('STATUS', conf).json, how).toMatchObject({ code: 50 })
      const deleted = host.cni('DEL', conf, { id: 'a', netns })
      expect([0, 11], deleted.stdout).toContain(deleted.code === 0 ? 0 : deleted.json?.code)
    } finally {
      execaSync('umount', [host.stateDir])
    }
    expect(snapshot(host).state).toBe(before.state)
    const next = attach(host, conf, { id: 'b' })
    expect(pings(host, next.netns, '10.88.0.1')).toBe(true)
    for (const id of ['a', 'a', 'b'])
      expectSilent(host.cni('DEL', conf, { id, netns: id === 'a' ? netns : next.netns }))
    expect(host.inPod(netns, 'ip', ['link', 'show', 'dev', 'eth0']).code).not.toBe(0)
    expectNothingLeft(host, before)
  })
})

/** A small tmpfs over the state directory, filled, or the directory itself read-only. */
function mountOver(directory: string, how: string): void {
  if (how === 'read-only') {
    execaSync('mount', ['--bind', directory, directory])
    execaSync('mount', ['-o', 'remount,bind,ro', directory])
    return
  }
  execaSync('mount', ['-t', 'tmpfs', '-o', 'size=16k,mode=700', 'tmpfs', directory])
  execaSync('dd', ['if=/dev/zero', `of=${directory}/filler`, 'bs=4k'], { reject: false })
}
