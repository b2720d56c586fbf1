// SPDX-License-Identifier: Apache-2.0
// Host ports with real sockets: from everywhere they can be asked, over TCP and UDP, both families,
// with and without a host address, on a bridge and routed. SCTP: test/kernels/sctp.test.ts.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { answer, ask, askOnce, describeTarget, filterBridged, targetsAt } from '../../support/ask.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { outside } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const dual = { podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }
const node = [outside.node4, outside.node6]

/** One mapping for TCP and UDP, for each host address; undefined: any. */
function mappings(hostPort: number, hostIps: readonly (string | undefined)[]) {
  return hostIps.flatMap((hostIP) =>
    ['tcp', 'udp'].map((protocol) => ({ hostPort, containerPort: 80, protocol, ...(hostIP ? { hostIP } : {}) })),
  )
}

const portMappings = [...mappings(8080, [undefined]), ...mappings(8081, [...node, '127.0.0.1'])]

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
})
afterEach(() => host.close())

async function served(conf: object): Promise<readonly [Pod, Pod]> {
  const pod = attach(host, { ...conf, runtimeConfig: { portMappings } }, { id: 'served' })
  const other = attach(host, conf, { id: 'other' })
  host.atClose(await answer(pod.netns, 80))
  return [pod, other]
}

/** Targets of one source that did not answer. */
function silent(netns: string, addresses: readonly string[], port: number): readonly string[] {
  const targets = targetsAt(addresses, port)
  const said = ask(host, netns, targets)
  return targets.filter((_, at) => said[at] === '').map(describeTarget)
}

/** Everything that should answer and does not, by source. */
function unanswered(pod: Pod, other: Pod): Readonly<Record<string, readonly string[]>> {
  const sources = { outside: host.internet, node: host.path, 'other pod': other.netns, 'the pod itself': pod.netns }
  const all = Object.entries(sources).map(([name, netns]) => [
    name,
    [8080, 8081].flatMap((port) => silent(netns, node, port)),
  ])
  const loopback = [8080, 8081].flatMap((port) => silent(host.path, ['127.0.0.1'], port))
  return Object.fromEntries([...all, ['node loopback', loopback]].filter(([, list]) => list?.length !== 0))
}

describe.each([
  ['a bridge', 'bridge'],
  ['a routed link', 'ptp'],
])('host ports of a pod on %s', (_, mode) => {
  const conf = netConf({ ...dual, mode })
  it.each(mode === 'ptp' ? [false] : [true, false])(
    'answer from everywhere, bridge-nf-call-iptables %s',
    async (isOn) => {
      const [pod, other] = await served(conf)
      if (mode !== 'ptp') filterBridged(host, isOn)
      expect(unanswered(pod, other)).toEqual({})
    },
  )

  it("show the pod the outside client's own address", async () => {
    await served(conf)
    const seen = ask(host, host.internet, targetsAt(node, 8080))
    expect(seen).toEqual(['192.0.2.2', '192.0.2.2', '2001:db8:1::2', '2001:db8:1::2'])
  })

  it('leave ::1 to the node, which no IPv6 kernel forwards: its own service answers, and nobody is refused at once', async () => {
    const onLoopback = [{ hostPort: 8083, containerPort: 80, protocol: 'tcp', hostIP: '::1' }]
    const asked = { ...conf, runtimeConfig: { portMappings: [...portMappings, ...onLoopback] } }
    const pod = attach(host, asked, { id: 'served' })
    host.atClose(await answer(pod.netns, 80))
    for (const port of [8080, 8083]) {
      const tried = host.run('timeout', ['20', 'bash', '-c', `</dev/tcp/::1/${port}`])
      expect(tried, `port ${port}`).toMatchObject({ code: 1, stderr: expect.stringContaining('Connection refused') })
      host.atClose(await answer(host.path, port, '::1'))
      expect(ask(host, host.path, targetsAt(['::1'], port)), `port ${port}`).toEqual(['::1', '::1'])
    }
    expect(silent(host.path, [...node, '127.0.0.1'], 8080)).toEqual([])
  })

  it('answer on ::1 where the client has another address of the node, as Kubernetes tests a hostIP of ::1', async () => {
    const onLoopback = [{ hostPort: 8083, containerPort: 80, protocol: 'tcp', hostIP: '::1' }]
    const pod = attach(host, { ...conf, runtimeConfig: { portMappings: onLoopback } }, { id: 'served' })
    host.atClose(await answer(pod.netns, 80))
    const [from = ''] = node.filter((address) => address.includes(':'))
    const call = ['-T', '10', '-u', `TCP6:[::1]:8083,bind=[${from}],connect-timeout=5`, '-']
    await vi.waitFor(() => expect(host.run('socat', call).stdout).toBe(from), { timeout: 30_000, interval: 300 })
  })

  it('do not answer on an address that is not theirs', async () => {
    await served(conf)
    host.run('ip', ['addr', 'add', '192.0.2.9/32', 'dev', 'up0'])
    expect(askOnce(host, host.path, targetsAt(['192.0.2.9'], 8081))).toEqual(['', ''])
    expect(ask(host, host.path, targetsAt(['192.0.2.9'], 8080))).not.toContain('')
  })

  it('end with the pod, and its elements with them', async () => {
    const [pod] = await served(conf)
    expectSilent(later(host, 'CHECK', { conf: { ...conf, runtimeConfig: { portMappings } }, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(askOnce(host, host.internet, targetsAt(node, 8080))).toEqual(['', '', '', ''])
    for (const map of ['ports4', 'ports6', 'anyports4', 'anyports6']) {
      expect(host.run('nft', ['list', 'map', 'inet', 'trestle', map]).stdout).not.toContain('elements')
    }
  })
})

describe('keys that only make sense with iptables', () => {
  it.each([
    ['conditionsV4', ['!', '-s', '10.99.0.0/16']],
    ['conditionsV6', ['!', '-s', 'fd99::/64']],
    ['externalSetMarkChain', 'KUBE-MARK-MASQ'],
    ['markMasqBit', 13],
  ])('%s is refused with code 2, key and value', (key, value) => {
    const refused = host.cni('ADD', netConf({ portmap: { [key]: value } }), { netns: host.pod('c1') })
    expectError(refused, 2, key)
    expect(refused.json?.msg).toContain(Array.isArray(value) ? value.at(-1) : `${value}`)
  })
})
