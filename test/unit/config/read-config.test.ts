// SPDX-License-Identifier: Apache-2.0
// Defaults, modes, roles and the values that are read.

import { describe, expect, it } from 'vitest'
import { readDelConfig } from '../../../src/config/read-config.ts'
import { configText, errorOf, type Json, lineOf, read, readAny } from '../call.ts'

const interfaceDefaults = {
  isGateway: false,
  isDefaultGateway: false,
  enabledad: false,
  disableContainerInterface: false,
}

const bridgeDefaults = {
  name: 'cni0',
  forceAddress: false,
  hairpinMode: false,
  promiscMode: false,
  vlan: 0,
  preserveDefaultVlan: false,
  macspoofchk: false,
  portIsolation: false,
}

/** The keys of a bridge and of the interface on it, together. */
function bridgeKeys(changes: Json) {
  const conf = read(changes)
  return conf.mode === 'bridge' ? { ...conf, ...conf.bridge } : undefined
}

const prevResult = {
  cniVersion: '1.1.0',
  interfaces: [{ name: 'eth0', sandbox: '/x' }],
  ips: [{ address: '10.9.0.2/24', interface: 0 }],
}

describe('defaults', () => {
  it('of an empty configuration', () => {
    expect(read()).toEqual({
      cniVersion: '1.1.0',
      name: 'net',
      type: 'trestle',
      role: 'main',
      mode: 'bridge',
      bridge: bridgeDefaults,
      ...interfaceDefaults,
      ipMasq: false,
      nonMasqueradeCidrs: [],
      mtu: 'auto',
      removeWhenEmpty: false,
      allowOverlap: false,
      ipam: { kind: 'none' },
      portMappings: [],
      portmap: { snat: true, masqAll: false },
      capabilities: [],
      stdin: '{"cniVersion":"1.1.0","name":"net","type":"trestle"}',
    })
  })

  it('of the demo configuration of the contract', () => {
    const conf = read({ cniVersion: '0.3.1', name: 'my-cni-demo', podcidr: '10.240.0.0/24' })
    expect(conf).toMatchObject({ bridge: { ...bridgeDefaults, hairpinMode: true }, mode: 'bridge', role: 'main' })
    expect(conf).toMatchObject({ ...interfaceDefaults, isGateway: true, isDefaultGateway: true, ipMasq: true })
    expect(conf.ipam).toMatchObject({
      kind: 'pool',
      rangeSets: [
        [{ subnet: '10.240.0.0/24', rangeStart: '10.240.0.1', rangeEnd: '10.240.0.254', gateway: '10.240.0.1' }],
      ],
      dataDir: '/var/lib/cni/networks',
    })
  })

  it('can be written as JSON and read again unchanged', () => {
    const conf = read({ podcidr: ['10.1.0.0/24', 'fd00::/64'], bandwidth: { ingressRate: 8, ingressBurst: 8 } })
    expect(JSON.parse(JSON.stringify(conf))).toEqual(conf)
  })
})

