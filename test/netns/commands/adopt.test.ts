// SPDX-License-Identifier: Apache-2.0
// `trestle adopt`: what it takes over and what it leaves, a run that was cut short, and old cache entries.

import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { type Finished, type Host, openHost, snapshot } from '../../support/host.ts'
import { partOf } from '../../support/state-layout.ts'

const missing = missingCnitool(['bridge', 'ptp', 'host-local', 'portmap', 'bandwidth'])
if (missing !== undefined) console.warn(missing)

const network = 'taken'
const cache = '/var/lib/cni/results'
const leases = `/var/lib/cni/networks/${network}`
const main = { type: 'bridge', bridge: 'br-taken', isDefaultGateway: true, ipMasq: true, ipMasqBackend: 'iptables' }

function list(first: object = main) {
  const ipam = { type: 'host-local', ranges: [[{ subnet: '10.80.0.0/24' }]] }
  const portmap = { type: 'portmap', backend: 'iptables', capabilities: { portMappings: true } }
  return { cniVersion: '0.4.0', name: network, plugins: [{ ...first, ipam }, portmap] }
}

let host: Host
let runtime: Runtime
beforeEach(() => {
  host = openHost()
  runtime = openRuntime(host, network)
})
afterEach(() => {
  runtime.close()
  host.close()
})

const portsOf = (hostPort: number) => ({ portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] })

function add(label: string, hostPort: number): string {
  const netns = host.pod(label)
  const added = runtime.tool('add', netns, portsOf(hostPort))
  expect(added.code, added.stderr).toBe(0)
  return netns
}

/** Names of veth links on the host. */
function hostLinks(): readonly string[] {
  const links = host.run('ip', ['-j', 'link', 'show', 'type', 'veth']).stdout
  return (JSON.parse(links) as readonly { ifname: string }[]).map(({ ifname }) => ifname)
}

/** Puts upstream's rules into the tables of iptables-legacy. */
function moveToLegacy(): void {
  expect(host.run('sh', ['-c', 'iptables-nft-save -t nat | iptables-legacy-restore']).code).toBe(0)
  expect(host.run('nft', ['delete', 'table', 'ip', 'nat']).code).toBe(0)
}

/** Makes a reservation older than any ADD takes. */
function age(address = '10.80.0.2'): void {
  const then = Date.now() / 1000 - 600
  utimesSync(`${leases}/${address}`, then, then)
}

/** Puts the converted list in place of upstream's. */
function convertList(): void {
  runtime.write(JSON.parse(runtime.command('convert', runtime.file).stdout))
}

function read({ code, stdout, stderr }: Finished) {
  expect(stderr).toBe('')
  const { entries } = JSON.parse(stdout) as { entries: readonly { status: string; detail?: string }[] }
  return { code, statuses: entries.map(({ status }) => status), details: entries.map(({ detail }) => detail ?? '') }
}

const words = () => ['adopt', '--config-dir', runtime.directory, '-o', 'json']
const adopt = (...more: readonly string[]) => read(runtime.command(...words(), ...more))

