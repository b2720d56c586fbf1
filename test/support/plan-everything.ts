// SPDX-License-Identifier: Apache-2.0
// Everything that is pure of an ADD and its DEL: names, specs, operations, batches, record and result, from a
// configuration alone. What the kernel, the pool or a delegate would say is made up.

import type { Invocation } from '../../src/cni/model/invocation.ts'
import type { NetConf } from '../../src/cni/model/net-conf.ts'
import type { Result } from '../../src/cni/model/result.ts'
import { type Batch, toLanes } from '../../src/compile/batches.ts'
import { firstFree } from '../../src/plan/ipam/allocate.ts'
import { chooseRequested } from '../../src/plan/ipam/request.ts'
import { staticLease } from '../../src/plan/ipam/static.ts'
import type { AttachmentKey, AttachmentSpec, NetworkSpec } from '../../src/plan/model/attachment.ts'
import { type Lease, noLease } from '../../src/plan/model/lease.ts'
import { aliasOf, ifbAlias, newMacvlanName } from '../../src/plan/model/names.ts'
import type { ObservedLink, ObservedNamespace } from '../../src/plan/model/observed.ts'
import type { Op } from '../../src/plan/model/op.ts'
import type { AttachmentRecord } from '../../src/plan/model/record.ts'
import { delegatedResult, resultOf } from '../../src/plan/modes/answer.ts'
import {
  afterRuleOps,
  hostOps,
  nameOps,
  podOps,
  podSysctlOps,
  podTeardownOps,
  queueingOps,
  teardownOps,
} from '../../src/plan/modes/attach.ts'
import { buildNetworkSpec, buildSpec } from '../../src/plan/modes/build-spec.ts'
import { chainedNetwork, chainedResult, chainedSpec } from '../../src/plan/modes/chained.ts'
import { loopbackDownOps, loopbackOps, loopbackResult } from '../../src/plan/modes/loopback.ts'
import { bridgeOps, fastPathBridgeOps, fastPathRuleOps, ruleOps } from '../../src/plan/modes/network-rules.ts'
import { decodeRecord, encodeRecord } from '../../src/plan/state/stored-record.ts'
import type { KnownNames } from './fuzz/batch-grammar.ts'
import { madeUpMaster } from './golden.ts'

/** What an ADD would run and answer, and the record it would leave. */
export interface Planned {
  readonly batches: readonly Batch[]
  readonly result: Result
  readonly names: KnownNames
  readonly record?: AttachmentRecord
}

/** Plans an ADD and the DEL after it. Throws CniError as the real one does. */
export function planEverything(call: Invocation, conf: NetConf): Planned {
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  if (conf.mode === 'loopback' && conf.role !== 'ipam') return planLoopback(call, key)
  if (conf.role === 'ipam') return { batches: [], result: delegatedResult(leaseOf(conf)), names: namesOf(key, []) }
  return conf.role === 'chained' ? planChained(conf, key) : planMain(call, conf, key)
}

function planLoopback(call: Invocation, key: AttachmentKey): Planned {
  const lo = linkCalled('lo', { addresses: ['127.0.0.1/8'] })
  return { ...compiled([...loopbackOps, ...loopbackDownOps], key, []), result: loopbackResult(lo, call.netns) }
}

function planMain(call: Invocation, conf: NetConf, key: AttachmentKey): Planned {
  const lease = leaseOf(conf)
  const mtu = conf.mtu === 'auto' ? 1500 : conf.mtu
  const spec = buildSpec({ key, conf, lease, mtu, master: madeUpMaster })
  const network = buildNetworkSpec(conf, spec.ips, { mtu, machineId: 'machine' })
  const ops = [...bridgeOps(network, [spec]), ...fastPathBridgeOps(network), ...attachmentOps(spec, network)]
  const links = [network.bridge?.name, network.bridge?.gateway?.name, network.bridge?.gateway?.peer]
  return {
    ...compiled(ops, key, [
      ...links,
      madeUpMaster.link.name,
      newMacvlanName(key),
      spec.host?.name,
      spec.bandwidth?.egress?.ifb,
    ]),
    result: resultOf({ spec, network, lease, netns: call.netns }),
    record: recordOf(key, spec, network),
  }
}