describe('bridge', () => {
  const ipam = { type: 'host-local', subnet: '10.1.0.0/24' }
  it.each([
    [
      'isDefaultGateway implies isGateway',
      { ipam, isDefaultGateway: true },
      { isGateway: true, isDefaultGateway: true },
    ],
    ['also against an explicit false', { ipam, isDefaultGateway: true, isGateway: false }, { isGateway: true }],
    [
      'podcidr, explicit off',
      { podcidr: '10.1.0.0/24', isDefaultGateway: false },
      { isGateway: false, isDefaultGateway: false },
    ],
    ['podcidr, hairpin off', { podcidr: '10.1.0.0/24', hairpinMode: false }, { hairpinMode: false }],
    ['podcidr with a VLAN', { podcidr: '10.1.0.0/24', vlan: 5 }, { hairpinMode: false, vlan: 5 }],
    ['podcidr with a trunk', { podcidr: '10.1.0.0/24', vlanTrunk: [] }, { hairpinMode: false, vlanTrunk: [] }],
    ['podcidr with promisc', { podcidr: '10.1.0.0/24', promiscMode: true }, { hairpinMode: false, promiscMode: true }],
    ['explicit hairpin with a VLAN', { hairpinMode: true, vlan: 5 }, { hairpinMode: true }],
    ['keys in any case', { ipam, ISGATEWAY: true, PromiscMode: true }, { isGateway: true, promiscMode: true }],
    [
      'a trunk',
      { vlanTrunk: [{ id: 9 }, { minID: 7, maxID: 9 }, { minID: 1, maxID: 1, id: 4094 }, {}] },
      { vlanTrunk: [1, 7, 8, 9, 4094] },
    ],
  ])('%s', (_, changes: Json, expected) => {
    expect(bridgeKeys(changes)).toMatchObject(expected)
  })

  it('vlanTrunk is absent when it is null', () => {
    expect(bridgeKeys({ vlanTrunk: null })).not.toHaveProperty('vlanTrunk')
  })

  const together = 'minID and maxID should be configured simultaneously'
  it.each([
    [[{ minID: 1 }], `[0]: ${together}, maxID is missing`],
    [[{ maxID: 1 }], `[0]: ${together}, minID is missing`],
    [[{ minID: 0, maxID: 1 }], '[0]: incorrect trunk minID parameter'],
    [[{ minID: 1, maxID: 4095 }], '[0]: incorrect trunk maxID parameter'],
    [[{ id: 1 }, { minID: 3, maxID: 2 }], '[1]: minID is greater than maxID in trunk parameter'],
    [[{ id: 0 }], '[0]: incorrect trunk id parameter'],
    [[{ id: 1.5 }], '[0].id: 1.5 is not a whole number'],
    [{}, ': {} is not a list'],
  ])('refuses vlanTrunk %j', (vlanTrunk, message) => {
    expect(lineOf(errorOf(() => read({ vlanTrunk })))).toBe(`(7) vlanTrunk${message}`)
  })

  it.each(['', '.', '..', 'a/b', 'a b', 'a:b', '1234567890123456', 'a%d', 'a#', '-x', 'all', 'default', 'a"'])(
    'refuses the bridge name %j',
    (bridge) => {
      const error = errorOf(() => read({ bridge }))
      expect(error.code).toBe(7)
      expect(error.message).toMatch(/^bridge: ".*" is not a bridge name: interface name /)
    },
  )
})

