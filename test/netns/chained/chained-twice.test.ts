// SPDX-License-Identifier: Apache-2.0
// A list with two chained entries of trestle: the second one is refused, with the cure.

import { afterEach, beforeEach, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, netConf, type Pod } from '../../support/traffic/pods.ts'

const chained = { cniVersion: '1.1.0', name: 'net', type: 'trestle' }
const first = { ...chained, tuning: { sysctl: { 'net.core.somaxconn': '500' } } }

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

/** The first two plugins of the list have had their ADD. */
function attachTwo(conf: object): Pod {
  const pod = attach(host, netConf())
  expect(host.cni('ADD', { ...conf, prevResult: pod.result }, pod.call)).toMatchObject({ code: 0 })
  return pod
}

it.each([
  ['one that acts', first],
  ['one that has nothing to do', chained],
])('a second chained entry behind %s is refused with the cure, and the pod can be deleted', (_, conf) => {
  const pod = attachTwo(conf)
  const second = { ...chained, type: 'trestle', tuning: { mtu: 1400 }, prevResult: pod.result }
  const refused = host.cni('ADD', second, pod.call)
  expectError(refused, 7, 'trestle is chained twice in its list')
  expect(refused.json?.details).toContain('put the keys of both entries into one')
  for (const each of [second, conf, netConf()]) expectSilent(host.cni('DEL', each, pod.call))
  expectNothingLeft(host, before)
})

it('a second ADD of the same entry is one of a container that has had it', () => {
  const pod = attachTwo(first)
  expectError(host.cni('ADD', { ...first, prevResult: pod.result }, pod.call), 103, 'already has eth0')
})
