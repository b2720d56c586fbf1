// SPDX-License-Identifier: Apache-2.0
// Records of another version, as an upgrade or its way back leaves them: a newer or older format, and keys that this
// version does not know. Their pods keep what they have, nobody else gets it, and DEL takes all of it.

import { readFileSync, truncateSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { rewrite } from '../../support/faults/process-identities.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { recordName, reservedPorts } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const plain = netConf({ macspoofchk: true, bandwidth: { egressRate: 8_000_000, egressBurst: 800_000 } })
const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }]
const conf = { ...plain, runtimeConfig: { portMappings } }

describe('a record', () => {
  let host: HostWithState
  let pod: Pod
  beforeEach(() => {
    host = openHostWithState()
    pod = attach(host, conf)
  })
  afterEach(() => host.close())

  /** Of the finished record and of what its reservations were linked to. */
  const rewriteAll = (change: (record: Record<string, unknown>) => object): void => {
    rewrite(host.state.finished('c1'), change)
    rewrite(host.state.address(pod.address), change)
  }
  const listed = (ids: readonly string[]) => ids.map((containerID) => ({ containerID, ifname: 'eth0' }))

  // Format 2 was that of the versions before this core, with `key` in place of `id`.
  it.each([
    [2, 'key'],
    [4, 'id'],
  ])('of format %i keeps its pod, its address and its port, and goes with DEL', (format, name) => {
    rewriteAll(({ id, ...record }) => ({ ...record, [name]: id, format, spec: { layers: [1, 2, 3] }, network: 'net' }))
    const text = readFileSync(host.state.finished('c1'), 'utf8')

    const other = attach(host, plain, { id: 'c2' })
    expect(other.address).not.toBe(pod.address)
    expectError(host.cni('ADD', conf, { id: 'c3', netns: host.pod('c3') }), 104, 'c1')
    expectError(host.cni('ADD', conf, { ...pod.call }), 103)
    expectSilent(host.cni('STATUS', plain))
    expectSilent(host.cni('GC', { ...plain, 'cni.dev/valid-attachments': listed(['c1', 'c2']) }))
    const checked = later(host, 'CHECK', { conf, pod })
    expectSilent(checked)
    expect(checked.stderr).toContain(`format ${format}`)
    expect(readFileSync(host.state.finished('c1'), 'utf8')).toBe(text)

    expectSilent(host.cni('DEL', conf, pod.call))
    expect(reservedPorts(host)).toEqual([])
    expectSilent(host.cni('DEL', plain, other.call))
    expectNothingLeft(host, host.before)
  })

  it('of format 2 goes with GC when the runtime does not list it', () => {
    rewriteAll(({ id, ...record }) => ({ ...record, key: id, format: 2, spec: {} }))
    expectSilent(host.cni('GC', { ...plain, 'cni.dev/valid-attachments': [] }))
    expectNothingLeft(host, host.before)
  })

  it('with keys that this version does not know is read as far as it is known', () => {
    rewriteAll((record) => ({ ...record, added: { later: true }, spec: { ...Object(record['spec']), tags: ['x'] } }))
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(host.cni('DEL', conf, pod.call))
    expectNothingLeft(host, host.before)
  })

  it("tells the pod's uid, and a person from a runtime", () => {
    const args = 'K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=0123-45'
    const asked = [
      attach(host, plain, { id: 'c2', args }),
      attach(host, plain, { id: 'c3', env: { TRESTLE_ASKED_BY: 'hand' } }),
    ]
    const [byRuntime, byHand] = asked.map(({ id }) => JSON.parse(readFileSync(host.state.finished(id), 'utf8')))
    expect(byRuntime).toMatchObject({ pod: { namespace: 'default', name: 'web', uid: '0123-45' } })
    expect([byRuntime.askedBy, byHand.askedBy]).toEqual([undefined, 'hand'])
  })

  it('that is cut short is no format: it is set aside', () => {
    truncateSync(host.state.finished('c1'), 20)
    attach(host, plain, { id: 'c2' })
    expectSilent(host.cni('GC', { ...plain, 'cni.dev/valid-attachments': listed(['c2']) }))
    expect(host.state.names('attachments')).toEqual([recordName('c2')])
  })
})
