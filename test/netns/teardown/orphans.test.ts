// SPDX-License-Identifier: Apache-2.0
// Links and rules of ours that no record names, as the tools of a killed call left them before a call ended them: GC and
// `trestle gc` see them, and take away what no living pod has.

import { readdirSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { makeStateOld } from '../../support/damage/worn-state.ts'
import { type Finished, type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { aliasOf } from '../../support/link-names.ts'
import { expectSilent } from '../../support/outcome.ts'
import { recordName, stateFiles, stateOf, stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf, onHostJson } from '../../support/traffic/pods.ts'

const portMappings = (hostPort: number) => ({ portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] })
const conf = (hostPort: number) =>
  netConf({
    ...{ bandwidth: { ingressRate: 8_000_000, egressRate: 8_000_000 }, firewall: { ingressPolicy: 'isolated' } },
    runtimeConfig: portMappings(hostPort),
  })
const listed = (...ids: readonly string[]) => ({
  'cni.dev/valid-attachments': ids.map((containerID) => ({ containerID, ifname: 'eth0' })),
})

describe('what no record names', () => {
  let host: Host
  let before: ReturnType<typeof snapshot>
  beforeEach(() => {
    host = openHost()
    before = snapshot(host)
  })
  afterEach(() => host.close())

  /** A pod whose record and reservations are gone. */
  function forgotten() {
    const pod = attach(host, conf(8080))
    const state = stateOf(host, 'net')
    rmSync(state.finished('c1'))
    for (const name of readdirSync(state.directoryOf('addresses'))) rmSync(state.address(name))
    for (const name of readdirSync(stateFiles(host).ports)) rmSync(stateFiles(host).port(name))
    return pod
  }
  function gc(
    ...words: readonly string[]
  ): Finished & { readonly orphans: readonly { kind: string; verdict: string }[] } {
    const done = host.run('env', [stateWord(host), trestle, 'gc', '--no-runtime', '-o', 'json', ...words])
    return { ...done, orphans: JSON.parse(done.stdout).orphans }
  }

  it('an ifb says whose it is', () => {
    attach(host, conf(8080))
    const aliases = onHostJson(host, ['link', 'show', 'type', 'ifb']).map(
      (link) => (link as { ifalias?: string }).ifalias,
    )
    expect(aliases).toEqual([aliasOf({ network: 'net', containerId: 'c1', ifName: 'eth0' })])
  })

  it('GC takes an unlisted one away, with its ifb and rules, and leaves a listed one', () => {
    const gone = forgotten()
    const other = attach(host, conf(8081), { id: 'c2' })
    expectSilent(host.cni('GC', { ...conf(8080), ...listed('c1', 'c2') }))
    expect(onHostJson(host, ['link', 'show', 'dev', gone.hostLink])).toHaveLength(1)
    expect(host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout).toMatch(/\b8080\b/)
    expectSilent(host.cni('GC', { ...conf(8080), ...listed('c2') }))
    expectSilent(later(host, 'CHECK', { conf: conf(8081), pod: other }))
    expectSilent(host.cni('DEL', conf(8081), other.call))
    expectNothingLeft(host, before)
  })

  it('gc tells of it, with --apply writes its record again while its pod is there, and collects it after that', () => {
    const gone = forgotten()
    const other = attach(host, conf(8081), { id: 'c2' })
    rmSync(stateOf(host, 'net').finished('c1'), { force: true })
    const told = gc()
    expect(told.orphans.map(({ kind, verdict }) => `${kind} ${verdict}`).sort()).toEqual(['link report', 'link report'])
    expect(told.code).toBe(1)
    for (const done of [gc('--apply'), gc()]) expect(done.orphans).toEqual([])
    expect(stateOf(host, 'net').names('attachments')).toEqual([recordName('c1'), recordName('c2')])
    host.removePod(gone.netns)
    makeStateOld(host.stateDir)
    expect(gc('--apply').code).toBe(0)
    expectSilent(later(host, 'CHECK', { conf: conf(8081), pod: other }))
    expectSilent(host.cni('DEL', conf(8081), other.call))
    expectNothingLeft(host, before)
  })

  it('rules of a pod that is gone are collected', () => {
    const gone = forgotten()
    host.removePod(gone.netns)
    expect(gc().orphans.every(({ verdict }) => verdict === 'collect')).toBe(true)
    expect(gc('--apply').code).toBe(0)
    expect(gc().orphans).toEqual([])
    expectNothingLeft(host, before)
  })
})
