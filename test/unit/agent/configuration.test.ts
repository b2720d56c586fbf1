// SPDX-License-Identifier: Apache-2.0
// The configuration that the agent writes, from the Node and the operator's template, and what is said
// of a template that cannot be used.

import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  conflistOf,
  emptyTemplate,
  type LookedTemplate,
  lookAtTemplate,
  missingPrograms,
  otherConfigurations,
  withdrawRanges,
  writeConfiguration,
} from '../../../src/agent/configuration.ts'
import { readSettings } from '../../../src/agent/settings.ts'
import { readCall } from '../../../src/cni/call.ts'
import { readConfig, readDelConfig } from '../../../src/config/read-config.ts'

let scratch: string
let file: string
beforeEach(() => {
  scratch = mkdtempSync(`${tmpdir()}/trestle-configuration-`)
  file = `${scratch}/template`
})
afterEach(() => rmSync(scratch, { recursive: true }))

const ranges = ['10.244.1.0/24', 'fd00:10:244:1::/64']
const pods = { mode: 'ptp', ranges } as const
const settings = (more = {}) => {
  const values = { template: file, 'conf-dir': `${scratch}/conf/net.d`, 'bin-dir': `${scratch}/bin`, ...more }
  return readSettings({ values }, { NODE_NAME: 'self' })
}

function look(text: string, before?: LookedTemplate) {
  writeFileSync(file, text)
  return lookAtTemplate(settings(), pods, before)
}

/** The plugin's own configuration, as a runtime hands it over. */
function sent({ plugins: [plugin], ...list }: ReturnType<typeof conflistOf>): string {
  return JSON.stringify({ ...list, ...(plugin as object) })
}
const call = (verb: string) =>
  readCall({ CNI_COMMAND: verb, CNI_CONTAINERID: 'a', CNI_NETNS: '/n', CNI_IFNAME: 'eth0', CNI_PATH: '/bin' })

const written = ({ confDir }: ReturnType<typeof settings>) =>
  JSON.parse(readFileSync(`${confDir}/10-trestle.conflist`, 'utf8')).plugins[0].podcidr