function planChained(conf: NetConf, key: AttachmentKey): Planned {
  const prevResult = conf.prevResult ?? { interfaces: [], ips: [], routes: [] }
  const pod = namespaceOf([linkCalled(key.ifName, { kind: 'veth', index: 2, peerIndex: 7 })])
  const host = namespaceOf([linkCalled('veth9', { kind: 'veth', index: 7, peerIndex: 2, master: 'cni9' })])
  const hostLinks = new Map(prevResult.ips.map(({ address }) => [address.replace(/\/.*/, ''), 'cni9']))
  const spec = chainedSpec({ key, conf, prevResult, seen: { pod, host, hostLinks } })
  const network = chainedNetwork(conf, spec, host)
  return {
    ...compiled(attachmentOps(spec, network), key, ['cni9', 'veth9', spec.bandwidth?.egress?.ifb]),
    result: chainedResult(prevResult, spec),
    record: recordOf(key, spec, network),
  }
}

function attachmentOps(spec: AttachmentSpec, network: NetworkSpec): readonly Op[] {
  const source = { networks: [network], attachments: [spec] }
  return [
    ...ruleOps(source),
    ...fastPathRuleOps(source),
    ...hostOps(spec),
    ...nameOps(spec),
    ...queueingOps(spec),
    ...podOps(spec),
    ...podSysctlOps(spec),
    ...afterRuleOps(spec),
    ...podTeardownOps(spec),
    ...teardownOps(spec, 4711),
  ]
}

function compiled(ops: readonly Op[], key: AttachmentKey, links: readonly (string | undefined)[]) {
  const { links: first, rules } = toLanes(ops)
  return { batches: [...first, ...rules], names: namesOf(key, links) }
}

function namesOf(key: AttachmentKey, links: readonly (string | undefined)[]): KnownNames {
  const known = ['lo', key.ifName, ...links].filter((name) => name !== undefined)
  return { links: new Set(known), aliases: [aliasOf(key), ifbAlias(key)] }
}

/** What is on disk between ADD and DEL. Throws when the record cannot be read back. */
function recordOf(key: AttachmentKey, spec: AttachmentSpec, network: NetworkSpec): AttachmentRecord {
  const writer = { pid: 1, startTime: '1', bootId: 'b', pidNamespace: 'pid:[1]' }
  const netns = { path: '/run/netns/a', inode: 1 }
  const record = { key, writer, netns, createdAt: '', configDigest: '', spec, network } as const
  const read = decodeRecord(encodeRecord(record))
  if (read?.spec === undefined) throw new Error('the record cannot be read back')
  return read
}

/** The addresses a pool gives first, those of the configuration, or what a delegate might answer. */
function leaseOf({ ipam }: NetConf): Lease {
  if (ipam.kind === 'none') return noLease
  if (ipam.kind === 'static') return staticLease(ipam)
  if (ipam.kind === 'delegated') {
    return {
      ips: [{ address: '10.77.0.5/24', gateway: '10.77.0.1' }, { address: 'fd00:77::5/64' }],
      routes: [{ dst: '0.0.0.0/0' }],
    }
  }
  const requested = chooseRequested(ipam.rangeSets, ipam.requested)
  const ips = ipam.rangeSets.flatMap((ranges, at) => {
    const chosen = requested[at] ?? firstFree(ranges, { exclude: ipam.exclude, taken: new Set() })
    if (chosen === undefined) return []
    const { subnet, gateway } = chosen.range
    return [{ address: `${chosen.address}${subnet.slice(subnet.indexOf('/'))}`, gateway }]
  })
  return { ips, routes: ipam.routes }
}

function linkCalled(name: string, more: Partial<ObservedLink>): ObservedLink {
  const plain = {
    index: 1,
    mac: '0a:00:00:00:00:01',
    mtu: 1500,
    up: true,
    promisc: false,
    allmulti: false,
    addresses: [],
  }
  return { ...plain, name, ...more }
}

function namespaceOf(links: readonly ObservedLink[]): ObservedNamespace {
  return { links: new Map(links.map((link) => [link.name, link])), routes: new Map() }
}