describe('modes and roles', () => {
  it.each([
    ['ADD', { prevResult }, 'chained', 'chained'],
    ['ADD', { prevResult: null }, 'bridge', 'main'],
    ['ADD', { prevResult, mode: 'bridge' }, 'bridge', 'main'],
    ['ADD', { prevResult, mode: 'chained' }, 'chained', 'chained'],
    ['CHECK', { prevResult }, 'bridge', 'main'],
    ['CHECK', { prevResult, mode: 'chained' }, 'chained', 'chained'],
    ['ADD', { mode: 'loopback' }, 'loopback', 'main'],
    ['ADD', { mode: 'ptp', podcidr: '10.1.0.0/24' }, 'ptp', 'main'],
  ] as const)('%s %j is %s', (verb, changes: Json, mode, role) => {
    expect(read(changes, {}, verb)).toMatchObject({ mode, role })
  })

  it.each([
    [{ mode: 'bridge', podcidr: '10.1.0.0/24' }, ['bridge', 'isGateway', 'enabledad']],
    [{ mode: 'ptp', podcidr: '10.1.0.0/24', bridge: 'br0', vlan: 5 }, ['isGateway', 'enabledad']],
    [{ mode: 'macvlan', bridge: 'br0', podcidr: '10.1.0.0/24' }, ['macvlanMode', 'isGateway', 'enabledad']],
    [{ mode: 'loopback', bridge: 'br0', enabledad: true }, []],
    [{ mode: 'chained', prevResult, bridge: 'br0', isGateway: true }, []],
    [{ type: 'other', bridge: 'br0', ipam: { type: 'trestle', subnet: '10.1.0.0/24' } }, []],
  ])('%j has the keys of its own mode only', (changes: Json, expected) => {
    const conf = readAny(changes)
    expect(['bridge', 'macvlanMode', 'isGateway', 'enabledad'].filter((key) => key in conf)).toEqual(expected)
  })

  it.each<[Json, object]>([
    [{ device: 'eth1' }, { key: 'device', value: 'eth1' }],
    [{ hwaddr: '0A-00-00-00-00-01' }, { key: 'hwaddr', value: '0a:00:00:00:00:01' }],
    [
      { kernelpath: '/sys/devices/pci0000:00/0000:00:1f.6' },
      { key: 'kernelpath', value: '/sys/devices/pci0000:00/0000:00:1f.6' },
    ],
    [{ pciBusID: '0000:3B:02.1' }, { key: 'pciBusID', value: '0000:3b:02.1' }],
    // Multus writes what the runtime allocated under both keys.
    [
      { pciBusID: 'mlx5_core.sf.4', runtimeConfig: { deviceID: 'mlx5_core.sf.4' } },
      { key: 'deviceID', value: 'mlx5_core.sf.4' },
    ],
  ])('mode host-device has the device of %j', (named, device) => {
    expect(read({ mode: 'host-device', ...named })).toMatchObject({ mode: 'host-device', device })
  })

  it('mode host-device asks for a device on ADD only: the runtime may be who names it', () => {
    const conf = { mode: 'host-device', capabilities: { deviceID: true } }
    for (const verb of ['GC', 'STATUS'] as const) expect(read(conf, {}, verb)).not.toHaveProperty('device')
  })

  it('keeps prevResult on ADD and CHECK, not on STATUS and GC', () => {
    expect(read({ prevResult, mode: 'bridge' }).prevResult?.ips[0]?.address).toBe('10.9.0.2/24')
    expect(read({ prevResult }, {}, 'CHECK').prevResult?.interfaces[0]?.name).toBe('eth0')
    expect(read({ prevResult: 'garbage' }, {}, 'STATUS').prevResult).toBeUndefined()
  })

  it('does not judge the keys of a plugin that delegates to us', () => {
    const conf = readAny({
      type: 'macvlan',
      mode: 'private',
      mtu: 'big',
      vlan: 'x',
      bandwidth: 3,
      prevResult: 'garbage',
      ipam: { type: 'trestle', subnet: '10.1.0.0/24' },
    })
    expect(conf).toMatchObject({ role: 'ipam', mode: 'ipam', type: 'macvlan', ipam: { kind: 'pool' } })
    expect(conf).not.toHaveProperty('prevResult')
    expect(readAny({ type: 'x', ipam: { type: 'trestle', subnet: '10.1.0.0/24' } }, {}, 'CHECK').role).toBe('ipam')
  })
})

describe('other keys', () => {
  it.each([
    [{ mtu: 0 }, { mtu: 'auto' }],
    [{ mtu: 68 }, { mtu: 68 }],
    [{ podcidr: '10.1.0.0/24', ipMasqBackend: 'iptables' }, { ipMasq: true }],
    [{ podcidr: '10.1.0.0/24', ipMasq: false }, { ipMasq: false }],
    [{ podCIDR: '10.1.0.0/24' }, { ipMasq: true }],
    [
      { podcidr: '10.1.0.0/24', nonMasqueradeCIDRs: ['10.1.2.3/8', '10.0.0.0/8', 'FD00::1/8'] },
      { nonMasqueradeCidrs: ['10.0.0.0/8', 'fd00::/8'] },
    ],
    [{ dns: { domain: 'x', options: ['ndots:5'] } }, { dns: { domain: 'x', options: ['ndots:5'] } }],
    [
      {
        dns: { nameservers: ['1.1.1.1'] },
        runtimeConfig: { dns: { servers: ['9.9.9.9'], searches: [], options: [] } },
      },
      { dns: { nameservers: ['9.9.9.9'] } },
    ],
  ])('%j', (changes, expected) => {
    expect(read(changes)).toMatchObject(expected)
  })

  it.each([{ dns: {} }, { dns: { domain: '' } }])('%j is off', (changes) => {
    expect(read(changes).dns).toBeUndefined()
  })

  it.each([
    { record: 20 },
    { record: { keep: 5 } },
    { record: { wrap: 'bridge' } },
    { record: { answer: { ADD: { ips: [] }, STATUS: { code: 50, msg: 'x' } } } },
  ])('%j is for the recorder, and changes nothing else', (changes) => {
    expect({ ...read(changes), stdin: '' }).toEqual({ ...read({}), stdin: '' })
  })

  it('takes the pod from CNI_ARGS', () => {
    const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p'
    expect(read({}, { CNI_ARGS: args }).pod).toEqual({ namespace: 'ns', name: 'p' })
  })
})