describe('the configuration', () => {
  it.each([
    ['ptp', ['fd00:1::/64', '10.0.1.0/24']],
    ['bridge', ['10.0.1.0/24']],
  ] as const)('of mode %s is one that the plugin reads, with the ranges in the order of the Node', (mode, podCidrs) => {
    const list = conflistOf(emptyTemplate, settings(), { mode, ranges: podCidrs, mtu: 1464 })
    expect(list).toMatchObject({ cniVersion: '1.1.0', name: 'pods' })
    expect(list.plugins).toEqual([
      {
        ...{ type: 'trestle', ...(mode === 'ptp' ? { mode } : {}) },
        ...{ podcidr: podCidrs.length === 1 ? podCidrs[0] : podCidrs, mtu: 1464 },
        ...{ firewall: { hostAccept: 'auto' }, capabilities: { portMappings: true, bandwidth: true } },
      },
    ])
    expect(readConfig(sent(list), call('ADD'))).toMatchObject({ mode, mtu: 1464, ipam: { kind: 'pool' } })
  })

  it('has the template’s keys and plugins, and the defaults that it does not name', () => {
    const { good, wrong } = look(`{ "disableCheck": true, "cniVersion": "1.0.0", "plugins": [
      { "type": "trestle", "MTU": 1400, "firewall": { "ingressPolicy": "isolated" },
        "bandwidth": { "egressRate": 8000000, "egressBurst": 800000 }, "capabilities": { "bandwidth": false } },
      { "type": "tuning", "sysctl": { "net.core.somaxconn": "512" } } ] }`)
    expect(wrong).toBeUndefined()
    const list = conflistOf(good ?? emptyTemplate, settings(), { ...pods, mtu: 1464 })
    expect(list).toMatchObject({ cniVersion: '1.0.0', name: 'pods', disableCheck: true })
    expect(list.plugins).toEqual([
      {
        ...{ type: 'trestle', mode: 'ptp', podcidr: ranges, mtu: 1400 },
        firewall: { hostAccept: 'auto', ingressPolicy: 'isolated' },
        bandwidth: { egressRate: 8_000_000, egressBurst: 800_000 },
        capabilities: { portMappings: true, bandwidth: false },
      },
      { type: 'tuning', sysctl: { 'net.core.somaxconn': '512' } },
    ])
    expect(readConfig(sent(list), call('ADD'))).toMatchObject({ mtu: 1400, ipam: { kind: 'pool' } })
  })

  it('is written as a whole, and where it is another', () => {
    const own = settings()
    expect(writeConfiguration(own, emptyTemplate, pods)).toBe(true)
    expect(readdirSync(own.confDir)).toEqual(['10-trestle.conflist'])
    const text = readFileSync(`${own.confDir}/10-trestle.conflist`, 'utf8')
    expect(JSON.parse(text)).toEqual(conflistOf(emptyTemplate, own, pods))
    expect(written(own)).toEqual(ranges)
    expect(writeConfiguration(own, emptyTemplate, pods)).toBe(false)
    expect(writeConfiguration(own, emptyTemplate, { ...pods, mtu: 1400 })).toBe(true)
    writeFileSync(`${own.confDir}/10-trestle.conflist`, '{')
    expect(writeConfiguration(own, emptyTemplate, { ...pods, ranges: ['10.0.1.0/24'] })).toBe(true)
    expect(written(own)).toBe('10.0.1.0/24')
  })

  it('without its ranges is refused for an ADD and taken for a DEL', () => {
    const own = settings()
    expect(withdrawRanges(own, [])).toBe(false)
    writeConfiguration(own, { ...emptyTemplate, others: [{ type: 'tuning' }] }, pods)
    expect(withdrawRanges(own, pods.ranges)).toBe(false)
    expect(withdrawRanges(own, ['10.0.7.0/24'])).toBe(true)
    const list = JSON.parse(readFileSync(`${own.confDir}/10-trestle.conflist`, 'utf8'))
    expect(list.plugins).toMatchObject([{ type: 'trestle', mode: 'ptp', podcidr: [] }, { type: 'tuning' }])
    for (const verb of ['ADD', 'STATUS']) expect(() => readConfig(sent(list), call(verb))).toThrow('podcidr')
    expect(() => readDelConfig(sent(list), call('DEL').ownTypes)).not.toThrow()
    expect(withdrawRanges(own, [])).toBe(false)
  })

  it('is told of where the runtime uses another file', () => {
    const own = settings()
    expect(otherConfigurations(own)).toEqual([])
    mkdirSync(own.confDir, { recursive: true })
    for (const name of '05-b.conf 00-a.conflist 10-trestle.conflist 20-c.conflist 00-notes.txt'.split(' '))
      writeFileSync(`${own.confDir}/${name}`, '{}')
    const [problem] = otherConfigurations(own)
    expect(problem).toMatchObject({ id: 'OtherConfiguration', node: 'self' })
    expect(problem?.text).toContain(
      'has 00-a.conflist, 05-b.conf before 10-trestle.conflist: the runtime uses 00-a.conf',
    )
  })

  it('is told of where the host lacks a tool or a plugin', () => {
    const own = settings({ 'host-root': `${scratch}/host` })
    const told = (...others: object[]) => missingPrograms(own, { ...emptyTemplate, others }).map(({ text }) => text)
    const put = (path: string, mode: number) => {
      mkdirSync(`${scratch}/${path}`.replace(/\/[^/]+$/, ''), { recursive: true })
      writeFileSync(`${scratch}/${path}`, '')
      chmodSync(`${scratch}/${path}`, mode)
    }
    put('host/usr/sbin/ip', 0o755)
    put('host/sbin/nft', 0o644)
    expect(told()).toEqual([expect.stringMatching(/^the host has no nft, tc: /)])
    for (const tool of ['nft', 'tc']) put(`host/usr/local/bin/${tool}`, 0o755)
    expect(told({ type: 'trestle' })).toEqual([])
    put('bin/tuning', 0o755)
    mkdirSync(`${scratch}/host/opt/cni/bin`, { recursive: true })
    // A link to a path of the host.
    symlinkSync('/nowhere', `${scratch}/host/opt/cni/bin/sbr`)
    expect(told({ type: 'tuning' }, { type: 'sbr' })).toEqual([])
    expect(told({ type: 'vrf' }, { type: 'tuning' }, { type: 'x' })).toEqual([
      expect.stringMatching(/\/bin has no vrf, x: pods get no network; /),
    ])
  })
})

