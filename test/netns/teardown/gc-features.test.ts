// SPDX-License-Identifier: Apache-2.0
// GC of pods with every feature: what is not listed goes with all it has, in every mode and role; what is listed
// passes CHECK afterwards; a delegated IPAM plugin gets the list too.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { installIpam } from '../../support/ipam-plugin.ts'
import { expectSilent } from '../../support/outcome.ts'
import { attach, ipamConf, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { routedPod } from '../../support/traffic/routed-pods.ts'

const key = 'cni.dev/valid-attachments'
const listed = (...pods: readonly Pod[]) => ({ [key]: pods.map(({ id }) => ({ containerID: id, ifname: 'eth0' })) })
const limits = { ingressRate: 8_000_000, egressRate: 8_000_000 }
const withPort = (conf: object, hostPort: number, protocol = 'tcp') => ({
  ...conf,
  runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol }] },
})
const dual = { podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }

const modes: readonly (readonly [string, object])[] = [
  [
    'bridge',
    netConf({
      ...dual,
      macspoofchk: true,
      bandwidth: limits,
      firewall: { ingressPolicy: 'isolated' },
      portmap: { masqAll: true },
      tuning: { sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' }, promisc: true },
    }),
  ],
  ['ptp', netConf({ ...dual, mode: 'ptp', bandwidth: limits, portmap: {} })],
  ['bridge with sbr', netConf({ ...dual, sbr: {}, bandwidth: limits })],
]

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

describe.each(modes)('GC in mode %s', (_, conf) => {
  it.each([true, false])(
    'takes all of an unlisted pod and nothing of a listed one (namespace there: %s)',
    (isThere) => {
      const confs = [withPort(conf, 8080), withPort(conf, 8081, 'udp')]
      const [stale, kept] = confs.map((each, at) => attach(host, each, { id: `c${at}` })) as [Pod, Pod]
      if (!isThere) host.removePod(stale.netns)
      expectSilent(host.cni('GC', { ...conf, ...listed(kept) }))
      expectSilent(later(host, 'CHECK', { conf: confs[1] ?? {}, pod: kept }))
      const table = host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout
      expect(table).not.toMatch(/\b8080\b/)
      expect(table).toMatch(/\b8081\b/)
      expect(host.run('ip', ['-o', 'link', 'show', 'type', 'ifb']).stdout.trim().split('\n')).toHaveLength(1)
      expectSilent(host.cni('GC', { ...conf, ...listed() }))
      expectNothingLeft(host, before)
    },
  )
})

describe('GC of a list', () => {
  it('takes chained parts with what they did to the links of others', () => {
    const onTop = { cniVersion: '1.0.0', name: 'net', type: 'trestle', bandwidth: limits, firewall: {} }
    const pods = ['c1', 'c2'].map((id, at) => {
      const { call, prevResult } = routedPod(host, id, `cali${at}`, `10.9.0.${at + 2}`)
      const chained = { ...withPort(onTop, 8080 + at), prevResult }
      expect(host.cni('ADD', chained, call)).toMatchObject({ code: 0 })
      return { id, call, chained, link: `cali${at}` }
    })
    const [stale, kept] = pods as [(typeof pods)[0], (typeof pods)[0]]
    const gc = { ...onTop, cniVersion: '1.1.0' }
    expectSilent(host.cni('GC', { ...gc, [key]: [{ containerID: 'c2', ifname: 'eth0' }] }))
    expectSilent(host.cni('CHECK', kept.chained, kept.call))
    const isLimited = ({ link }: typeof stale) =>
      /tbf|ingress/.test(host.run('tc', ['qdisc', 'show', 'dev', link]).stdout)
    expect([isLimited(stale), isLimited(kept)]).toEqual([false, true])
    expect(host.run('ip', ['link', 'show', stale.link]).code).toBe(0)
    expectSilent(host.cni('GC', { ...gc, [key]: [] }))
    expect(isLimited(kept)).toBe(false)
    for (const { link } of pods) host.run('ip', ['link', 'del', link])
    expectNothingLeft(host, before)
  })

  it('takes what was leased to other plugins', () => {
    const ipam = { cniVersion: '1.1.0', name: 'net', type: 'bridge', ipam: { type: 'trestle', subnet: '10.9.0.0/24' } }
    const calls = ['c1', 'c2'].map((id) => ({ id, netns: host.pod(id) }))
    for (const call of calls) expect(host.cni('ADD', ipam, call)).toMatchObject({ code: 0 })
    expectSilent(host.cni('GC', { ...ipam, [key]: [{ containerID: 'c2', ifname: 'eth0' }] }))
    expectSilent(host.cni('CHECK', ipam, calls[1]))
    expectSilent(host.cni('GC', { ...ipam, [key]: [] }))
    expectNothingLeft(host, before)
  })

  it('is passed on to a delegated IPAM plugin, valid attachments included', () => {
    const lease = `echo '{"cniVersion":"1.1.0","ips":[{"address":"10.66.0.7/24","gateway":"10.66.0.1"}]}'`
    const ipam = installIpam({ ADD: lease })
    try {
      const conf = ipamConf({ type: 'scripted' })
      const pod = attach(host, conf, { id: 'c1', path: ipam.path })
      const list = listed(pod)
      expectSilent(host.cni('GC', { ...conf, ...list }, { path: ipam.path }))
      const told = JSON.parse(ipam.stdin('GC')) as Record<string, unknown>
      expect(told[key]).toEqual(list[key])
      expectSilent(host.cni('GC', { ...conf, ...listed() }, { path: ipam.path }))
      expect(ipam.calls()).toEqual(['ADD', 'GC', 'DEL', 'GC'])
      expectNothingLeft(host, before)
    } finally {
      ipam.remove()
    }
  })
})
