// SPDX-License-Identifier: Apache-2.0
// The calls that containerd and CRI-O make for one sandbox, in their order, with what they put into
// environment and configuration.

import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Finished, type Host, openHost, snapshot, type Verb } from '../../support/host.ts'
import { expectError, expectOneDocument, expectSilent } from '../../support/outcome.ts'
import { addressesOf, attach, interfacesOf, later, netConf } from '../../support/traffic/pods.ts'

interface Recorded {
  readonly verb: Verb
  readonly env: Readonly<Record<string, string>>
  readonly stdin: Readonly<Record<string, unknown>>
  /** What happens to the sandbox before this call. */
  readonly before?: 'make namespace' | 'remove namespace'
}

const sequence: readonly Recorded[] = JSON.parse(
  readFileSync(new URL('../../support/fuzz/crio-calls.json', import.meta.url), 'utf8'),
)

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

describe('CRI-O', () => {
  /** One recorded call: paths are those of this host, prevResult is what our own ADD said. */
  function replay(call: Recorded, results: Map<string, unknown>): Finished {
    const { CNI_CONTAINERID: id = '', CNI_NETNS: netns = '', ...env } = call.env
    const label = id.slice(0, 8)
    if (call.before === 'make namespace') host.pod(label)
    if (call.before === 'remove namespace') host.removePod(`/run/netns/${host.name}-${label}`)
    const path = netns === '' || netns === 'dummy' ? netns : `/run/netns/${host.name}-${label}`
    const stdin = 'prevResult' in call.stdin ? { ...call.stdin, prevResult: results.get(id) } : call.stdin
    const done = host.cni(call.verb, stdin, { env: { ...env, CNI_CONTAINERID: id, CNI_NETNS: path } })
    if (call.verb === 'ADD') results.set(id, done.json)
    return done
  }

  it('sends VERSION, STATUS, GC, ADD, CHECK and DEL, one DEL after the namespace is gone, and nothing is left', () => {
    const results = new Map<string, unknown>()
    for (const [at, call] of sequence.entries()) {
      const done = replay(call, results)
      expect(done.code, `call ${at}, ${call.verb}: ${done.stdout}`).toBe(0)
      if (call.verb === 'ADD' || call.verb === 'VERSION') expectOneDocument(done)
      else expectSilent(done)
    }
    expect(sequence.map((call) => call.verb)).toEqual(
      'VERSION STATUS GC ADD CHECK DEL ADD CHECK DEL ADD CHECK VERSION STATUS GC CHECK DEL'.split(' '),
    )
    expectNothingLeft(host, before)
  })
})

describe('containerd', () => {
  const args = 'K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u;IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web'
  const conf = netConf({ cniVersion: '1.0.0' })

  it('sends DEL twice, the second time without namespace and prevResult', () => {
    const pod = attach(host, conf, { args })
    expectSilent(later(host, 'DEL', { conf, pod }))
    host.removePod(pod.netns)
    expectSilent(host.cni('DEL', conf, { ...pod.call, netns: '' }))
    expectNothingLeft(host, before)
  })

  it('may have removed the namespace before its first DEL', () => {
    const pod = attach(host, conf, { args })
    host.removePod(pod.netns)
    expectSilent(host.cni('DEL', conf, { ...pod.call, netns: '' }))
    expectSilent(host.cni('DEL', conf, { ...pod.call, netns: '' }))
    expectNothingLeft(host, before)
  })

  it('sends CNI_PATH as one directory and capabilities with Go field names', () => {
    const runtimeConfig = {
      PortMappings: [],
      ipranges: [[{ Subnet: '10.77.0.0/24', RangeStart: '10.77.0.20' }]],
      MAC: '0A:00:00:00:00:09',
      DNS: { Servers: ['10.0.0.10'], Searches: ['x.test'], Options: [] },
      'io.kubernetes.cri.pod-annotations': { a: 'b' },
    }
    const pod = attach(
      host,
      netConf({ podcidr: undefined, ipam: { type: 'host-local' }, runtimeConfig, isGateway: true }),
    )
    expect(addressesOf(host, pod.netns)).toEqual(['10.77.0.20/24'])
    expect(pod.result.interfaces[2]?.mac).toBe('0a:00:00:00:00:09')
    expect(pod.result.dns).toEqual({ nameservers: ['10.0.0.10'], search: ['x.test'] })
    expect(interfacesOf(host, pod.netns)).toEqual(['eth0'])
  })

  it('sends ADD again only after DEL: a retry with a new container id gets its own address', () => {
    const first = attach(host, conf, { id: 'try1', args })
    expectError(host.cni('ADD', conf, first.call), 103)
    const second = attach(host, conf, { id: 'try2', args })
    expect(second.address).not.toBe(first.address)
    for (const pod of [first, second]) expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })
})