describe('a template', () => {
  const own = (keys: string) => `{ "plugins": [\n  { "type": "trestle",\n    ${keys} } ] }`
  it.each([
    ['a value that ADD refuses', own('"mtu": "big"'), 3, 'mtu: "big" is not'],
    ['an MTU that is too small for the IPv6 range', own('"mtu": 1000'), 3, 'too small for IPv6'],
    ['a key that is misspelt', own('"firewal": {}'), 3, '"firewal" is no key of trestle'],
    ['ranges', own('"podcidr": "10.0.0.0/24"'), 3, "the Node's podCIDRs"],
    ['ranges of another key', own('"ipam": { "type": "host-local" }'), 3, "the Node's podCIDRs"],
    ['a mode', own('"mode": "ptp"'), 3, '--mode'],
    ['a bridge', own('"bridge": "br0"'), 3, 'the agent names the bridge'],
    ['a name', '{\n "name": "other", "plugins": [ { "type": "trestle" } ] }', 2, 'the agent names the network'],
    ['another plugin first', '{ "plugins": [\n { "type": "bridge" } ] }', 2, 'it has to be trestle'],
    ['a version that there is not', '{ "plugins": [ { "type": "trestle" } ],\n "cniVersion": "9.0.0" }', 2, '9.0.0'],
    ['ranges in another spelling', own('"IPAM": { "type": "host-local" }'), 0, "the Node's podCIDRs"],
    ['a comma too many', own('"mtu": 1400,'), 0, 'JSON'],
    ['no object', '[1]', 0, 'no JSON object'],
    ['no plugins in the list', '{ "plugins": [] }', 0, 'plugins'],
    ['a plugin without a type', '{ "plugins": [ {}, { "name": "x" } ] }', 0, 'type'],
    ['a plugin that is a path', '{ "plugins": [ {}, { "type": "../x" } ] }', 0, '"../x"'],
    ['a megabyte', `{}${' '.repeat(1 << 20)}`, 0, 'longer than 1 MiB'],
    // its keys become keys of the list, where no plugin reads them; the old agent refused it.
    ['one plugin in place of a list', '{ "type": "trestle",\n "mtu": 1400 }', 0, 'plugins'],
  ])('with %s is refused with its line, and the one before it stays', (_, text, line, words) => {
    const before = look(own('"mtu": 1400'))
    const { good, wrong = '' } = look(text, before)
    expect(wrong.startsWith(`${file}: ${line === 0 ? '' : `line ${line}: `}`)).toBe(true)
    expect(wrong).toContain(words)
    expect(wrong).not.toMatch(/[\n\0]/)
    expect(good).toBe(before.good)
  })

  it('of nothing says nothing', () => {
    for (const text of ['{}', '{ "plugins": [ {} ] }', '{ "plugins": [ { "type": "trestle" } ] }'])
      expect(look(text).good).toEqual(emptyTemplate)
  })

  it('that is not there is refused where it was asked for, and is empty else; one of a ConfigMap is a link', () => {
    expect(lookAtTemplate(settings(), pods)).toMatchObject({ good: undefined, wrong: `${file}: there is no such file` })
    const unasked = { ...settings(), template: { file, isAsked: false } }
    expect(lookAtTemplate(unasked, pods)).toEqual({ seen: '', good: emptyTemplate })
    const before = look(own('"mtu": 1400'))
    rmSync(file)
    expect(lookAtTemplate(settings(), pods, before).good).toBe(before.good)
    writeFileSync(`${scratch}/data`, own('"mtu": 1400'))
    symlinkSync(`${scratch}/data`, file)
    expect(lookAtTemplate(settings(), pods).good?.own).toEqual({ mtu: 1400 })
  })

  it('is read again only where it or what pods get has changed', () => {
    const first = look(own('"mtu": 1200'))
    expect(first.wrong).toContain('too small for IPv6')
    expect(look(own('"mtu": 1200'), first)).toBe(first)
    const four = lookAtTemplate(settings(), { ...pods, ranges: ['10.244.1.0/24'] }, first)
    expect(four).toMatchObject({ good: { own: { mtu: 1200 } } })
    expect(four.wrong).toBeUndefined()
  })

  it('is judged by both families while the Node has no range', () => {
    writeFileSync(file, own('"mtu": 1200'))
    expect(lookAtTemplate(settings(), { ...pods, ranges: [] }).wrong).toContain('too small for IPv6')
  })
})
