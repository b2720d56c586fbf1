// SPDX-License-Identifier: Apache-2.0
// Lists of upstream plugins to lists with trestle: what becomes of each key, and that trestle takes the result.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readCall } from '../../../../src/cni/call.ts'
import { convert } from '../../../../src/commands/convert.ts'
import { readNetworkList } from '../../../../src/commands/network-list.ts'
import { requestConf } from '../../../../src/commands/plugin-runtime.ts'
import { readConfig } from '../../../../src/config/read-config.ts'
import { runCli } from '../../../support/collect.ts'
import { publicLists } from './public-lists.ts'

const ipam = { type: 'host-local', ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]] }
const list = (...plugins: object[]) => JSON.stringify({ cniVersion: '1.0.0', name: 'net', disableCheck: true, plugins })

function converted(...plugins: object[]) {
  const { conflist, remarks } = convert(list(...plugins))
  const [first, ...rest] = conflist['plugins'] as readonly Record<string, unknown>[]
  return { first: first ?? {}, rest, remarks, conflist, warnings: remarks.filter(({ level }) => level === 'warning') }
}

/** What trestle reads of it on ADD. */
function asRead(text: string, capabilityArgs = {}) {
  const network = readNetworkList(JSON.stringify(convert(text).conflist))
  const [first] = network.plugins
  if (first === undefined) throw new Error('no plugin')
  const env = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'c', CNI_NETNS: '/run/netns/c', CNI_IFNAME: 'eth0' }
  return readConfig(JSON.stringify(requestConf(network, first, { capabilityArgs })), readCall(env))
}

