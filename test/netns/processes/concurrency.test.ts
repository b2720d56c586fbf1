// SPDX-License-Identifier: Apache-2.0
// Many pods at once, as after a reboot: first ADDs on a clean machine, ADDs mixed with DELs, several
// networks on one bridge and on their own, subnets that overlap. No error, no address twice, nothing left.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Finished, type Host, openHost, snapshot } from '../../support/host.ts'
import { addressesOf, allOf, startCni } from '../../support/locks/parallel.ts'

const minutes = 60_000
const atOnce = 50

interface Pod {
  readonly id: string
  readonly netns: string
  readonly conf: object
}

const network = (name: string, podcidr: string, bridge = 'cni0') => ({
  cniVersion: '1.1.0',
  name,
  type: 'trestle',
  podcidr,
  bridge,
})

describe('calls at the same time', () => {
  let host: Host
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  const podsOf = (label: string, count: number, conf: (at: number) => object): readonly Pod[] =>
    Array.from({ length: count }, (_, at) => ({
      id: `${label}${at}`,
      netns: host.pod(`${label}${at}`),
      conf: conf(at),
    }))
  const addOf = (pod: Pod) => () => startCni(host, 'ADD', pod)
  const delOf = (pod: Pod) => () => startCni(host, 'DEL', pod)
  const failuresOf = (finished: readonly Finished[]) =>
    finished.filter(({ code }) => code !== 0).map(({ stdout, stderr }) => stdout + stderr)
  const duplicatesOf = (added: readonly Finished[]) => {
    const addresses = added.flatMap(addressesOf)
    return addresses.filter((address, at) => addresses.indexOf(address) !== at)
  }

  it(
    `adds ${atOnce} first pods on a clean machine, then removes them among ${atOnce} more (cni#306: first ADDs race for the bridge; nerdctl#3522: calls at once)`,
    async () => {
      const before = snapshot(host)
      const conf = network('crowd', '10.91.0.0/24')
      const [first, second] = [podsOf('a', atOnce, () => conf), podsOf('b', atOnce, () => conf)]
      const added = await allOf(first.map(addOf), atOnce)
      expect(failuresOf(added)).toEqual([])
      expect(duplicatesOf(added)).toEqual([])
      expect(added.flatMap(addressesOf)).toHaveLength(atOnce)

      const mixed = first.flatMap((pod, at) => [delOf(pod), addOf(second[at] as Pod)])
      const done = await allOf(mixed, atOnce)
      expect(failuresOf(done)).toEqual([])
      const addedSecond = done.filter((each) => addressesOf(each).length > 0)
      expect(addedSecond).toHaveLength(atOnce)
      expect(duplicatesOf(addedSecond)).toEqual([])
      for (const { netns } of [second[0], second.at(-1)] as Pod[])
        expect(host.inPod(netns, 'ping', ['-c1', '-w10', '10.91.0.1']).code).toBe(0)

      expect(failuresOf(await allOf(second.map(delOf), 10))).toEqual([])
      expectNothingLeft(host, before)
    },
    2 * minutes,
  )

  it.each([
    { title: 'three networks on one bridge', bridges: ['cni0', 'cni0', 'cni0'] },
    { title: 'three networks, each on its bridge', bridges: ['br-a', 'br-b', 'br-c'] },
  ])(
    'adds 24 first pods of $title',
    async ({ bridges }) => {
      const before = snapshot(host)
      // IPv6 gateways may share a bridge; of IPv4 a bridge has one.
      const conf = (at: number) => network(`n${at % 3}`, `fd91:${at % 3}::/64`, bridges[at % 3] as string)
      const pods = podsOf('m', 24, conf)
      const added = await allOf(pods.map(addOf), 24)
      expect(failuresOf(added)).toEqual([])
      expect(duplicatesOf(added)).toEqual([])
      for (const at of [0, 1, 2]) {
        const { netns } = pods[at] as Pod
        expect(host.inPod(netns, 'ping', ['-6', '-c1', '-w10', `fd91:${at}::1`]).code, `gateway of n${at}`).toBe(0)
      }
      expect(failuresOf(await allOf(pods.map(delOf), 24))).toEqual([])
      expectNothingLeft(host, before)
    },
    minutes,
  )

  it(
    'adds 20 first pods of networks whose masqueraded subnets overlap',
    async () => {
      const before = snapshot(host)
      const wide = { ...network('wide', '10.92.0.0/16', 'br-wide'), allowOverlap: true }
      const narrow = { ...network('narrow', '10.92.7.0/24', 'br-narrow'), allowOverlap: true }
      const pods = podsOf('o', 20, (at) => (at % 2 === 0 ? wide : narrow))
      const added = await allOf(pods.map(addOf), 20)
      expect(failuresOf(added)).toEqual([])
      expect(duplicatesOf(added)).toEqual([])
      expect(host.run('nft', ['list', 'set', 'inet', 'trestle', 'masq4']).stdout).toContain('10.92.0.0/16')
      expect(failuresOf(await allOf(pods.map(delOf), 20))).toEqual([])
      expectNothingLeft(host, before)
    },
    minutes,
  )
})
