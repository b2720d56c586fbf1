// SPDX-License-Identifier: Apache-2.0
// A node's worth of pods, made and removed with their namespaces gone first, as a runtime does at its
// worst: links, rules, queues, state, conntrack and sysctls are then as before. PODS=1000 for a long run.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { askOnce, type Target } from '../../support/ask.ts'
import { type Answer, type Host, openHost, snapshot } from '../../support/host.ts'
import { addressesOf, allOf, startCni } from '../../support/locks/parallel.ts'
import { ipamConf, netConf } from '../../support/traffic/pods.ts'
import { addUplink, outside } from '../../support/traffic/traffic.ts'

const count = Number(process.env['PODS'] ?? 120)
const atOnce = 8
const firstPort = 20_000
const wait = 60_000 + count * 2000

interface Planned {
  readonly id: string
  readonly netns: string
  readonly conf: object
}

let host: Host
let internet: string
beforeEach(() => {
  host = openHost()
  internet = addUplink(host)
})
afterEach(() => host.close())

/** Every tenth pod is limited, every tenth has a sysctl, every sixth is routed; each has a port over both protocols. */
function confOf(at: number): object {
  const hostPort = firstPort + at
  const portMappings = (['tcp', 'udp'] as const).map((protocol) => ({ hostPort, containerPort: 80, protocol }))
  const more = {
    ...(at % 10 === 3 ? { bandwidth: { ingressRate: 20_000_000, egressRate: 10_000_000 } } : {}),
    ...(at % 10 === 7 ? { tuning: { sysctl: { 'net.core.somaxconn': '200' } } } : {}),
    runtimeConfig: { portMappings },
  }
  if (at % 6 !== 5) return netConf({ podcidr: '10.240.0.0/20', ...more })
  const ipam = { type: 'host-local', ranges: [[{ subnet: '10.241.0.0/20' }]] }
  return ipamConf(ipam, { name: 'routed', mode: 'ptp', ipMasq: true, ...more })
}

/** Connections, without what the bridge itself tells its neighbours of multicast. */
function flows(): readonly string[] {
  const lines = host.run('conntrack', ['-L']).stdout.split('\n')
  return lines.filter((line) => line !== '' && !line.includes('dst=224.0.0.22'))
}

/** Queues that are not the kernel's own, connections, and what the network settings of the host are. */
function rest() {
  const queues = host.run('tc', ['qdisc', 'show']).stdout.split('\n')
  const sysctls = host.run('sysctl', ['-a', '--pattern', '^net\\.(ipv4|ipv6|core|bridge|netfilter)\\.'])
  return {
    queues: queues.filter((line) => / (tbf|ingress|clsact|htb) /.test(line)),
    conntrack: flows(),
    sysctls: sysctls.stdout.split('\n').filter((line) => !mayChange.test(line)),
  }
}

/**
 * Forwarding is switched on once and stays, and with it goes accept_redirects; the bridge stays with its own; counters
 * of the kernel are no settings.
 */
const mayChange =
  /forwarding|ip_forward |conf\.all\.accept_redirects|\.(cni0)\.|conntrack_count|nr_open|dentry|random|route\.(gc|min_adv)|\.tcp_(mem|fastopen_key)|udp_mem/

const failuresOf = (done: readonly { code: number; stdout: string; stderr: string }[]) =>
  done.filter(({ code }) => code !== 0).map(({ stdout, stderr }) => stdout + stderr)

describe('many pods', () => {
  it(
    `${count} come and go, ${atOnce} at a time, and nothing is left (plugins#810: rules leak when the namespace is gone)`,
    async () => {
      const [before, restBefore] = [snapshot(host), rest()]
      const pods = Array.from({ length: count }, (_, at): Planned => {
        const id = `p${at}`
        return { id, netns: host.pod(id), conf: confOf(at) }
      })
      const added = await allOf(
        pods.map((pod) => () => startCni(host, 'ADD', pod)),
        atOnce,
      )
      expect(failuresOf(added)).toEqual([])
      const addresses = added.flatMap(addressesOf)
      expect(new Set(addresses).size).toBe(count)
      expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout.match(/udp \./g)).toHaveLength(
        count,
      )

      const sample = pods.filter((_, at) => at % 30 < 2)
      const checked = await allOf(
        sample.map((pod) => async () => {
          const prevResult = added[pods.indexOf(pod)]?.json as Answer
          return await startCni(host, 'CHECK', { ...pod, conf: { ...pod.conf, prevResult } })
        }),
        atOnce,
      )
      expect(failuresOf(checked)).toEqual([])

      const ports = Array.from(
        { length: 30 },
        (_, at): Target => ({
          protocol: 'udp',
          address: outside.node4,
          port: firstPort + at,
        }),
      )
      askOnce(host, internet, ports)
      // A busy machine takes packets in later than they were sent.
      const toPorts = () => flows().filter((line) => line.includes('dport=200')).length
      await expect.poll(toPorts, { timeout: 20_000 }).toBeGreaterThanOrEqual(ports.length)

      for (const pod of pods) host.removePod(pod.netns)
      const deleted = await allOf(
        pods.map((pod) => () => startCni(host, 'DEL', { conf: pod.conf, id: pod.id })),
        atOnce,
      )
      expect(failuresOf(deleted).join('\n')).toBe('')
      expectNothingLeft(host, before)
      expect(rest()).toEqual(restBefore)
    },
    wait,
  )
})
