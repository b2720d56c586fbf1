// SPDX-License-Identifier: Apache-2.0
// What attachments share, made, filled anew or removed by one call while another one comes by.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../support/faults/process-identities.ts'
import { endsOrWaits, isHeld } from '../../support/faults/started.ts'
import { haveStrace, noStrace, startTracedCni } from '../../support/faults/strace.ts'
import { type Host, openHost } from '../../support/host.ts'
import { startCni } from '../../support/locks/parallel.ts'
import { expectSilent } from '../../support/outcome.ts'
import { gateAt } from '../../support/tool.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'

const plain = netConf()
const other = netConf({ name: 'other', bridge: 'br-other', podcidr: '10.241.0.0/24' })

describe('shared parts', () => {
  let host: Host
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  /** Starts an ADD of `conf` whose `tool` waits where its input has `text`, does `meanwhile`, and lets it go on. */
  const addBeside = async (
    conf: object,
    held: { tool: 'ip' | 'nft'; text: string },
    meanwhile: () => unknown,
  ): Promise<void> => {
    const gate = gateAt(held.tool, held.text)
    try {
      const adding = startCni(host, 'ADD', { conf, id: 'held', netns: host.pod('held'), env: gate.env })
      await until('the ADD is held', gate.isReached)
      await meanwhile()
      gate.open()
      const added = await adding
      expect(added.code, added.stdout).toBe(0)
    } finally {
      gate.close()
    }
  }

  it('that are filled anew lack no pod whose ADD came between the look and the filling', async () => {
    const routed = netConf({
      name: 'routed',
      mode: 'ptp',
      podcidr: undefined,
      ipam: { type: 'trestle', ranges: [[{ subnet: '10.9.0.0/24' }]] },
      firewall: { ingressPolicy: 'isolated', hostAccept: 'off' },
    })
    attach(host, routed, { id: 'seed' })
    const call = { id: 'c1', netns: host.pod('c1') }
    const started: { adding?: ReturnType<typeof startCni> } = {}
    await addBeside(other, { tool: 'nft', text: 'flush set' }, async () => {
      started.adding = startCni(host, 'ADD', { conf: routed, ...call })
      await endsOrWaits(started.adding)
    })
    const added = await started.adding
    expect(added?.code, added?.stdout).toBe(0)
    expectSilent(host.cni('CHECK', { ...routed, prevResult: added?.json }, call))
  })

  it('of an empty network that goes are not said again by the ADD of another', async () => {
    const going = { ...other, removeWhenEmpty: true }
    attach(host, plain, { id: 'seed' })
    const last = attach(host, going, { id: 'last' })
    expect(host.run('nft', ['flush', 'ruleset']).code).toBe(0)
    const started: { deleting?: ReturnType<typeof startCni> } = {}
    await addBeside(plain, { tool: 'nft', text: '10.241' }, async () => {
      started.deleting = startCni(host, 'DEL', { conf: going, ...last.call })
      await endsOrWaits(started.deleting)
    })
    expect((await started.deleting)?.code).toBe(0)
    const rules = host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout
    expect(rules).toContain('10.240.0.0/24')
    expect(rules).not.toContain('10.241')
  })

  it('leave a new bridge deaf to router advertisements where forwarding is switched on beside it', async (test) => {
    if (!haveStrace()) return test.skip(noStrace)
    const dual = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
    attach(host, dual, { id: 'seed' })
    expect(host.run('sysctl', ['-qw', 'net.ipv6.conf.all.forwarding=0']).code).toBe(0)
    expect(host.run('ip', ['link', 'add', 'br-other', 'type', 'bridge']).code).toBe(0)
    const key = '/proc/sys/net/ipv6/conf/br-other/accept_ra'
    // Once it looks at the setting, then it looks again, and writes it.
    const slow = { calls: 'openat', what: 'delay_exit=2500000', when: 2, paths: [key] }
    const call = { verb: 'ADD', conf: dual, id: 'slow', netns: host.pod('slow') } as const
    const switching = startTracedCni(host, call, slow)
    await isHeld(switching)
    attach(host, other, { id: 'c1' })
    expect((await switching).code).toBe(0)
    expect(host.run('sysctl', ['-n', 'net.ipv6.conf.br-other.accept_ra']).stdout.trim()).toBe('0')
  })

  it('a bridge is made anew though a pod of it goes meanwhile', async () => {
    const [gone, stays] = [attach(host, plain, { id: 'gone' }), attach(host, plain, { id: 'stays' })]
    expect(host.run('ip', ['link', 'del', 'cni0']).code).toBe(0)
    await addBeside(plain, { tool: 'ip', text: 'type bridge' }, () => {
      expectSilent(later(host, 'DEL', { conf: plain, pod: gone }))
    })
    expectSilent(later(host, 'CHECK', { conf: plain, pod: stays }))
  })
})