describe('DEL', () => {
  it('reads what it needs', () => {
    const stdin = configText({ ipam: { type: 'dhcp', dataDir: '/x' }, record: 3 })
    expect(readDelConfig(stdin)).toEqual({
      cniVersion: '1.1.0',
      name: 'net',
      role: 'main',
      isLoopback: false,
      delegatedIpam: 'dhcp',
      dataDir: '/x',
      stdin,
    })
  })

  it.each([
    [{ ipam: 3, mtu: 'x', prevResult: 'garbage', vlan: 9999, type: 7, podcidr: {}, record: -1 }],
    [{ ipam: { type: '../../bin/sh', dataDir: 'relative', ranges: 'x' }, runtimeConfig: [] }],
    [{ ipam: { type: 'host-local', dataDir: 4 }, args: 'x', portmap: { externalSetMarkChain: 'X' } }],
    [{ ipam: null, prevResult: { cniVersion: '0.1.0' } }],
  ])('lets nothing else fail: %j', (changes) => {
    const stdin = configText(changes)
    const conf = {
      cniVersion: '1.1.0',
      name: 'net',
      role: 'main',
      isLoopback: false,
      dataDir: '/var/lib/cni/networks',
      stdin,
    }
    expect(readDelConfig(stdin)).toEqual(conf)
  })

  it.each([
    ['macvlan', { mode: 'macvlan' }, { mode: 'macvlan' }],
    ['host-device', { mode: 'host-device', device: 'eth1' }, { mode: 'host-device', device: 'eth1' }],
    ['an unsafe device', { mode: 'host-device', device: 'a/b' }, { mode: 'host-device' }],
    ['bridge', { mode: 'bridge', device: 'eth1' }, undefined],
  ])('knows whose interface the host shows nothing of: %s', (_, changes, inPod) => {
    expect(readDelConfig(configText(changes)).inPod).toEqual(inPod)
  })

  it('of a link to the executable that is called loopback is that of loopback', () => {
    expect(readDelConfig(configText({ type: 'loopback' }), ['loopback', 'trestle'])).toMatchObject({
      role: 'main',
      isLoopback: true,
    })
  })

  it.each([
    [{ type: 'macvlan', ipam: { type: 'trestle' } }, 'ipam'],
    [{ mode: 'chained' }, 'chained'],
    [{ Mode: 'chained', ipam: { type: 'dhcp' } }, 'chained'],
    [{ mode: 'chain' }, 'main'],
  ])('%j is %s', (changes, role) => {
    const conf = readDelConfig(configText(changes))
    expect(conf.role).toBe(role)
    expect(conf.delegatedIpam).toBeUndefined()
  })
})

describe('valid attachments', () => {
  const key = 'cni.dev/valid-attachments'
  it.each([
    ['absent', {}, undefined],
    ['null', { [key]: null }, null],
    ['empty', { [key]: [] }, []],
    ['a list', { [key]: [{ containerID: 'a', ifname: 'eth0' }] }, [{ containerId: 'a', ifName: 'eth0' }]],
    [
      "libcni's old key",
      { 'cni.dev/attachments': [{ containerID: 'a', ifname: 'b' }] },
      [{ containerId: 'a', ifName: 'b' }],
    ],
    ['both keys', { 'cni.dev/attachments': [{ containerID: 'x', ifname: 'y' }], [key]: [] }, []],
  ])('%s', (_, changes, expected) => {
    expect(read(changes, {}, 'GC').validAttachments).toEqual(expected)
  })

  it.each([
    [[{ containerID: 'a' }], '(7) cni.dev/valid-attachments[0]: containerID or ifname is missing'],
    [{}, '(7) cni.dev/valid-attachments: {} is not a list'],
    [[null], '(7) cni.dev/valid-attachments[0]: null is not an object'],
  ])('refuses %j: a wrong list must not remove pods', (value, line) => {
    expect(lineOf(errorOf(() => read({ [key]: value }, {}, 'GC')))).toBe(line)
  })
})
