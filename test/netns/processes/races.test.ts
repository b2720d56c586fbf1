// SPDX-License-Identifier: Apache-2.0
// Two calls at the same time, one of them held at a point: neither undoes what the other one made.

import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { makePending, until } from '../../support/faults/process-identities.ts'
import { endsOrWaits } from '../../support/faults/started.ts'
import { haveStrace, noStrace, startTracedCni, tracedCni } from '../../support/faults/strace.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { startCni, startCommand } from '../../support/locks/parallel.ts'
import { expectSilent } from '../../support/outcome.ts'
import { isTemporaryName, recordName, reservedPorts, stateOf } from '../../support/state-layout.ts'
import { gateAt } from '../../support/tool.ts'
import { addressesOf, attach, interfacesOf, netConf } from '../../support/traffic/pods.ts'

const plain = netConf()
const mapped = { runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] } }
const withPort = netConf(mapped)

describe('calls at the same time', () => {
  let host: Host
  let before: ReturnType<typeof snapshot>
  let gate: ReturnType<typeof gateAt>
  let state: ReturnType<typeof stateOf>
  beforeEach(() => {
    host = openHost()
    before = snapshot(host)
    gate = gateAt('nft')
    state = stateOf(host, 'net')
  })
  afterEach(() => {
    gate.close()
    host.close()
  })

  it('a killed ADD that is settled slowly takes nothing from an attachment of the same name made meanwhile', async () => {
    attach(host, plain, { id: 'seed' })
    const { netns } = attach(host, withPort, { id: 'c1' })
    makePending(state, 'c1')
    const settling = startCni(host, 'ADD', { conf: plain, id: 'c2', netns: host.pod('c2'), env: gate.env })
    await until('the settling call is held', gate.isReached)

    const deleting = startCni(host, 'DEL', { conf: withPort, id: 'c1', netns })
    const adding = deleting.then(() => startCni(host, 'ADD', { conf: withPort, id: 'c1', netns }))
    await endsOrWaits(deleting)
    gate.open()
    const [deleted, added] = [await deleting, await adding]
    expect([deleted.code, added.code], `${deleted.stdout}${added.stdout}`).toEqual([0, 0])
    expect((await settling).code).toBe(0)

    expect(state.names('attachments')).toContain(recordName('c1'))
    attach(host, plain, { id: 'c9' })
    expect(state.names('pending')).toEqual([])
    expect(interfacesOf(host, netns)).toEqual(['eth0'])
    expectSilent(host.cni('CHECK', { ...withPort, prevResult: added.json }, { id: 'c1', netns }))
    expect(reservedPorts(host)).toHaveLength(1)
  })

  it('of two that replace the same dead attachment one has the pod, with one address (nerdctl#3522: calls at once)', async () => {
    attach(host, plain, { id: 'seed' })
    const dead = attach(host, withPort, { id: 'c1' })
    host.removePod(dead.netns)
    const netns = host.pod('new')
    const slow = startCni(host, 'ADD', { conf: withPort, id: 'c1', netns, env: gate.env })
    await until('the first one is held', gate.isReached)
    const fast = startCni(host, 'ADD', { conf: withPort, id: 'c1', netns })
    await endsOrWaits(fast)
    gate.open()
    await expectOneOf([await slow, await fast], netns, withPort)
  })

  it('of two ADDs of one attachment one is refused, even where it had looked before the other began', async (test) => {
    if (!haveStrace()) return test.skip(noStrace)
    const seed = attach(host, plain, { id: 'seed' })
    const netns = host.pod('c1')
    const call = { id: 'c1', netns }
    const slow = startTracedCni(
      host,
      { ...call, verb: 'ADD', conf: plain },
      { calls: 'link,linkat', what: 'delay_enter=2500000', when: 1, paths: [state.pending('c1')] },
    )
    await until('the slow one is about to write its intent', () => state.names('pending').some(isTemporaryName))
    const fast = await startCni(host, 'ADD', { conf: plain, ...call })
    await expectOneOf([await slow, fast], netns, plain)
    expectSilent(host.cni('DEL', plain, seed.call))
    expectNothingLeft(host, before)
  })

  it('a DEL that may not look whether the ADD beside it lives leaves it alone', async (test) => {
    if (!haveStrace()) return test.skip(noStrace)
    attach(host, plain, { id: 'seed' })
    const netns = host.pod('c1')
    const adding = startCni(host, 'ADD', { conf: withPort, id: 'c1', netns, env: gate.env })
    await until('the ADD is held', gate.isReached)
    const { writer } = JSON.parse(readFileSync(state.pending('c1'), 'utf8')) as { writer: { pid: number } }
    const paths = [`/proc/${writer.pid}/stat`]
    const call = { verb: 'DEL', conf: withPort, id: 'c1', netns } as const
    const refused = tracedCni(host, call, { calls: 'openat', what: 'error=ENFILE', when: 1, paths })
    expect(refused).toMatchObject({ hit: true, json: { code: 11 } })
    gate.open()
    expect((await adding).code).toBe(0)
    expect(interfacesOf(host, netns)).toEqual(['eth0'])
    expect(reservedPorts(host)).toHaveLength(1)
  })

  it('two first ADDs with subnets of their own are both masqueraded', async () => {
    const conf = (address: string) =>
      netConf({
        podcidr: undefined,
        bridge: 'br-two',
        ipMasq: true,
        ipam: { type: 'static', addresses: [{ address }] },
      })
    await bothAtOnce([conf('10.1.0.2/24'), conf('10.2.0.2/24')])
    const elements = host.run('nft', ['list', 'set', 'inet', 'trestle', 'masq4']).stdout
    expect(elements).toContain('10.1.0.0/24')
    expect(elements).toContain('10.2.0.0/24')
    expect(host.run('nft', ['flush', 'ruleset']).code).toBe(0)
    attach(host, conf('10.1.0.9/24'), { id: 'later' })
    expect(host.run('nft', ['list', 'set', 'inet', 'trestle', 'masq4']).stdout).toContain('10.2.0.0/24')
  })

  it('a first ADD with host ports keeps its way back to itself beside one without', async () => {
    const conf = (more: object) => netConf({ bridge: 'br-two', isGateway: true, ipMasq: false, ...more })
    const elements = () => host.run('nft', ['list', 'set', 'inet', 'trestle', 'hairpin4']).stdout
    attach(host, conf(mapped), { id: 'alone' })
    const alone = elements()
    expect(alone).toContain('elements')
    expectSilent(host.cni('DEL', conf({}), { id: 'alone' }))
    host.run('nft', ['flush', 'ruleset'])
    host.run('rm', ['-rf', state.directory])
    await bothAtOnce([conf(mapped), conf({})])
    expect(elements()).toBe(alone)
  })

  it('rules that come back while a pod is deleted come back without its host port', async () => {
    attach(host, plain, { id: 'seed' })
    const gone = attach(host, withPort, { id: 'c1' })
    expect(host.run('nft', ['flush', 'ruleset']).code).toBe(0)
    const writing = gateAt('nft', 'tcp . 8080')
    try {
      const repairing = startCni(host, 'ADD', { conf: plain, id: 'c2', netns: host.pod('c2'), env: writing.env })
      await until('the rules are about to be written', writing.isReached)
      const deleting = startCni(host, 'DEL', { conf: withPort, ...gone.call })
      await endsOrWaits(deleting)
      writing.open()
      expect([(await deleting).code, (await repairing).code]).toEqual([0, 0])
    } finally {
      writing.close()
    }
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout).not.toContain('8080')
  })

  const udp = { runtimeConfig: { portMappings: [{ hostPort: 8053, containerPort: 53, protocol: 'udp' }] } }
  const other = netConf({ name: 'other', bridge: 'br-other', podcidr: '10.241.0.0/24' })

  it('rules that are set up between the removal of a host port and the end of its DEL are without it', async () => {
    attach(host, plain, { id: 'seed' })
    const gone = attach(host, netConf(udp), { id: 'c1' })
    const forgetting = gateAt('conntrack')
    try {
      const deleting = startCni(host, 'DEL', { conf: netConf(udp), ...gone.call, env: forgetting.env })
      await until('the rules of the pod are gone', forgetting.isReached)
      const added = await startCni(host, 'ADD', { conf: other, id: 'c2', netns: host.pod('c2') })
      forgetting.open()
      expect([added.code, (await deleting).code], added.stdout).toEqual([0, 0])
    } finally {
      forgetting.close()
    }
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout).not.toContain('8053')
  })

  it.each(['restore', 'first ADD of another network'])(
    'rules that a %s writes, and is killed then, go with the DEL of their pod that came meanwhile',
    async (what) => {
      attach(host, plain, { id: 'seed' })
      const routed = netConf({
        ...udp,
        podcidr: undefined,
        mode: 'ptp',
        name: 'routed',
        ipam: { type: 'trestle', ranges: [[{ subnet: '10.9.0.0/24' }]] },
      })
      const gone = attach(host, routed, { id: 'c1' })
      expect(host.run('nft', ['flush', 'ruleset']).code).toBe(0)
      const writing = gateAt('nft', 'udp . 8053', 'thenKilled')
      try {
        const rebuilding =
          what === 'restore'
            ? startCommand(host, ['restore'], writing.env)
            : startCni(host, 'ADD', { conf: other, id: 'c2', netns: host.pod('c2'), env: writing.env })
        await until('the rules are about to be written', writing.isReached)
        const deleting = startCni(host, 'DEL', { conf: routed, ...gone.call })
        await endsOrWaits(deleting)
        writing.open()
        expect((await rebuilding).code, 'killed').not.toBe(0)
        expectSilent(await deleting)
      } finally {
        writing.close()
      }
      expect(host.run('nft', ['list', 'ruleset']).stdout).not.toMatch(/8053|10\.9\.0\.2|veth/)
    },
  )

  /** ADD of `p0` is held while it writes the shared rules; that of `p1`, begun meanwhile, writes them next. */
  const bothAtOnce = async ([first, second]: readonly [object, object]): Promise<void> => {
    const writing = startCni(host, 'ADD', { conf: first, id: 'p0', netns: host.pod('p0'), env: gate.env })
    await until('the first one is held', gate.isReached)
    const waiting = startCni(host, 'ADD', { conf: second, id: 'p1', netns: host.pod('p1') })
    await until('the second one has written its intent', () => state.names('pending').includes(recordName('p1')))
    await endsOrWaits(waiting)
    gate.open()
    for (const added of [await writing, await waiting]) expect(added.code, added.stdout).toBe(0)
  }

  /** One succeeded, the other was refused with 11 or 103; the pod has what the first one says, and DEL takes it all. */
  const expectOneOf = async (
    answers: readonly Awaited<ReturnType<typeof startCni>>[],
    netns: string,
    conf: object,
  ): Promise<void> => {
    const done = answers.filter(({ code }) => code === 0)
    const refused = answers.filter(({ code }) => code !== 0).map(({ json }) => json?.code)
    expect(done, answers.map(({ stdout }) => stdout).join('')).toHaveLength(1)
    expect([11, 103]).toContain(refused[0])
    expect(addressesOf(host, netns)).toEqual(done[0]?.json?.ips.map(({ address }) => address))
    expectSilent(host.cni('CHECK', { ...conf, prevResult: done[0]?.json }, { id: 'c1', netns }))
    expect(state.names('addresses'), 'one for the seed, one for the pod').toHaveLength(2)
    expectSilent(host.cni('DEL', conf, { id: 'c1', netns }))
    expect(state.names('addresses')).toHaveLength(1)
    expect(reservedPorts(host)).toEqual([])
  }
})
