// SPDX-License-Identifier: Apache-2.0
// GC: removes what is not on the list, of this network only. No list removes nothing, null the dead.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, interfacesOf, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const conf = netConf()
const other = netConf({ name: 'other', bridge: 'br-other', podcidr: '10.250.0.0/24' })
const key = 'cni.dev/valid-attachments'
const entry = (pod: Pod, ifname = 'eth0') => ({ containerID: pod.id, ifname })

let host: Host
let before: ReturnType<typeof snapshot>
let pods: readonly Pod[]
let foreign: Pod
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
  pods = ['a', 'b', 'c'].map((id) => attach(host, conf, { id }))
  foreign = attach(host, other, { id: 'x' })
})
afterEach(() => host.close())

/** Which of the three pods are still attached, all of each: CHECK passes or nothing is left. */
function alive(): readonly string[] {
  return pods
    .filter((pod) => {
      const isThere = interfacesOf(host, pod.netns).includes('eth0')
      if (isThere) expectSilent(later(host, 'CHECK', { conf, pod }))
      else expect(host.run('ip', ['link', 'show', pod.hostLink]).code).not.toBe(0)
      return isThere
    })
    .map((pod) => pod.id)
}

describe('GC', () => {
  afterEach(() => expectSilent(later(host, 'CHECK', { conf: other, pod: foreign })))

  it('keeps what is on the list and removes the rest', () => {
    const [a, b, c] = pods as [Pod, Pod, Pod]
    expectSilent(host.cni('GC', { ...conf, [key]: [entry(b)] }))
    expect(alive()).toEqual(['b'])
    for (const pod of [a, c]) expectSilent(later(host, 'DEL', { conf, pod }))
    expectSilent(host.cni('GC', { ...conf, [key]: [entry(b)] }))
    expect(alive()).toEqual(['b'])
  })

  it('knows the key under its old name, and the proper one counts where both are there', () => {
    const [a, b] = pods as [Pod, Pod, Pod]
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/attachments': [entry(a), entry(b)] }))
    expect(alive()).toEqual(['a', 'b'])
    expectSilent(host.cni('GC', { ...conf, [key]: [entry(b)], 'cni.dev/attachments': [] }))
    expect(alive()).toEqual(['b'])
  })

  it.each<[string, object]>([
    ['an empty list', { [key]: [] }],
    ['a list of others only', { [key]: [{ containerID: 'z', ifname: 'eth0' }] }],
    [
      'the right containers with another interface',
      { [key]: ['a', 'b', 'c'].map((id) => ({ containerID: id, ifname: 'net1' })) },
    ],
  ])('with %s removes all of this network', (_, list) => {
    expectSilent(host.cni('GC', { ...conf, ...list }))
    expect(alive()).toEqual([])
    expectSilent(later(host, 'DEL', { conf: other, pod: foreign }))
    expectNothingLeft(host, before)
    foreign = attach(host, other, { id: 'y' })
  })

  it('without a list removes nothing (plugins#1047: nobody collects garbage)', () => {
    expectSilent(host.cni('GC', conf))
    expect(alive()).toEqual(['a', 'b', 'c'])
  })

  it('with null removes only those whose namespace is gone: ocicni sends it for a network that is not the default', () => {
    const [a, b, c] = pods as [Pod, Pod, Pod]
    host.removePod(a.netns)
    const collected = host.cni('GC', { ...conf, [key]: null, 'cni.dev/attachments': null })
    expectSilent(collected)
    expect(collected.stderr).toBe('trestle: GC: the list of net is null: only dead attachments go\n')
    expect(attach(host, conf, { id: 'n', args: `IP=${a.address}` }).address).toBe(a.address)
    pods = [b, c]
    expect(alive()).toEqual(['b', 'c'])
  })

  it.each([[[{}]], [[{ containerID: 'a' }]], [[{ containerID: 5, ifname: 'eth0' }]], ['a'], [{}], [7]])(
    'with the list %j is refused and removes nothing',
    (list) => {
      expectError(host.cni('GC', { ...conf, [key]: list }), 7, 'attachments')
      expect(alive()).toEqual(['a', 'b', 'c'])
    },
  )

  it('removes those whose namespace is gone, and their addresses are free again', () => {
    const [a, b, c] = pods as [Pod, Pod, Pod]
    host.removePod(a.netns)
    expectSilent(host.cni('GC', { ...conf, [key]: [entry(b), entry(c)] }))
    expect(attach(host, conf, { id: 'n', args: `IP=${a.address}` }).address).toBe(a.address)
    pods = [b, c]
    expect(alive()).toEqual(['b', 'c'])
  })

  it('of a network without state succeeds', () => {
    expectSilent(host.cni('GC', { ...conf, name: 'unknown', [key]: [] }))
    expect(alive()).toEqual(['a', 'b', 'c'])
  })
})
