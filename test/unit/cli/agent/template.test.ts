// SPDX-License-Identifier: Apache-2.0
// The operator's template: what is written from it, and what is said, with its line, of one that cannot be used.

import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { lookAtTemplate } from '../../../../src-before/cli/agent/template.ts'
import { readInvocation } from '../../../../src-before/cni/invocation.ts'
import { readConfig } from '../../../../src-before/config/config.ts'
import { conflist, emptyTemplate, templateMtu } from '../../../../src-before/plan/agent/conflist.ts'
import { mtuProblems } from '../../../../src-before/plan/agent/new-pods.ts'

const scratch = mkdtempSync(join(tmpdir(), 'trestle-template-'))
afterAll(() => rmSync(scratch, { recursive: true }))
const file = join(scratch, 'pods.conflist')
const podCidrs = ['10.244.1.0/24', 'fd00:10:244:1::/64']
const settings = { template: { file, isAsked: true }, network: 'pods', mode: 'bridge', cniVersion: '1.1.0' } as const

function look(text: string, before?: ReturnType<typeof lookAtTemplate>) {
  writeFileSync(file, text)
  return lookAtTemplate(settings, podCidrs, before)
}

function written(text: string) {
  const { good, wrong } = look(text)
  expect(wrong).toBeUndefined()
  return conflist({ name: 'pods', mode: 'bridge', cniVersion: '1.1.0', podCidrs, template: good }) as {
    readonly plugins: readonly Record<string, unknown>[]
  }
}

describe('a template', () => {
  it('adds keys and plugins to what the Node says, and keeps the defaults that it does not name', () => {
    const text = `{ "disableCheck": true, "plugins": [
      { "type": "trestle", "MTU": 1400, "firewall": { "ingressPolicy": "isolated" },
        "bandwidth": { "egressRate": 8000000, "egressBurst": 800000 }, "capabilities": { "bandwidth": false } },
      { "type": "tuning", "sysctl": { "net.core.somaxconn": "512" } } ] }`
    const list = written(text)
    expect(list).toMatchObject({ cniVersion: '1.1.0', name: 'pods', disableCheck: true })
    const [own, other] = list.plugins
    expect(own).toEqual({
      type: 'trestle',
      podcidr: podCidrs,
      mtu: 1400,
      firewall: { hostAccept: 'auto', ingressPolicy: 'isolated' },
      bandwidth: { egressRate: 8_000_000, egressBurst: 800_000 },
      capabilities: { portMappings: true, bandwidth: false },
    })
    expect(other).toEqual({ type: 'tuning', sysctl: { 'net.core.somaxconn': '512' } })
    const call = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'a', CNI_NETNS: '/n', CNI_IFNAME: 'eth0', CNI_PATH: '/bin' }
    const sent = JSON.stringify({ cniVersion: '1.1.0', name: 'pods', ...own })
    expect(readConfig(sent, readInvocation(call))).toMatchObject({ mtu: 1400, ipam: { kind: 'pool' } })
  })

  it('is an MTU that pods are to have, where it names one', () => {
    const mtuOf = (mtu: unknown) => templateMtu({ ...emptyTemplate, own: { mtu } })
    expect([1400, 0, 'auto', undefined].map(mtuOf)).toEqual([1400, undefined, undefined, undefined])
    expect(mtuProblems('self', { bytes: 1400, by: 'template' }, [1400])).toEqual([])
    expect(mtuProblems('self', { bytes: 1400, by: 'template' }, [1500])[0]?.text).toContain('the template has MTU 1400')
  })

  const own = (keys: string) => `{ "plugins": [\n  { "type": "trestle",\n    ${keys} } ] }`
  it.each([
    ['a value that ADD refuses', own('"mtu": "big"'), 3, 'mtu: "big" is not'],
    ['an MTU that is too small for the IPv6 range', own('"mtu": 1000'), 3, 'too small for IPv6'],
    ['a key that is misspelt', own('"firewal": {}'), 3, 'did you mean "firewall"'],
    ['ranges', own('"podcidr": "10.0.0.0/24"'), 3, "the Node's podCIDRs"],
    ['ranges in another spelling', own('"IPAM": { "type": "host-local" }'), 3, "the Node's podCIDRs"],
    ['a mode', own('"mode": "ptp"'), 3, '--mode'],
    ['a comma too many', own('"mtu": 1400,'), 3, 'remove the comma'],
    ['a name that is not the network', '{\n "name": "other", "plugins": [ { "type": "trestle" } ] }', 2, '"pods"'],
    ['another plugin first', '{ "plugins": [\n { "type": "bridge" } ] }', 2, 'use "trestle"'],
    ['no plugins', '{\n}', 1, 'plugins'],
    ['one plugin in place of a list', '{ "type": "trestle",\n "mtu": 1400 }', 1, 'plugins'],
    ['a capability that no runtime sends', own('"capabilities": { "portMapping": true }'), 3, '"portMappings"'],
    [
      'a version that there is not',
      '{ "plugins": [ { "type": "trestle" } ],\n "cniVersion": "9.0.0" }',
      2,
      'no version',
    ],
    ['no text', '[1]', 1, 'object'],
  ])('with %s is refused with its line, and the one before it stays', (_, text, line, words) => {
    const before = look(own('"mtu": 1400'))
    const { good, wrong = '' } = look(text, before)
    expect(wrong).toContain(`${file}, line ${line}: `)
    expect(wrong).toContain(words)
    expect(wrong).not.toMatch(/[\n\0]/)
    expect(good).toBe(before.good)
  })

  it('that is not there is refused where it was asked for, and is empty else; one of a ConfigMap is a link', () => {
    const nowhere = join(scratch, 'nowhere')
    const lookAt = (isAsked: boolean) =>
      lookAtTemplate({ ...settings, template: { file: nowhere, isAsked } }, podCidrs, undefined)
    expect(lookAt(true)).toMatchObject({ good: undefined, wrong: `${nowhere}: there is no such file` })
    expect(lookAt(false)).toMatchObject({ good: emptyTemplate, wrong: undefined })
    look(own('"mtu": 1400'))
    symlinkSync(file, nowhere)
    expect(lookAt(true).good?.own).toEqual({ mtu: 1400 })
  })

  it('is read again only where it or the ranges changed', () => {
    const first = look(own('"mtu": 1200'))
    expect(first.wrong).toContain('too small for IPv6')
    expect(look(own('"mtu": 1200'), first)).toBe(first)
    expect(lookAtTemplate(settings, ['10.244.1.0/24'], first)).toMatchObject({ wrong: undefined })
  })

  it('has remarks where something is probably not meant, and is used', () => {
    const { good, wrong, remarks } = look(own('"ipMasqBackend": "iptables"'))
    expect(wrong).toBeUndefined()
    expect(good?.own['ipMasqBackend']).toBe('iptables')
    expect(remarks).toEqual([expect.stringContaining('line 3: ipMasqBackend has no effect')])
  })
})
