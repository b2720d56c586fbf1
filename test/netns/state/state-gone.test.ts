// SPDX-License-Identifier: Apache-2.0
// A state directory that was removed under live pods, and one that nothing can be written to: no live pod's address or
// host port is given away, no call ends with an internal error, and afterwards every DEL leaves nothing.

import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { type Finished, type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { containerIdOf, type Part, reservedPorts, stateEnv, stateFiles, stateOf } from '../../support/state-layout.ts'
import { failing } from '../../support/tool.ts'
import { attach, later, netConf, onHostJson, type Pod } from '../../support/traffic/pods.ts'
import { pings } from '../../support/traffic/traffic.ts'

const missing = missingCnitool(['bridge', 'host-local'])
if (missing !== undefined) console.log(missing)

const plugin = { type: 'trestle', podcidr: '10.240.0.0/24', capabilities: { portMappings: true } }
const list = { cniVersion: '1.0.0', name: 'gone', plugins: [plugin] }
const ports = (hostPort: number, upper = false) => {
  const mapping = { hostPort, containerPort: 80, protocol: 'tcp' }
  // containerd's names (go-cni, types.go).
  return { portMappings: [upper ? { HostPort: hostPort, ContainerPort: 80, Protocol: 'tcp' } : mapping] }
}

describe.skipIf(missing !== undefined)('state that was removed under live pods', () => {
  let host: Host
  let runtime: Runtime
  let before: ReturnType<typeof snapshot>
  beforeEach(() => {
    host = openHost()
    before = snapshot(host)
    runtime = openRuntime(host, 'gone')
    runtime.write(list)
  })
  afterEach(() => {
    runtime.close()
    host.close()
  })

  const add = (label: string, capabilities: object = {}) => {
    const netns = host.pod(label)
    return { netns, added: runtime.tool('add', netns, capabilities) }
  }
  const addressIn = ({ stdout }: Finished): string =>
    (JSON.parse(stdout) as { ips: readonly { address: string }[] }).ips[0]?.address ?? ''
  const reserved = (part: Part): readonly string[] => readdirSync(stateOf(host, 'gone').directoryOf(part))

  it.each([false, true])('gives nothing of theirs away that libcni remembers (ports in capitals: %s)', (upper) => {
    const [one, two] = [add('one', ports(8080, upper)), add('two')]
    for (const name of readdirSync(host.stateDir)) rmSync(`${host.stateDir}/${name}`, { recursive: true })

    const third = add('three')
    expect(third.added.code, third.added.stderr).toBe(0)
    expect([one, two].map(({ added }) => addressIn(added))).not.toContain(addressIn(third.added))
    expect([...reserved('addresses')].sort()).toEqual(['10.240.0.2', '10.240.0.3', '10.240.0.4'])
    const thief = add('thief', ports(8080))
    expect(thief.added.code).not.toBe(0)
    expect(thief.added.stdout + thief.added.stderr).toContain('host port 8080/tcp is taken')

    for (const [{ netns }, capabilities] of [
      [one, ports(8080, upper)],
      [two, {}],
      [third, {}],
    ] as const)
      expect(runtime.tool('del', netns, capabilities)).toMatchObject({ code: 0 })
    expectNothingLeft(host, before)
  })

  it('gives no address away that libcni alone remembers, of whichever network the next ADD is', () => {
    runtime.write({ ...list, plugins: [{ ...plugin, podcidr: 'fd00:240::/64' }] })
    const { netns, added } = add('one')
    host.run('ip', ['-n', netns.slice('/run/netns/'.length), 'addr', 'flush', 'dev', 'eth0'])
    for (const name of readdirSync(host.stateDir)) rmSync(`${host.stateDir}/${name}`, { recursive: true })
    const other = netConf({ name: 'other', bridge: 'br-other', podcidr: '10.241.0.0/24' })
    attach(host, other, { id: 'c2' })
    expect(reserved('addresses')).toEqual([addressIn(added).replace(/\/.*/, '')])
    expect(addressIn(add('two').added)).not.toBe(addressIn(added))
  })

  const lose = () => {
    for (const name of readdirSync(host.stateDir)) rmSync(`${host.stateDir}/${name}`, { recursive: true })
  }
  const foreign = { type: 'bridge', bridge: 'br-foreign', isGateway: true }
  const rules = () => host.run('nft', ['list', 'ruleset']).stdout

  it('gives no address away that it has leased to the pod of another plugin', () => {
    runtime.write({ ...list, plugins: [{ ...foreign, ipam: { type: 'trestle', subnet: '10.240.0.0/24' } }] })
    const pods = [add('one'), add('two')]
    lose()
    const all = [...pods, add('three')]
    expect(new Set(all.map(({ added }) => addressIn(added))).size).toBe(3)
    expect(reserved('addresses')).toHaveLength(3)
    for (const { netns } of all) expect(runtime.tool('del', netns)).toMatchObject({ code: 0 })
    expect(reserved('addresses')).toEqual([])
  })

  it('gives no host port away of a pod that another plugin made', () => {
    const ipam = { type: 'host-local', subnet: '10.240.0.0/24', dataDir: '/run/cni/leases' }
    const chained = { type: 'trestle', capabilities: { portMappings: true }, ipMasq: true }
    runtime.write({ ...list, plugins: [{ ...foreign, ipam }, chained] })
    const { netns, added } = add('one', ports(8080))
    expect(added.code, added.stdout).toBe(0)
    const was = rules()
    lose()
    const thief = add('thief', ports(8080))
    expect(thief.added.stdout + thief.added.stderr).toContain('host port 8080/tcp is taken')
    expect(rules()).toBe(was)
    lose()
    host.run('nft', ['flush', 'ruleset'])
    const second = add('second', ports(8080))
    expect(second.added.stdout + second.added.stderr).toContain('host port 8080/tcp is taken')
    const next = add('next', ports(8081))
    expect(next.added.code, next.added.stdout).toBe(0)
    const checked = runtime.tool('check', netns, ports(8080))
    expect(checked.stderr).toContain('trestle: CHECK: the record was lost: CHECK compares reservations alone')
    for (const [pod, port] of [
      [netns, 8080],
      [next.netns, 8081],
    ] as const)
      expect(runtime.tool('del', pod, ports(port))).toMatchObject({ code: 0 })
    expect(readdirSync(stateFiles(host).ports)).toEqual([])
    expect(rules()).not.toMatch(/ 808[01] /)
  })

  const restored = () => {
    const env = stateEnv(host)
    return execaSync('nsenter', [`--net=${host.path}`, '--', trestle, 'restore'], { env, reject: false })
  }
  const chain = (more: object) => {
    const ipam = { type: 'host-local', subnet: '10.240.0.0/24', dataDir: '/run/cni/leases' }
    const chained = { type: 'trestle', capabilities: { portMappings: true }, ...more }
    return { ...list, plugins: [{ ...foreign, ipam }, chained] }
  }

  it('keeps the rules of a pod that another plugin made, also beside a restore', () => {
    runtime.write(chain({ firewall: { ingressPolicy: 'same-bridge' } }))
    expect(add('one', ports(8080)).added.code).toBe(0)
    const was = rules()
    rmSync(stateFiles(host).networks, { recursive: true })
    expect(restored()).toMatchObject({ exitCode: 0, stdout: '0 restored, 0 lost' })
    expect(rules()).toBe(was)
  })

  it("another plugin's bridge that is gone: restore names its pod, and makes the rest", () => {
    runtime.write(chain({}))
    expect(add('one', ports(8080)).added.code).toBe(0)
    const pod = attach(host, netConf({ name: 'other', bridge: 'br-other', podcidr: '10.241.0.0/24' }), { id: 'c2' })
    for (const line of ['link del br-foreign', 'link del br-other']) host.run('ip', line.split(' '))
    const { exitCode, stdout } = restored()
    expect(exitCode, stdout).toBe(1)
    expect(stdout).toMatch(/lost {6}eth0 of container \S+ \(network gone\): the interface or its bridge is gone/)
    expect(pings(host, pod.netns, '10.241.0.1')).toBe(true)
  })

  it('is not taken for removed where the last pod was deleted just now, and libcni has not forgotten it yet', () => {
    const conf = { ...plugin, name: 'gone', cniVersion: '1.0.0', removeWhenEmpty: true }
    runtime.write({ ...list, plugins: [conf] })
    const { netns } = add('one', ports(8080))
    const [id = ''] = reserved('attachments').map(containerIdOf)
    expectSilent(host.cni('DEL', conf, { id, netns }))
    const next = add('two', ports(8080))
    expect(next.added.code, next.added.stdout + next.added.stderr).toBe(0)
    expect(reserved('addresses')).toEqual([addressIn(next.added).replace(/\/.*/, '')])
  })

  it('is free again when those pods are gone', () => {
    const { netns } = add('one')
    for (const name of readdirSync(host.stateDir)) rmSync(`${host.stateDir}/${name}`, { recursive: true })
    host.removePod(netns)
    expect(addressIn(add('two').added)).toBe('10.240.0.2/24')
  })
})

const conf = netConf({ runtimeConfig: ports(8080) })
/** Each makes a tmpfs useless, and usable again. */
const troubles: readonly (readonly [string, string, (directory: string) => void, (directory: string) => void])[] = [
  [
    'full',
    'size=96k',
    (directory) => execFileSync('sh', ['-c', `dd if=/dev/zero of=${directory}/fill bs=1k 2>/dev/null || true`]),
    (directory) => rmSync(`${directory}/fill`),
  ],
  [
    'without inodes',
    'nr_inodes=60',
    (directory) =>
      execFileSync(
        'sh',
        ['-c', `mkdir ${directory}/fill; i=0; while touch ${directory}/fill/$i 2>/dev/null; do i=$((i+1)); done`],
        {
          stdio: 'ignore',
        },
      ),
    (directory) => rmSync(`${directory}/fill`, { recursive: true }),
  ],
  [
    'read-only',
    'size=1m',
    (directory) => execFileSync('mount', ['-o', 'remount,ro', directory]),
    (directory) => execFileSync('mount', ['-o', 'remount,rw', directory]),
  ],
]

describe.each(troubles)('a state directory that is %s', (how, options, spoil, mend) => {
  let host: Host
  let before: ReturnType<typeof snapshot>
  let pod: Pod
  beforeEach(() => {
    host = openHost()
    execFileSync('mount', ['-t', 'tmpfs', '-o', `mode=700,${options}`, 'tmpfs', host.stateDir])
    before = snapshot(host)
    pod = attach(host, conf)
  })
  afterEach(() => {
    execFileSync('umount', ['-l', host.stateDir])
    host.close()
  })

  it('keeps what it has: calls fail with a known code, DEL takes away what can be unlinked, all work again afterwards', () => {
    const other = host.pod('other')
    const running = snapshot(host)
    spoil(host.stateDir)
    expectError(host.cni('ADD', netConf(), { id: 'c2', netns: other }), 5)
    expect({ ...snapshot(host), state: '' }).toEqual({ ...running, state: '' })
    expectError(host.cni('STATUS', netConf()), 50)
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [{ containerID: 'c1', ifname: 'eth0' }] }))
    const deleted = later(host, 'DEL', { conf, pod })
    // Nothing can be unlinked there: record, address and port stay, and DEL is sent again.
    if (how === 'read-only') expectError(deleted, 11)
    else expectSilent(deleted)
    expect(onHostJson(host, ['link', 'show', 'type', 'veth'])).toEqual([])
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout).not.toContain('8080')
    expect(attachmentFiles(host)).toHaveLength(how === 'read-only' ? 3 : 0)

    mend(host.stateDir)
    expectSilent(host.cni('STATUS', netConf()))
    const added = attach(host, netConf(), { id: 'c2', netns: other })
    if (how === 'read-only') expect(added.address).not.toBe(pod.address)
    for (const each of [pod, added]) expectSilent(later(host, 'DEL', { conf, pod: each }))
    expectNothingLeft(host, before)
  })

  it('has no room for what a DEL cannot remove: 11, and record, address and port stay for the next one', () => {
    spoil(host.stateDir)
    const nft = failing('nft')
    try {
      expectError(later(host, 'DEL', { conf, pod, call: { env: nft.env } }), 11)
    } finally {
      nft.close()
    }
    expect(attachmentFiles(host)).toHaveLength(3)
    mend(host.stateDir)
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })
})

/** Records, reserved addresses and reserved host ports. */
function attachmentFiles(host: Host): readonly string[] {
  const { names } = stateOf(host, 'net')
  return [...names('attachments'), ...names('pending'), ...names('addresses'), ...reservedPorts(host)]
}
