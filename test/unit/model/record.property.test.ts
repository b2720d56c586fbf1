// SPDX-License-Identifier: Apache-2.0
// Records from damaged files: whatever one place of the JSON holds instead, what is taken from it can be planned
// with, and compiled, or is refused with a known error.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CniError } from '../../../src-before/cni/error.ts'
import {
  afterRuleOps,
  attachmentRuleOps,
  hostOps,
  podOps,
  podSysctlOps,
  podTeardownOps,
  queueingOps,
  teardownOps,
} from '../../../src-before/drivers/attach.ts'
import { portOps } from '../../../src-before/drivers/bridge.ts'
import { bridgeOps, refilledRuleOps } from '../../../src-before/drivers/network.ts'
import {
  type AttachmentSpec,
  encodeNetwork,
  type NetworkSpec,
  network as networkKind,
} from '../../../src-before/model/attachment.ts'
import { decodeFile, encodeFile } from '../../../src-before/model/kinds.ts'
import { type AttachmentRecord, decodeRecord } from '../../../src-before/model/record.ts'
import { recordReservations } from '../../../src-before/plan/recovery/verdicts.ts'
import { toLanes } from '../../../src-before/tools/batches.ts'

const key = { network: 'n', containerId: 'c', ifName: 'eth0', role: 'main' } as const
const route = { dst: '10.9.0.0/16', gw: '10.1.0.1', src: '10.1.0.2', table: 100 }
const spec: AttachmentSpec = {
  key,
  mode: 'bridge',
  mtu: 1500,
  host: { name: 'veth0123456789a', mac: '02:00:00:00:00:01' },
  pod: { name: 'eth0', mac: '02:00:00:00:00:02', mtu: 1400 },
  port: {
    bridge: 'cni0',
    hairpin: true,
    isolated: false,
    onlyMac: '02:00:00:00:00:02',
    vlans: { access: 2, trunk: [3], keepDefault: false },
  },
  ips: [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }, { address: 'fd00::2/64' }],
  routes: [route],
  defaultRoutes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }],
  podLinkDown: false,
  dad: false,
  selfHairpin: true,
  hostPorts: {
    link: 'cni0',
    snat: true,
    masqAll: true,
    conditionsV4: ['ip saddr 10.0.0.0/8'],
    ports: [{ family: 4, protocol: 'tcp', hostPort: 80, podIp: '10.1.0.2', containerPort: 8080, hostIp: '192.0.2.1' }],
  },
  masquerade: { addresses: ['10.1.0.2', 'fd00::2'], noMasquerade: ['10.2.0.0/16'] },
  bandwidth: {
    link: 'veth0123456789a',
    mtu: 1500,
    ingress: { rateBits: 1e6, burstBytes: 4000 },
    egress: { rateBits: 1e6, burstBytes: 4000, ifb: 'ifb0123456789a', ifbMac: '02:00:00:00:00:03' },
  },
  tuning: { sysctl: { 'net/ipv4/ip_forward': '1' }, promisc: true, txQLen: 5, before: { mac: '02:00:00:00:00:04' } },
  sbr: { sources: [{ from: '10.1.0.2/32', table: 100, routes: [route] }], moved: [route] },
  isPool: true,
  cooldownS: 0,
}
const network: NetworkSpec = {
  name: 'n',
  bridge: {
    name: 'cni0',
    mac: '02:00:00:00:00:05',
    mtu: 1500,
    addresses: ['10.1.0.1/24'],
    forceAddress: false,
    promisc: false,
    vlanFiltering: false,
  },
  forwarding: [4, 6],
  masquerade: { subnets: ['10.1.0.0/24'], noMasquerade: ['10.1.0.0/24'] },
  hairpin: ['10.1.0.0/24'],
  ingressPolicy: 'isolated',
  hostAccept: 'cni0',
  acceptSubnets: ['10.1.0.0/24'],
  removeWhenEmpty: false,
}
const record: AttachmentRecord = {
  key,
  writer: { pid: 1, startTime: '1', bootId: 'b', pidNamespace: 'pid:[1]' },
  netns: { path: '/run/netns/x', inode: 1 },
  createdAt: '2026-01-01T00:00:00Z',
  configDigest: '',
  pod: { namespace: 'default', name: 'web' },
  spec,
  network,
  adopted: { dataDir: '/var/lib/cni/networks' },
  pendingCleanup: ['a link'],
}

/** Every place of a JSON value, as paths. */
function placesOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [path]
  return [path, ...Object.entries(value).flatMap(([name, each]) => placesOf(each, [...path, name]))]
}

function replaced(value: unknown, [name, ...rest]: readonly string[], by: unknown): unknown {
  if (name === undefined) return by
  const copy: Record<string, unknown> | unknown[] = Array.isArray(value) ? [...value] : { ...(value as object) }
  ;(copy as Record<string, unknown>)[name] = replaced((value as Record<string, unknown>)[name], rest, by)
  return copy
}

/** Everything that a verb, gc or restore makes of a record. */
function use(parsed: AttachmentRecord | undefined): void {
  if (parsed === undefined) return
  recordReservations(parsed)
  if (parsed.spec !== undefined) useSpec(parsed.spec)
  if (parsed.network !== undefined) useNetwork(parsed.network)
}

function useSpec(found: AttachmentSpec): void {
  const plans = [hostOps, portOps, podOps, podSysctlOps, podTeardownOps, queueingOps, attachmentRuleOps, afterRuleOps]
  for (const plan of plans) toLanes(plan(found))
  toLanes(teardownOps(found, 7))
}

function useNetwork(found: NetworkSpec): void {
  toLanes(bridgeOps(found, [spec]))
  toLanes(refilledRuleOps({ networks: [found], attachments: [spec] }))
}

const instead = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom(null, 0, -1, '', [], {}, true, 'a b', '\n', [null], [[]], { a: null }),
)

function expectKnown(body: () => void): void {
  try {
    body()
  } catch (error) {
    expect(error, String((error as Error).stack)).toBeInstanceOf(CniError)
  }
}

describe('a damaged record', () => {
  it('as it was written is believed in full', () => {
    expect(decodeRecord(encodeFile(record))).toStrictEqual(record)
    expect(decodeFile(networkKind, encodeNetwork(network))).toStrictEqual(network)
  })

  it('with anything in any one place is used without a crash', () => {
    const places = placesOf(JSON.parse(encodeFile(record)))
    fc.assert(
      fc.property(fc.constantFrom(...places), instead, (place, by) =>
        expectKnown(() => use(decodeRecord(JSON.stringify(replaced(JSON.parse(encodeFile(record)), place, by)) ?? ''))),
      ),
      { numRuns: 5000 },
    )
  })

  it('of a network likewise', () => {
    const places = placesOf(JSON.parse(encodeNetwork(network)))
    fc.assert(
      fc.property(fc.constantFrom(...places), instead, (place, by) =>
        expectKnown(() => {
          const found = decodeFile(
            networkKind,
            JSON.stringify(replaced(JSON.parse(encodeNetwork(network)), place, by)) ?? '',
          )
          if (found !== undefined) useNetwork(found)
        }),
      ),
      { numRuns: 2000 },
    )
  })
})
