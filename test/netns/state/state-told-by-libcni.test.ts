// SPDX-License-Identifier: Apache-2.0
// The state directory is gone, and the bridge or the rules with it: libcni's cache has the configuration that each pod's
// ADD read, and by that restore and ADD make everything again as it was.

import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { stateOf } from '../../support/state-layout.ts'

const missing = missingCnitool([])
if (missing !== undefined) console.log(missing)

const plugin = {
  type: 'trestle',
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  nonMasqueradeCIDRs: ['10.9.0.0/16'],
  portmap: { conditionsV4: ['ip saddr 10.0.0.0/8'] },
  removeWhenEmpty: true,
  capabilities: { portMappings: true, bandwidth: true },
}
const bridged = { ...plugin, macspoofchk: true, firewall: { ingressPolicy: 'isolated' } }
const routed = { ...plugin, mode: 'ptp' }
const limits = { ingressRate: 8_000_000, ingressBurst: 8_000_000, egressRate: 8_000_000, egressBurst: 8_000_000 }
const capabilities = {
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }],
  bandwidth: limits,
}

describe.skipIf(missing !== undefined)('state and more that was removed under live pods', () => {
  let host: Host
  let runtime: Runtime
  let before: ReturnType<typeof snapshot>
  beforeEach(() => {
    host = openHost()
    before = snapshot(host)
    runtime = openRuntime(host, 'told')
  })
  afterEach(() => {
    runtime.close()
    host.close()
  })

  const write = (conf: object) => runtime.write({ cniVersion: '1.0.0', name: 'told', plugins: [conf] })
  const add = (label: string, given: object = {}) => {
    const netns = host.pod(label)
    return { netns, added: runtime.tool('add', netns, given) }
  }
  const network = () => JSON.parse(readFileSync(stateOf(host, 'told').shared, 'utf8')) as unknown
  /** What each record says of its attachment, by its key. */
  const specs = () => {
    const directory = stateOf(host, 'told').directoryOf('attachments')
    return readdirSync(directory)
      .sort()
      .map((name) => JSON.parse(readFileSync(`${directory}/${name}`, 'utf8')) as { spec?: object; seen?: object })
      .map(({ spec, seen }) => spec ?? seen)
  }
  const rules = () => host.run('nft', ['list', 'ruleset']).stdout

  it.each([
    ['the bridge', bridged, ['ip link del cni0']],
    ['the rules', bridged, ['nft flush ruleset']],
    ['both', bridged, ['ip link del cni0', 'nft flush ruleset']],
    ["routed pods' rules", routed, ['nft flush ruleset']],
  ])('%s: restore and ADD make them as they were', (_, conf, lines) => {
    write(conf)
    const pods = [add('one', capabilities), add('two')] as const
    for (const { added } of pods) expect(added.code, added.stderr).toBe(0)
    const was = { specs: specs(), network: network(), rules: rules() }
    const lose = () => {
      for (const name of readdirSync(host.stateDir)) rmSync(`${host.stateDir}/${name}`, { recursive: true })
      for (const line of lines) expect(host.run('sh', ['-c', line]).code, line).toBe(0)
    }

    lose()
    expect(runtime.command('restore')).toMatchObject({ code: 0, stdout: expect.stringMatching(/, 0 lost\n$/) })
    expect({ specs: specs(), network: network(), rules: rules() }).toEqual(was)
    expect(runtime.command('restore', '--dry-run').stdout).toBe('0 missing, 0 lost\n')
    for (const { netns } of pods) expect(runtime.tool('check', netns, capabilities)).toMatchObject({ code: 0 })

    lose()
    const thief = add('thief', capabilities)
    expect(thief.added.stdout + thief.added.stderr).toContain('host port 8080/tcp is taken')
    const third = add('three')
    expect(third.added.code, third.added.stderr).toBe(0)
    for (const { netns } of [...pods, third])
      expect(runtime.tool('check', netns, capabilities)).toMatchObject({ code: 0 })
    expect(rules()).toContain('8080')

    for (const { netns } of [...pods, third])
      expect(runtime.tool('del', netns, capabilities)).toMatchObject({ code: 0 })
    expectNothingLeft(host, before)
  })
})
