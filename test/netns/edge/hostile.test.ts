// SPDX-License-Identifier: Apache-2.0
// Strings that would mean something to a shell, a batch of ip, nft, the kernel or a file system: refused
// with the right code before anything is touched, or, where they are legal names, taken literally.

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft, expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, interfacesOf, ipamConf, later, netConf } from '../../support/traffic/pods.ts'

const strings = [
  'a\nlink del lo',
  'a\u0000b',
  '%d',
  'a#b',
  '"',
  "a'b",
  'a;b',
  '{}',
  '$(id)',
  '`id`',
  '../../x',
  '-help',
  'a\\\nb',
  '\u202e',
  'x x'.repeat(200),
]
const range = '10.240.0.0/24'

let host: Host
let netns: string
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
  before = snapshot(host)
})
afterEach(() => host.close())

/** Where a string may be put, and the code it must be refused with. */
const places: readonly [string, number, (text: string) => unknown][] = [
  ['name', 7, (name) => netConf({ name })],
  ['podcidr', 7, (podcidr) => netConf({ podcidr })],
  ['mtu', 7, (mtu) => netConf({ mtu })],
  ['mode', 7, (mode) => netConf({ mode })],
  ['nonMasqueradeCIDRs', 7, (text) => netConf({ nonMasqueradeCIDRs: [text] })],
  ['runtimeConfig.mac', 7, (mac) => netConf({ runtimeConfig: { mac } })],
  ['args.cni.mac', 7, (mac) => netConf({ tuning: {}, args: { cni: { mac } } })],
  ['args.cni.ips', 7, (ip) => netConf({ tuning: {}, args: { cni: { ips: [ip] } } })],
  ['runtimeConfig.ips', 7, (ip) => netConf({ runtimeConfig: { ips: [ip] } })],
  ['runtimeConfig.ipRanges', 7, (subnet) => netConf({ runtimeConfig: { ipRanges: [[{ subnet }]] } })],
  ['ipam.subnet', 7, (subnet) => ipamConf({ type: 'trestle', subnet })],
  ['ipam.rangeStart', 7, (rangeStart) => ipamConf({ type: 'trestle', subnet: range, rangeStart })],
  ['ipam.gateway', 7, (gateway) => ipamConf({ type: 'trestle', subnet: range, gateway })],
  ['ipam.exclude', 7, (text) => ipamConf({ type: 'trestle', subnet: range, exclude: [text] })],
  ['ipam.routes dst', 7, (dst) => ipamConf({ type: 'trestle', subnet: range, routes: [{ dst }] })],
  ['ipam.routes gw', 7, (gw) => ipamConf({ type: 'trestle', subnet: range, routes: [{ dst: '0.0.0.0/0', gw }] })],
  ['ipam.routes mtu', 7, (mtu) => ipamConf({ type: 'trestle', subnet: range, routes: [{ dst: '0.0.0.0/0', mtu }] })],
  ['ipam.addresses', 7, (address) => ipamConf({ type: 'static', addresses: [{ address }] })],
  ['prevResult', 7, (address) => netConf({ prevResult: { cniVersion: '1.1.0', ips: [{ address }] } })],
]

