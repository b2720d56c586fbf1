// SPDX-License-Identifier: Apache-2.0
// A state directory that was removed under live pods of several networks: of a network whose configuration no call
// brings, kernel and records keep the rules, also through a flush; CHECK and restore tell and mend what is missing.

import { rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateFiles, stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'

const one = netConf({ name: 'one', bridge: 'br-one', podcidr: '10.241.0.0/24' })
const nonMasqueradeCIDRs = ['10.9.0.0/16']
const ports = (hostPort: number) => ({ portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] })
const isolated = { firewall: { ingressPolicy: 'isolated' } }

describe('state that was removed under live pods of several networks', () => {
  let host: HostWithState
  beforeEach(() => {
    host = openHostWithState()
  })
  afterEach(() => host.close())

  /** The elements of all sets, in an order of their own: nft's is not always the same. */
  const elements = (): string => {
    const { stdout } = host.run('nft', ['list', 'table', 'inet', 'trestle'])
    const sets = stdout.matchAll(/(?:set|map) (\S+) \{[^}]*?elements = \{([^}]*)\}/g)
    const all = [...sets].flatMap(([, set, body = '']) => body.split(',').map((each) => `${set} ${each.trim()}`))
    return all.sort().join('\n')
  }
  const restore = () => host.run('env', [stateWord(host), trestle, 'restore'])

  it.each([
    ['bridge', { bridge: 'br-two', ...isolated }],
    ['ptp', { mode: 'ptp', ...isolated }],
    ['bridge and two families', { bridge: 'br-two', podcidr: ['10.242.0.0/24', 'fd00:242::/64'] }],
  ])('a pod of a network that sends no ADD keeps its rules through a flush: %s', (_, more) => {
    const two = netConf({
      name: 'two',
      podcidr: '10.242.0.0/24',
      nonMasqueradeCIDRs,
      ...more,
      runtimeConfig: ports(8080),
    })
    const pods = [attach(host, one, { id: 'c1' }), attach(host, two, { id: 'c2' })] as const
    const whole = elements()
    for (const directory of [stateFiles(host).networks, stateFiles(host).ports]) rmSync(directory, { recursive: true })
    const third = attach(host, one, { id: 'c3' })
    expect(restore().code).toBe(0)
    expectSilent(later(host, 'CHECK', { conf: two, pod: pods[1] }))

    host.run('nft', ['flush', 'ruleset'])
    expectError(later(host, 'CHECK', { conf: two, pod: pods[1] }), 107, '8080')
    expect(restore()).toMatchObject({ code: 0, stdout: expect.stringMatching(/ 0 lost\n$/) })
    expectSilent(later(host, 'CHECK', { conf: two, pod: pods[1] }))
    host.run('nft', ['flush', 'ruleset'])
    const fourth = attach(host, one, { id: 'c4' })
    const found = elements()
    for (const part of ['10.242.0.0/24', '10.9.0.0/16', 'tcp . 8080', pods[1].address])
      expect([part, found.includes(part)]).toEqual([part, whole.includes(part)])
    expectSilent(later(host, 'CHECK', { conf: two, pod: pods[1] }))
    for (const pod of [third, fourth]) expectSilent(host.cni('DEL', one, pod.call))
    expect(elements()).toBe(whole)

    expectSilent(host.cni('DEL', one, pods[0].call))
    expectSilent(host.cni('DEL', two, pods[1].call))
    expectNothingLeft(host, host.before)
  })

  it('a third network comes, whose rules are filled in with all others: nobody loses the masquerade', () => {
    const layer2 = (id: string) => netConf({ name: id, bridge: `br-${id}`, podcidr: undefined })
    const pod = attach(host, one, { id: 'c1' })
    rmSync(stateFiles(host).networks, { recursive: true })
    const ipam = { type: 'static', addresses: [{ address: '10.250.0.2/24' }] }
    attach(host, layer2('x'), { id: 'x' })
    attach(host, { ...layer2('y'), ipam, ipMasq: true }, { id: 'y' })
    attach(host, { ...layer2('z'), podcidr: '10.251.0.0/24' }, { id: 'z' })
    expect(elements()).toContain('10.241.0.0/24')
    expectSilent(later(host, 'CHECK', { conf: one, pod }))
  })
})