describe('convert', () => {
  it('makes one plugin of the usual chain, with its capabilities together', () => {
    const { first, rest, conflist, warnings } = converted(
      {
        type: 'bridge',
        isDefaultGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam,
        capabilities: { ips: true, x: false },
      },
      { type: 'portmap', capabilities: { portMappings: true }, snat: false },
      { type: 'firewall' },
      { type: 'bandwidth', capabilities: { bandwidth: true } },
      { type: 'tuning', sysctl: { 'net.core.somaxconn': '500' }, mtu: 1400 },
      { type: 'sbr' },
    )
    expect(first).toEqual({
      type: 'trestle',
      mode: 'bridge',
      bridge: 'cni0',
      isGateway: true,
      isDefaultGateway: true,
      forceAddress: false,
      ipMasq: true,
      hairpinMode: true,
      promiscMode: false,
      mtu: 1500,
      ipam,
      portmap: { snat: false, masqAll: false },
      firewall: { ingressPolicy: 'open' },
      tuning: { sysctl: { 'net.core.somaxconn': '500' }, mtu: 1400 },
      sbr: {},
      capabilities: { ips: true, portMappings: true, bandwidth: true },
    })
    expect([rest, warnings]).toEqual([[], []])
    expect(conflist).toMatchObject({ cniVersion: '1.0.0', name: 'net', disableCheck: true })
  })

  it('keeps what trestle reads from the runtime', () => {
    const text = list({ type: 'ptp', ipam, mtu: 1300 }, { type: 'portmap', capabilities: { portMappings: true } })
    const portMappings = [{ hostPort: 80, containerPort: 8080, protocol: 'tcp' }]
    expect(asRead(text, { portMappings })).toMatchObject({ mode: 'ptp', mtu: 1300, portMappings, ipMasq: false })
  })

  it('reads keys whatever their case, and a single configuration', () => {
    const text = JSON.stringify({
      cniVersion: '0.4.0',
      name: 'one',
      type: 'bridge',
      IsGateway: true,
      BRIDGE: 'br9',
      ipam,
    })
    const { conflist, remarks } = convert(text)
    expect(conflist).toMatchObject({ name: 'one', cniVersion: '0.4.0' })
    expect(remarks).toContainEqual({
      level: 'note',
      about: 'plugins',
      text: 'this is a list now: runtimes read it only from a file that is named .conflist',
    })
    expect(converted({ type: 'bridge', ipam }).remarks.map(({ about }) => about)).not.toContain('plugins')
    expect(asRead(text)).toMatchObject({
      bridge: { name: 'br9', hairpinMode: false },
      isGateway: true,
      isDefaultGateway: false,
    })
  })

  it('leaves unknown plugins after ours, and says where the order changed', () => {
    const { first, rest, remarks } = converted(
      { type: 'bridge', ipam },
      { type: 'cilium-cni', x: 1 },
      { type: 'portmap', capabilities: { portMappings: true } },
      { type: 'tuning', mtu: 1400 },
      { type: 'tuning', promisc: true },
    )
    expect(rest).toEqual([
      { type: 'cilium-cni', x: 1 },
      { type: 'tuning', promisc: true },
    ])
    expect(first).toMatchObject({ tuning: { mtu: 1400 }, capabilities: { portMappings: true } })
    expect(remarks.map(({ about }) => about)).toEqual(expect.arrayContaining(['cilium-cni', 'portmap', 'tuning']))
  })

  it('keeps a tuning plugin without keys: what args.cni asks for is done by it', () => {
    const { first } = converted({ type: 'bridge', ipam }, { type: 'tuning', args: { cni: { promisc: true } } })
    expect(first).toMatchObject({ tuning: {}, args: { cni: { promisc: true } } })
  })

  it.each([
    ['portmap.conditionsV4', { type: 'portmap', conditionsV4: ['!', '-s', '10.0.0.0/8'] }],
    ['portmap.conditionsV4', { type: 'portmap', conditionsV4: ['ip', 'saddr', '!=', '10.0.0.0/8'] }],
    ['firewall.firewalldZone', { type: 'firewall', firewalldZone: 'pods' }],
    ['portmap.externalSetMarkChain', { type: 'portmap', externalSetMarkChain: 'MY-MARK' }],
    ['portmap.externalSetMarkChain', { type: 'portmap', externalSetMarkChain: 'KUBE-MARK-MASQ' }],
    ['bandwidth.runtimeConfig', { type: 'bandwidth', runtimeConfig: { bandwidth: { ingressRate: 8000 } } }],
    ['bandwidth.ingresRate', { type: 'bandwidth', ingresRate: 8000 }],
    ['firewall.iptablesAdminChainName', { type: 'firewall', iptablesAdminChainName: 'MY-ADMIN' }],
    ['trestle', { type: 'tuning', sysctl: { 'kernel.shmmax': '1' } }],
  ])('warns of %s, which has no equivalent', (about, plugin) => {
    expect(converted({ type: 'bridge', ipam }, plugin).warnings.map((each) => each.about)).toEqual([about])
  })

  it.each([
    { type: 'portmap', backend: 'iptables', markMasqBit: 5 },
    { type: 'firewall', backend: 'firewalld', ingressPolicy: 'same-bridge' },
    { type: 'tuning', dataDir: '/run/other', mac: '02:00:00:00:00:01' },
    { type: 'bandwidth', ingressRate: 8000, ingressBurst: 800 },
    { type: 'sbr', table: 100, gateways: ['10.1.0.1'], addSourceHints: true },
  ])('loses nothing of $type and trestle takes it: %j', (plugin) => {
    const text = list({ type: 'bridge', bridge: 'br1', ipam, ipMasqBackend: 'nftables' }, plugin)
    expect(convert(text).remarks.filter(({ level }) => level === 'warning')).toEqual([])
    expect(asRead(text).name).toBe('net')
  })

  it.each([
    ['ranges', { type: 'bridge', ipam: { type: 'host-local' }, capabilities: { ipRanges: true } }],
    ['addresses', { type: 'bridge', ipam: { type: 'static' }, capabilities: { ips: true } }],
  ])('takes %s that only the runtime gives', (_, plugin) => {
    expect(converted(plugin).warnings).toEqual([])
  })

  it('leaves out capabilities that their own plugin does not read, and takes null for none', () => {
    const { first, remarks, warnings } = converted(
      { type: 'bridge', ipam, capabilities: { portMappings: true, bandwidth: true, dns: true, mac: true, ips: true } },
      { type: 'portmap', capabilities: { mac: true } },
      { type: 'firewall', capabilities: null },
    )
    expect(first['capabilities']).toEqual({ mac: true, ips: true })
    expect(warnings).toEqual([])
    expect(remarks.filter(({ about }) => about.includes('capabilities')).map(({ about }) => about)).toEqual([
      ...['portMappings', 'bandwidth', 'dns'].map((name) => `bridge.capabilities.${name}`),
      'portmap.capabilities.mac',
    ])
  })

  it('keeps the capabilities for an IPAM plugin that stays', () => {
    const capabilities = { portMappings: true, ips: true, 'io.kubernetes.cri.pod-annotations': true }
    const { first } = converted({ type: 'ptp', ipam: { type: 'calico-ipam' }, capabilities })
    expect(first['capabilities']).toEqual({ ips: true, 'io.kubernetes.cri.pod-annotations': true })
  })

  it('names the keys of plugins 1.5 that limit some addresses only', () => {
    const limits = { ingressRate: 8000, ingressBurst: 800, unshapedSubnets: ['10.0.0.0/8'] }
    const { first, warnings } = converted({ type: 'bridge', ipam }, { type: 'bandwidth', ...limits })
    expect(first['bandwidth']).toEqual({ ingressRate: 8000, ingressBurst: 800 })
    expect(warnings).toEqual([
      {
        level: 'warning',
        about: 'bandwidth.unshapedSubnets',
        text: 'is left out: trestle has no such key, and limits the traffic with all addresses',
      },
    ])
  })

  it('delegates an IPAM plugin that is not in-process, and layer 2 stays layer 2', () => {
    expect(asRead(list({ type: 'bridge', ipam: { type: 'dhcp' } })).ipam).toEqual({ kind: 'delegated', type: 'dhcp' })
    expect(asRead(list({ type: 'bridge', vlan: 100 }))).toMatchObject({ ipam: { kind: 'none' }, bridge: { vlan: 100 } })
  })

  it.each(publicLists)('of $from', ({ plugins, types, warnings }) => {
    const { conflist, remarks } = convert(list(...plugins))
    const made = conflist['plugins'] as readonly { type: string; mode?: string }[]
    expect(made.map(({ type }) => type)).toEqual(types)
    expect(remarks.filter(({ level }) => level === 'warning').map(({ about }) => about)).toEqual(warnings)
    const isBehind = types[0] !== 'trestle'
    expect(made.find(({ type }) => type === 'trestle')?.mode === 'chained').toBe(isBehind)
  })

  it('chains trestle in place of the rest behind a plugin that stays, with its limits and capabilities', () => {
    const { conflist, remarks } = converted(
      { type: 'flannel', delegate: { isDefaultGateway: true } },
      { type: 'other' },
      { type: 'portmap', capabilities: { portMappings: true } },
      { type: 'late' },
      { type: 'bandwidth', ingressRate: 8000, ingressBurst: 800, capabilities: { bandwidth: true } },
    )
    expect(conflist['plugins']).toEqual([
      { type: 'flannel', delegate: { isDefaultGateway: true } },
      { type: 'other' },
      {
        type: 'trestle',
        mode: 'chained',
        portmap: { snat: true, masqAll: false },
        bandwidth: { ingressRate: 8000, ingressBurst: 800 },
        capabilities: { portMappings: true, bandwidth: true },
      },
      { type: 'late' },
    ])
    expect(remarks.map(({ about, level }) => `${level} ${about}`)).toEqual([
      'note flannel',
      'note other',
      'note late',
      'note bandwidth',
    ])
  })

  it('says that loopback is left out, and keeps remarks of a person without a word', () => {
    const { remarks } = converted({ type: 'loopback' }, { type: 'ptp', mtu: 1400, ipam, _comment: 'x', '//': 'y' })
    expect(remarks).toEqual([{ level: 'note', about: 'loopback', text: expect.stringContaining('bring lo up') }])
  })

  it('has no word for the keys of an IPAM plugin that stays', () => {
    expect(converted({ type: 'bridge', ipam: { type: 'whereabouts', range: '10.1.0.0/24' } }).warnings).toEqual([])
  })

  it('leaves loopback in front out, chains trestle behind flannel, and warns of all that is lost', () => {
    const portmap = { type: 'portmap', externalSetMarkChain: 'KUBE-MARK-MASQ', runtimeConfig: { portMappings: [] } }
    const { conflist, warnings } = converted({ type: 'loopback' }, { type: 'flannel', delegate: {} }, portmap)
    expect(conflist['plugins']).toEqual([
      { type: 'flannel', delegate: {} },
      { type: 'trestle', mode: 'chained', portmap: { snat: true, masqAll: false } },
    ])
    expect(warnings.map((each) => each.about)).toEqual(['portmap.externalSetMarkChain', 'portmap.runtimeConfig'])
  })

  it('exits 1 where something is lost, and 0 where all is kept', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'trestle-convert-'))
    try {
      const codeOf = async (...plugins: object[]) => {
        const file = join(directory, 'net.conflist')
        writeFileSync(file, list(...plugins))
        const { code, stderr } = await runCli(['convert', file])
        return [code, stderr.split('\n').filter((line) => line.startsWith('warning: '))]
      }
      expect(await codeOf({ type: 'loopback' }, { type: 'bridge', ipam })).toEqual([0, []])
      const runtimeConfig = { bandwidth: { ingressRate: 8000 } }
      for (const [key, value] of Object.entries({ runtimeConfig, externalSetMarkChain: 'MY-MARK', nope: 1 }))
        expect(await codeOf({ type: 'bridge', ipam }, { type: 'portmap', [key]: value })).toEqual([
          1,
          [expect.stringMatching(`^warning: portmap\\.${key}: .*left out`)],
        ])
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  it.each([
    [[{ type: 'loopback' }], 'nothing in this list'],
    [[{ type: 'cilium-cni' }], 'cilium-cni'],
    [[{ type: 'flannel' }, { type: 'trestle', mode: 'chained' }], 'trestle already'],
  ])('refuses %j', (plugins, said) => {
    expect(() => convert(list(...plugins))).toThrow(said)
  })

  it('takes the place of macvlan, with its names of the keys', () => {
    const macvlan = { type: 'macvlan', master: 'eth1', mode: 'private', mtu: 1400, mac: '0a:00:00:00:00:01' }
    const { conflist, remarks } = convert(list({ ...macvlan, ipam: { type: 'dhcp' } }, { type: 'tuning', sysctl: {} }))
    expect(conflist['plugins']).toEqual([
      {
        type: 'trestle',
        mode: 'macvlan',
        master: 'eth1',
        macvlanMode: 'private',
        mtu: 1400,
        ipam: { type: 'dhcp' },
        tuning: { sysctl: {} },
      },
    ])
    expect(remarks.map(({ about }) => about)).toEqual(['macvlan.mac'])
  })

  it('takes the place of host-device, and says where not one device is named', () => {
    const device = { type: 'host-device', hwaddr: '0a:00:00:00:00:01', DPDKMode: true }
    const { conflist, remarks } = convert(list({ ...device, ipam }, { type: 'tuning', mtu: 9000 }))
    expect(conflist['plugins']).toEqual([
      { type: 'trestle', mode: 'host-device', hwaddr: '0a:00:00:00:00:01', ipam, tuning: { mtu: 9000 } },
    ])
    expect(remarks.map(({ about }) => about)).toEqual(['host-device.DPDKMode'])
    const asked = convert(list({ type: 'host-device', capabilities: { deviceID: true } }))
    expect([asked.conflist['plugins'], asked.remarks]).toEqual([
      [{ type: 'trestle', mode: 'host-device', capabilities: { deviceID: true } }],
      [],
    ])
    const refused = (more: object) => convert(list({ type: 'host-device', ...more })).remarks.map(({ text }) => text)
    expect(refused({})).toEqual([expect.stringContaining('refuses this: device: no device')])
    const two = { hwaddr: '0a:00:00:00:00:01', pciBusID: '0000:3b:02.1' }
    expect(refused(two)).toEqual([
      expect.stringContaining('refuses this: hwaddr: names a device, and so does pciBusID'),
    ])
  })

  it.each([
    [{ snat: false }, { snat: false, masqAll: false }, []],
    [{ backend: 'nftables' }, { snat: true, masqAll: false }, ['portmap.backend']],
    [{}, { snat: true, masqAll: true }, []],
  ])('masquerades for masqAll only where portmap does, with %j', (more, portmap, about) => {
    const { first, remarks } = converted({ type: 'ptp', ipam, mtu: 1500 }, { type: 'portmap', masqAll: true, ...more })
    expect(first['portmap']).toEqual(portmap)
    expect(remarks.map((each) => each.about)).toEqual(about)
  })

  it('says that the queue of broadcasts of macvlan is the usual one', () => {
    const { warnings } = converted({ type: 'macvlan', bcqueuelen: 500, ipam })
    expect(warnings.map(({ about }) => about)).toEqual(['macvlan.bcqueuelen'])
    expect(converted({ type: 'macvlan', bcqueuelen: 0, ipam }).remarks).toEqual([])
  })

  it.each([
    [{ type: 'macvlan', linkInContainer: true }],
    [{ type: 'vlan' }],
    [{ type: 'trestle' }],
    [{ type: 'portmap' }],
  ])('refuses a list that starts with %j', (plugin) => {
    expect(() => convert(list(plugin))).toThrow(plugin.type)
  })

  it.each(['bridge', 'ptp', 'macvlan', 'host-device'])('names %s where it says what can be converted', async (type) => {
    expect(() => converted({ type, ipam })).not.toThrow()
    expect(() => convert(list({ type: 'vlan' }))).toThrow(
      expect.objectContaining({ details: expect.stringContaining(type) }),
    )
    expect((await runCli(['convert', '--help'])).stdout).toContain(type)
  })
})