describe('a hostile string', () => {
  it.each(places)('as %s is refused with code %i and changes nothing', (_, code, confOf) => {
    for (const text of strings) expectError(host.cni('ADD', confOf(text), { netns }), code)
    expectUntouched(host, before)
  })

  it.each(strings.filter((text) => /[\u0000-\u001f%#"'`\u202e ]|^-|\.\.\//.test(text)))(
    'as bridge is refused: %j',
    (bridge) => {
      expectError(host.cni('ADD', netConf({ bridge }), { netns }), 7, 'bridge')
      expectUntouched(host, before)
    },
  )

  it.each(strings.filter((text) => /[\u0000-\u001f]|\.\.\//.test(text)))(
    'as ipam.type or a path is refused: %j',
    (text) => {
      expectError(host.cni('ADD', ipamConf({ type: text }), { netns }), 7, 'ipam.type')
      for (const key of ['dataDir', 'resolvConf']) {
        expectError(host.cni('ADD', ipamConf({ type: 'trestle', subnet: range, [key]: text }), { netns }), 7, key)
      }
      expectUntouched(host, before)
    },
  )

  it('with control characters in dns is refused', () => {
    for (const key of ['nameservers', 'search', 'options']) {
      expectError(host.cni('ADD', netConf({ dns: { [key]: ['a\nb'] } }), { netns }), 7, key)
    }
    expectUntouched(host, before)
  })

  const forEnv = strings.filter((text) => !text.includes('\0'))
  it.each(forEnv)('as container id is refused: %j', (id) => {
    for (const verb of ['ADD', 'DEL'] as const)
      expectError(host.cni(verb, netConf(), { netns, id }), 4, 'CNI_CONTAINERID')
    expectUntouched(host, before)
  })

  it.each(forEnv.filter((text) => /[\n%#"'`/\u202e ]|^-/.test(text)))('as interface name is refused: %j', (ifName) => {
    expectError(host.cni('ADD', netConf(), { netns, ifName }), 4, 'CNI_IFNAME')
    expectUntouched(host, before)
  })

  it.each(forEnv)('as IP, GATEWAY or MAC of CNI_ARGS is refused: %j', (text) => {
    const still = ipamConf({ type: 'static', addresses: [{ address: '10.240.0.9/24' }] })
    expectError(host.cni('ADD', netConf(), { netns, args: `IP=${text}` }), 4)
    expectError(host.cni('ADD', still, { netns, args: `GATEWAY=${text}` }), 4)
    const mac = host.cni('ADD', netConf(), { netns, args: `MAC=${text}` })
    expect([4, 7]).toContain(mac.json?.code)
    expectUntouched(host, before)
  })

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])('as a key is a key like any other: %s', (key) => {
    const text = JSON.stringify(netConf()).replace('{', `{"${key}":{"mtu":1,"type":"x"},`)
    const added = host.cni('ADD', text, { netns })
    expect(added.json?.interfaces?.[2]?.mtu, added.stdout).toBe(1500)
    expectSilent(host.cni('DEL', text, { netns }))
    expectNothingLeft(host, before)
  })
})

describe('ipam.resolvConf', () => {
  const withFile = (resolvConf: string) => ipamConf({ type: 'host-local', subnet: range, resolvConf })

  it('may be a link, as /etc/resolv.conf is with systemd-resolved', () => {
    const [file, link] = [`${host.stateDir}/resolv.conf`, `${host.stateDir}/link`]
    writeFileSync(file, 'nameserver 10.96.0.10\nsearch a.b\n')
    symlinkSync('resolv.conf', link)
    const pod = attach(host, withFile(link), { netns })
    expect(pod.result.dns).toEqual({ nameservers: ['10.96.0.10'], search: ['a.b'] })
    expectSilent(later(host, 'DEL', { conf: withFile(link), pod }))
  })

  it('that is no file is refused with code 5, and nothing waits or is left', () => {
    host.run('mkfifo', [`/run/${host.name}-pipe`])
    for (const path of [`/run/${host.name}-pipe`, '/dev/zero', '/proc', '/none'])
      expectError(host.cni('ADD', withFile(path), { netns }), 5, 'ipam.resolvConf')
    expectNothingLeft(host, before)
  })
})

describe('an odd but legal name', () => {
  it.each(['a;b', '{}', '$x', 'a{b}c', '~', 'a*b', '[x]', 'a|b', 'a&b', 'a>b', '!', 'a=b', '123', 'dev', 'via'])(
    'of an interface is taken literally: %s',
    (ifName) => {
      const pod = attach(host, netConf(), { netns, ifName })
      expect(interfacesOf(host, netns)).toEqual([ifName])
      expectSilent(later(host, 'CHECK', { conf: netConf(), pod }))
      expectSilent(later(host, 'DEL', { conf: netConf(), pod }))
      expect(interfacesOf(host, netns)).toEqual([])
      expectNothingLeft(host, before)
    },
  )

  it.each(['br-;x', 'br-{}', 'br-$x', 'br-dev'])('of a bridge is taken literally: %s', (bridge) => {
    const conf = netConf({ bridge, podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
    const pod = attach(host, conf, { netns })
    expect(pod.result.interfaces[0]?.name).toBe(bridge)
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
  })

  it('of a pod is data, whatever it holds', () => {
    const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=a"b{}%d;K8S_POD_NAME=#$(id)\'\n'
    const pod = attach(host, netConf(), { netns, args })
    expectError(host.cni('ADD', netConf(), pod.call), 103, '$(id)')
    expectSilent(later(host, 'DEL', { conf: netConf(), pod }))
    expectNothingLeft(host, before)
  })

  it.each([300, 5000])('of a network and a container with %i characters works', (length) => {
    mkdirSync('/var/lib/cni/networks', { recursive: true })
    const conf = netConf({ name: 'n'.repeat(length) })
    const pod = attach(host, conf, { netns, id: 'c'.repeat(length) })
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectSilent(host.cni('DEL', conf, { id: pod.id }))
    expectNothingLeft(host, before)
  })
})
