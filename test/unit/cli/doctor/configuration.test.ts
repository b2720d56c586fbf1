// SPDX-License-Identifier: Apache-2.0
// A directory as the runtime that reads it has it: with its own settings, as `trestle lint` does.

import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { judge } from '../../../../src/commands/doctor/judge.ts'
import { bridgeOf, lookAtPools, podNetworks } from '../../../../src/commands/doctor/networks.ts'
import { lookAtAgents, lookAtConfiguration } from '../../../../src/commands/doctor/used-configuration.ts'
import type { NodeRuntime } from '../../../../src/commands/runtimes/node-runtimes.ts'
import { emptyNamespace } from '../../../../src-before/model/observed.ts'
import { healthy, runtime } from './healthy.ts'

let confDir: string
beforeEach(() => {
  confDir = mkdtempSync(`${tmpdir()}/trestle-conf-`)
  const list = { cniVersion: '1.0.0', name: 'a', plugins: [{ type: 'trestle', podcidr: '10.1.0.0/24' }] }
  writeFileSync(`${confDir}/10-a.conflist`, JSON.stringify(list))
  writeFileSync(`${confDir}/20-b.conflist`, '{ "name": "b",')
})
afterEach(() => rmSync(confDir, { recursive: true }))

function reader(maxConfNum: number): NodeRuntime {
  const settings = { confDir, binDirs: ['/opt/cni/bin'], maxConfNum }
  return {
    runtime: 'containerd',
    pid: 7,
    settings,
    source: 'CRI Status',
    files: [],
    edit: { file: '/etc/containerd/config.toml', restart: 'restart it' },
    root: '',
  }
}
const used = (found: readonly NodeRuntime[]) => lookAtConfiguration({ ...runtime, confDir }, found)

it('containerd that loads one file does not mind a broken one behind it', () => {
  expect(used([reader(1)])).toMatchObject({ file: '10-a.conflist', network: 'a' })
  expect(used([])).toMatchObject({ file: '10-a.conflist', network: 'a' })
})

it('containerd that loads all of them stops at it', () => {
  const { file, prediction } = used([reader(0)])
  expect(file).toBeUndefined()
  expect(prediction?.containerd).toMatchObject({ stoppedBy: '20-b.conflist' })
})

it.each([
  ['containerd', undefined],
  ['CRI-O', '10-a.conflist'],
  ['cri-dockerd', '10-a.conflist'],
] as const)('%s with a broken file in front uses %s', (name, file) => {
  writeFileSync(`${confDir}/05-broken.conflist`, '{ "name": "b",')
  const { runtime: _, ...rest } = reader(1)
  const binDirs = [`${confDir}/bin`]
  mkdirSync(`${confDir}/bin`)
  const versions = '{ "cniVersion": "1.0.0", "supportedVersions": ["1.0.0"] }'
  writeFileSync(`${confDir}/bin/trestle`, `#!/bin/sh\necho '${versions}'\n`, { mode: 0o755 })
  const seen = lookAtConfiguration({ ...runtime, name, confDir, binDirs }, [{ ...rest, runtime: name }])
  expect(seen.file).toBe(file)
  const found = judge({ ...healthy, configurations: [seen] }).map(({ id, run }) => [id, run?.startsWith('mv ')])
  expect(found).toEqual(file === undefined ? [['json-syntax', true]] : [])
})

it('a plugin that is in the directory of another runtime is told with that directory', () => {
  const [empty, other] = [`${confDir}/lib`, `${confDir}/opt`]
  mkdirSync(empty)
  mkdirSync(other)
  writeFileSync(`${other}/trestle`, '', { mode: 0o755 })
  const elsewhere = { ...reader(1), settings: { confDir: '/nowhere', binDirs: [other], maxConfNum: 1 } }
  const { findings } = lookAtConfiguration({ ...runtime, confDir, binDirs: [empty] }, [reader(1), elsewhere])
  expect(findings.find(({ id }) => id === 'plugin-missing')).toMatchObject({
    message: `there is no plugin "trestle" in ${empty}; it is in ${other}`,
    cure: expect.stringContaining(`ln -s ${other}/trestle ${empty}/ `),
  })
})

it.each([
  [{ type: 'bridge' }, 'cni0'],
  [{ type: 'bridge', bridge: 'br1' }, 'br1'],
  [{ type: 'flannel' }, 'cni0'],
  [{ type: 'flannel', delegate: { bridge: 'br2' } }, 'br2'],
  [{ type: 'flannel', delegate: { type: 'ptp' } }, undefined],
  [{ type: 'ptp' }, undefined],
])('the bridge of %j is %s', (conf, bridge) => expect(bridgeOf(conf)).toBe(bridge))

it('a reservation is a leak where no runtime lists its container, and no ADD may be at work', () => {
  mkdirSync(`${confDir}/a`)
  const reserve = (address: string, id: string, time: Date) => {
    writeFileSync(`${confDir}/a/${address}`, `${id}\r\neth0`)
    utimesSync(`${confDir}/a/${address}`, time, time)
  }
  const old = new Date('2026-01-01')
  reserve('10.1.0.2', 'lives', old)
  reserve('10.1.0.3', 'gone', old)
  reserve('10.1.0.4', 'starts', new Date())
  const conf = { type: 'bridge', ipam: { type: 'host-local', subnet: '10.1.0.0/24', dataDir: confDir } }
  const plugins = [{ type: 'bridge', ipamType: 'host-local', conf, isOwn: false }]
  const used = { runtime, findings: [], files: [], file: 'a.conflist', network: 'a', plugins }
  const seen = { taken: 3, directory: `${confDir}/a` }
  expect(lookAtPools(used, new Set(['lives']))).toMatchObject([{ ...seen, leaked: ['10.1.0.3'], isAnyListed: true }])
  expect(lookAtPools(used, undefined)).toMatchObject([{ ...seen, leaked: [], isAnyListed: false }])
})

it.each([
  ['portmap', false],
  ['firewall', true],
])('the network of a list of bridge and %s has an accept for each pod: %s', (type, accepts) => {
  const ipam = { type: 'host-local', subnet: '10.1.0.0/24' }
  const plugins = [{ type: 'bridge', ipam }, { type }].map((conf) => ({ type: conf.type, conf, isOwn: false }))
  const configurations = [{ runtime, findings: [], files: [], file: 'a.conflist', network: 'a', plugins }]
  const [network] = podNetworks({ networks: [], records: [], configurations, host: emptyNamespace })
  expect(network).toMatchObject({ name: 'a', accepts })
})

it.each([
  [{ type: 'dhcp', conf: { ipam: { type: 'dhcp' } } }, ['/run/cni/dhcp.sock']],
  [{ type: 'dhcp', conf: { ipam: { type: 'dhcp', daemonSocketPath: '/run/x.sock' } } }, ['/run/x.sock']],
  [{ type: 'multus-shim', conf: {} }, ['/run/multus/multus.sock']],
  [{ type: 'multus-shim', conf: { daemonSocketDir: '/run/k3s/multus/' } }, ['/run/k3s/multus/multus.sock']],
  [{ type: 'calico', conf: { nodename_file_optional: false } }, ['/var/lib/calico/nodename']],
  [{ type: 'calico', conf: { nodename_file: '/x' } }, ['/x']],
  [{ type: 'calico', conf: { nodename_file_optional: true } }, []],
])('the agent of %j provides %j', (of, paths) => {
  const plugin = of.type === 'dhcp' ? { ...of, type: 'macvlan', ipamType: 'dhcp' } : of
  expect(lookAtAgents([{ ...plugin, isOwn: false }]).map(({ path }) => path)).toEqual(paths)
})