describe.skipIf(missing !== undefined)('adopt', () => {
  it('changes nothing without --apply, and says in both formats what there is to do', () => {
    runtime.write(list())
    add('a', 8001)
    convertList()
    const before = [snapshot(host), host.run('iptables-save', ['-t', 'nat']).stdout.replace(/^#.*$/gm, '')]
    const text = runtime.command('adopt', '--config-dir', runtime.directory)
    expect([text.code, text.stderr]).toEqual([1, ''])
    expect(text.stdout).toMatch(/to adopt {2}taken .* 10\.80\.0\.2 .*\n1 to adopt\n$/)
    expect(adopt()).toMatchObject({ code: 1, statuses: ['adopt'] })
    expect([snapshot(host), host.run('iptables-save', ['-t', 'nat']).stdout.replace(/^#.*$/gm, '')]).toEqual(before)
  })

  it('says that there is nothing where nothing is', () => {
    expect(runtime.command('adopt', '--config-dir', runtime.directory)).toMatchObject({ code: 0 })
    runtime.write(list())
    expect(runtime.command('adopt', '--config-dir', runtime.directory).stdout).toBe(
      'nothing to adopt and nothing to clear\n',
    )
    expect(runtime.command('adopt', '/run/none.conflist').code).toBe(3)
  })

  it.each([
    [
      'an address is gone',
      (pod: string) => host.inPod(pod, 'ip', ['addr', 'flush', 'dev', 'eth0']),
      '10.80.0.2/24 is not on eth0',
    ],
    ['the interface is gone', (pod: string) => host.inPod(pod, 'ip', ['link', 'del', 'eth0']), 'eth0 is not in'],
    [
      'the port is on another bridge',
      () => host.run('ip', ['link', 'set', hostLinks()[0] ?? '', 'nomaster']),
      'is on no bridge',
    ],
  ])('leaves a pod alone of which %s', (_, change, why) => {
    runtime.write(list())
    change(add('a', 8001))
    add('b', 8002)
    convertList()
    const found = adopt('--apply')
    expect(found.code).toBe(1)
    expect(found.details.join()).toContain(why)
    expect(readdirSync(leases)).toContain('10.80.0.2')
  })

  it('leaves pods to the bridge plugin where trestle is chained behind it, also without the key mode', () => {
    const before = list({ ...main, bridge: 'cni0' })
    runtime.write(before)
    add('a', 8001)
    const behind = { type: 'trestle', portmap: {}, capabilities: { portMappings: true } }
    runtime.write({ ...before, plugins: [before.plugins[0], behind] })
    const why = 'the mode "chained" of the configuration makes no interface'
    expect(adopt('--apply')).toMatchObject({ code: 1, statuses: ['cannot'], details: [why] })
    expect(host.run('iptables-save', ['-t', 'nat']).stdout).toMatch(/-s 10\.80\.0\.2\S* .* -j CNI-[0-9a-f]{20}/)
  })

  it('knows a pod that a canary of trestle serves behind another plugin', () => {
    const [first] = list().plugins
    runtime.write({ ...list(), plugins: [first, { type: 'trestle', firewall: {} }] })
    add('a', 8001)
    const [name = ''] = readdirSync(cache)
    const entry = JSON.parse(readFileSync(`${cache}/${name}`, 'utf8')) as { config: string }
    const config = Buffer.from(entry.config, 'base64').toString().replace('"trestle"', '"trestle-v2"')
    writeFileSync(`${cache}/${name}`, JSON.stringify({ ...entry, config: Buffer.from(config).toString('base64') }))
    expect(adopt()).toMatchObject({ code: 0, statuses: [] })
  })

  it('asks for the file of the upstream plugins where the runtime uses that one', () => {
    runtime.write(list())
    add('a', 8001)
    writeFileSync(`${runtime.directory}/20-${network}.conflist`, runtime.command('convert', runtime.file).stdout)
    const found = adopt('--apply')
    expect(found).toMatchObject({ code: 1, statuses: ['adopt'] })
    expect(found.details[0]).toContain(`10-${network}.conflist still names the upstream plugins`)
    renameSync(runtime.file, `${runtime.directory}/30-${network}.conflist`)
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted'] })
  })

  it.each([
    ['bridge', main],
    ['ptp', { type: 'ptp', ipMasq: true, ipMasqBackend: 'iptables' }],
  ])('leaves a pod of %s alone whose address the configuration does not have', (_, first) => {
    runtime.write(list(first))
    add('a', 8001)
    const { stdout } = runtime.command('convert', runtime.file)
    runtime.write(JSON.parse(stdout.replaceAll('10.80.0.', '10.81.0.')))
    const why = '10.80.0.2 is in no range of the configuration (10.81.0.0/24)'
    expect(adopt('--apply')).toMatchObject({ code: 1, statuses: ['cannot'], details: [why] })
    expect(host.run('iptables-save', ['-t', 'nat']).stdout).toMatch(/-s 10\.80\.0\.2\S* .* -j CNI-[0-9a-f]{20}/)
  })

  it('takes over pods of which each has ranges of its own', () => {
    const ptp = { type: 'ptp', ipMasq: true, ipam: { type: 'host-local' }, capabilities: { ipRanges: true } }
    runtime.write({ ...list(), plugins: [ptp] })
    for (const range of ['10.80.0.0/24', '10.81.0.0/24']) {
      const added = runtime.tool('add', host.pod(range.slice(0, 5)), { ipRanges: [[{ subnet: range }]] })
      expect(added.code, added.stderr).toBe(0)
    }
    convertList()
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted', 'adopted'] })
    const masqueraded = host.run('nft', ['list', 'set', 'inet', 'trestle', 'masq4']).stdout
    expect(masqueraded).toMatch(/10\.80\.0\.0\/24/)
    expect(masqueraded).toMatch(/10\.81\.0\.0\/24/)
  })

  it('goes on with other networks where one cannot be set up, of whose pods it keeps nothing', () => {
    runtime.write(list())
    add('a', 8001)
    const ipam = { type: 'host-local', ranges: [[{ subnet: '10.82.0.0/24' }]] }
    const other = `${runtime.directory}/20-other.conflist`
    writeFileSync(other, JSON.stringify({ ...list(), name: 'other', plugins: [{ type: 'ptp', ipam }] }))
    expect(runtime.command('add', 'other', 'b').code).toBe(0)
    convertList()
    writeFileSync(other, runtime.command('convert', other).stdout)
    const converted = readFileSync(runtime.file, 'utf8')
    writeFileSync(runtime.file, converted.replace('"10.80.0.0/24"', '"10.80.0.0/24","gateway":"10.80.0.254"'))
    const found = adopt('--apply')
    expect(found).toMatchObject({ code: 1, statuses: ['cannot', 'adopted'] })
    expect(found.details[0]).toContain('10.80.0.254/24: 10.80.0.1/24')
    const kept = readdirSync(host.stateDir, { recursive: true }).map(String)
    expect(kept.filter((name) => /10\.80|8001/.test(name) || partOf(name)?.network === 'taken')).toEqual([])
    writeFileSync(runtime.file, converted)
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted', 'ours'] })
    // With it goes the namespace that `add` has made.
    expect(runtime.command('del', 'other', 'b').code).toBe(0)
    host.run('rm', ['-rf', '/var/lib/cni/networks/other'])
  })

  it('goes on where a run was cut short between our rules and theirs', () => {
    runtime.write(list())
    const netns = add('a', 8001)
    convertList()
    const broken = mkdtempSync(`${tmpdir()}/trestle-broken-`)
    writeFileSync(`${broken}/iptables-restore`, '#!/bin/sh\nexit 1\n')
    chmodSync(`${broken}/iptables-restore`, 0o755)
    expect(read(runtime.commandWith(broken, ...words(), '--apply'))).toMatchObject({ code: 1, statuses: ['cannot'] })
    expect(adopt()).toMatchObject({ code: 1, statuses: ['adopt'], details: [expect.stringContaining('has a record')] })
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted'] })
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['ours'] })
    expect(host.run('iptables-save', ['-t', 'nat']).stdout).not.toMatch(/CNI-(DN-)?[0-9a-f]{20}/)
    expect(runtime.tool('check', netns, portsOf(8001))).toMatchObject({ code: 0, stdout: '' })
    rmSync(broken, { recursive: true })
  })

  it('finds rules of the other variant of iptables, for live and dead pods and in DEL', () => {
    runtime.write(list())
    const [a, b, c] = [add('a', 8001), add('b', 8002), add('c', 8003)]
    moveToLegacy()
    const ofPlugins = () =>
      host.run('iptables-legacy-save', ['-t', 'nat']).stdout.match(/-j CNI-[0-9a-f]{24}$/gm)?.length
    expect(ofPlugins()).toBe(3)
    host.removePod(b)
    convertList()
    expect(runtime.tool('del', c, portsOf(8003))).toMatchObject({ code: 0, stderr: '' })
    expect(ofPlugins()).toBe(2)
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted', 'cleared'] })
    expect(host.run('iptables-legacy-save', ['-t', 'nat']).stdout).not.toMatch(/CNI-(DN-)?[0-9a-f]{20}/)
    expect(runtime.tool('check', a, portsOf(8001))).toMatchObject({ code: 0, stdout: '' })
  })

  it('takes nothing over where no program reads the rules of a variant', () => {
    runtime.write(list())
    add('a', 8001)
    moveToLegacy()
    convertList()
    const broken = mkdtempSync(`${tmpdir()}/trestle-broken-`)
    writeFileSync(`${broken}/iptables-legacy-save`, '#!/bin/sh\n')
    chmodSync(`${broken}/iptables-legacy-save`, 0o755)
    const found = read(runtime.commandWith(broken, ...words(), '--apply'))
    expect(found).toMatchObject({ code: 1, statuses: ['cannot'] })
    expect(found.details[0]).toContain('/proc/net/ip_tables_names has the table nat')
    rmSync(broken, { recursive: true })
  })

  it('clears nothing where a namespace cannot be looked into, and says so', () => {
    runtime.write(list())
    const netns = add('a', 8001)
    rmSync(cache, { recursive: true })
    age()
    convertList()
    const broken = mkdtempSync(`${tmpdir()}/trestle-broken-`)
    writeFileSync(`${broken}/nsenter`, '#!/bin/sh\necho refused >&2\nexit 1\n')
    chmodSync(`${broken}/nsenter`, 0o755)
    const found = read(runtime.commandWith(broken, ...words(), '--apply'))
    expect(found).toMatchObject({ code: 1, statuses: ['cannot'] })
    expect(found.details[0]).toMatch(/^no look for leaks: cannot look into \S+: refused$/)
    expect(readdirSync(leases)).toContain('10.80.0.2')
    expect(adopt('--apply')).toMatchObject({ code: 1, statuses: ['cannot'], details: ["no entry in libcni's cache"] })
    host.removePod(netns)
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['cleared'] })
    expect(readdirSync(leases)).not.toContain('10.80.0.2')
    rmSync(broken, { recursive: true })
  })

  it('leaves a reservation alone that may be of an ADD at work', () => {
    runtime.write(list())
    convertList()
    mkdirSync(leases, { recursive: true })
    writeFileSync(`${leases}/10.80.0.9`, 'not-yet\r\neth0')
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: [] })
    age('10.80.0.9')
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['cleared'] })
  })

  it('judges a leak again before it clears it', () => {
    runtime.write(list())
    const netns = add('a', 8001)
    rmSync(cache, { recursive: true })
    host.inPod(netns, 'ip', ['addr', 'flush', 'dev', 'eth0'])
    age()
    convertList()
    const late = mkdtempSync(`${tmpdir()}/trestle-late-`)
    const real = host.run('which', ['iptables-save']).stdout.trim()
    // The pod gets its address between the first look and what follows.
    const addAddress = `[ ! -e ${late}/looked ] || nsenter --net=${netns} ip addr add 10.80.0.2/24 dev eth0`
    writeFileSync(`${late}/iptables-save`, `#!/bin/sh\n${addAddress}\ntouch ${late}/looked\nexec ${real} "$@"\n`)
    chmodSync(`${late}/iptables-save`, 0o755)
    expect(read(runtime.commandWith(late, ...words(), '--apply'))).toMatchObject({ code: 1, statuses: ['leak'] })
    expect(readdirSync(leases)).toContain('10.80.0.2')
    expect(adopt()).toMatchObject({ code: 1, statuses: ['cannot'] })
    rmSync(late, { recursive: true })
  })

  it("finds pods in cri-dockerd's cache", () => {
    runtime.write(list())
    add('a', 8001)
    mkdirSync('/var/lib/cni/cache')
    renameSync(cache, '/var/lib/cni/cache/results')
    convertList()
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted'] })
    rmSync('/var/lib/cni/cache', { recursive: true })
  })

  it('takes over routed pods, whose CHECK then succeeds', () => {
    runtime.write(list({ type: 'ptp', ipMasq: true, ipMasqBackend: 'iptables' }))
    const [a, b] = [add('a', 8001), add('b', 8002)]
    convertList()
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted', 'adopted'] })
    expect(runtime.tool('check', a, portsOf(8001))).toMatchObject({ code: 0, stdout: '', stderr: '' })
    for (const netns of [a, b]) expect(runtime.tool('del', netns, portsOf(8001)).code).toBe(0)
    expect(host.run('ip', ['-br', 'link']).stdout).not.toContain('veth')
    expect(host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout).not.toMatch(/10\.80\.0\.[23]\b/)
  })

  it('check and del by hand take the list of the file for a pod that was adopted, and that of the ADD for others', () => {
    const { plugins, ...rest } = list()
    runtime.write({ ...rest, plugins: [...plugins, { type: 'tuning', sysctl: { 'net.core.somaxconn': '500' } }] })
    const before = snapshot(host)
    for (const pod of ['a', 'b'])
      expect(runtime.command('add', network, pod, '--port', `${pod === 'a' ? 8001 : 8002}:80`).code).toBe(0)
    convertList()
    expect(runtime.command('check', network, 'a')).toMatchObject({ code: 0 })
    expect(runtime.command('del', network, 'b')).toMatchObject({ code: 0 })
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted'] })
    expect(runtime.command('check', network, 'a')).toMatchObject({ code: 0, stderr: '' })
    expect(runtime.command('del', network, 'a')).toMatchObject({ code: 0, stderr: '' })
    expect(readdirSync(leases)).not.toContain('10.80.0.2')
    expect(runtime.command('gc', '--no-runtime').stdout).toContain('0 to collect')
    // The upstream plugins leave chains that no pod has for itself.
    expect(host.run('iptables-save', ['-t', 'nat']).stdout).not.toMatch(/CNI-(DN-)?[0-9a-f]{20}/)
    host.run('nft', ['delete', 'table', 'ip', 'nat'])
    expectNothingLeft(host, before)
  })

  it('leaves nothing for restore and doctor to find, of a pod with limits too', () => {
    const { plugins, ...rest } = list()
    runtime.write({ ...rest, plugins: [...plugins, { type: 'bandwidth', capabilities: { bandwidth: true } }] })
    const bandwidth = { ingressRate: 8e6, ingressBurst: 8e5, egressRate: 8e6, egressBurst: 8e5 }
    expect(runtime.tool('add', host.pod('a'), { bandwidth })).toMatchObject({ code: 0 })
    convertList()
    expect(adopt('--apply')).toMatchObject({ code: 0, statuses: ['adopted'] })
    expect(runtime.command('restore', '--dry-run')).toMatchObject({ code: 0, stdout: '0 missing, 0 lost\n' })
    const words = ['--only', 'network', '--no-runtime', '--config-dir', runtime.directory, '-o', 'json']
    expect(JSON.parse(runtime.command('doctor', ...words).stdout)).toMatchObject({ exitCode: 0, findings: [] })
  })

  it('leaves a pod alone whose host port another pod has by now', () => {
    runtime.write(list())
    add('a', 8001)
    convertList()
    add('b', 8001)
    const found = adopt('--apply')
    expect(found).toMatchObject({ code: 1, statuses: ['cannot'] })
    expect(found.details[0]).toContain('host port 8001/tcp is taken')
    expect(adopt().statuses).toEqual(['adopt'])
  })
})
