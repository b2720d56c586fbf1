// SPDX-License-Identifier: Apache-2.0
// An ADD and its DEL carried out on assumed answers, from a configuration alone: what their order would run and answer,
// and the record between them.

import { type AssumedAdd, assumedAdd, assumedDel } from '../../src-before/cli/plan/assume.ts'
import { batchesOf } from '../../src-before/cli/plan/plan.ts'
import type { Invocation } from '../../src-before/cni/invocation.ts'
import type { Result } from '../../src-before/cni/result.ts'
import type { NetConf } from '../../src-before/config/net-conf.ts'
import type { AttachmentKey } from '../../src-before/model/attachment.ts'
import { encodeFile } from '../../src-before/model/kinds.ts'
import { aliasOf, ifbAlias, newPodLinkName } from '../../src-before/model/names.ts'
import { decodeRecord } from '../../src-before/model/record.ts'
import type { Batch } from '../../src-before/tools/batches.ts'
import type { KnownNames } from './fuzz/batch-grammar.ts'

/** What an ADD and its DEL would run, and what it would answer. */
export interface Planned {
  readonly batches: readonly Batch[]
  readonly result: Result
  readonly names: KnownNames
}

/** Plans the first ADD of a network, a later one and the DEL. Throws CniError as the real ones do. */
export async function planEverything(call: Invocation, conf: NetConf): Promise<Planned> {
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  const mtu = conf.mode === 'ipam' || conf.mtu === 'auto' ? 1500 : conf.mtu
  const begun = { key, conf, netns: call.netns, mtu, machineId: 'machine' }
  const add = await assumedAdd(begun, 'first')
  const later = await assumedAdd(begun, 'later')
  const plans = [...add.plans, ...later.plans, ...(await assumedDel(begun, readBack(key, add), 4711))]
  return { batches: batchesOf(plans), result: add.result, names: namesOf(key, conf, add) }
}

/** The spec as the DEL finds it on disk. Throws when the record cannot be read back. */
function readBack(key: AttachmentKey, { spec, network }: AssumedAdd): Pick<AssumedAdd, 'spec'> {
  if (spec === undefined) return {}
  const writer = { pid: 1, startTime: '1', bootId: 'b', pidNamespace: 'pid:[1]' }
  const netns = { path: '/run/netns/a', inode: 1 }
  const record = { key, writer, netns, createdAt: '', configDigest: '', spec, ...(network && { network }) }
  const read = decodeRecord(encodeFile(record))?.spec
  if (read === undefined) throw new Error('the record cannot be read back')
  return { spec: read }
}

/** Links that a configuration or a previous result names, and those that are called by the attachment's ids. */
function namesOf(key: AttachmentKey, conf: NetConf, { spec, network }: AssumedAdd): KnownNames {
  const { bridge } = network ?? {}
  const links = [
    ...[key.ifName, bridge?.name, bridge?.gateway?.name, bridge?.gateway?.peer, newPodLinkName(key)],
    ...[spec?.host?.name, spec?.bandwidth?.egress?.ifb, spec?.macvlan?.master, spec?.device?.name],
    ...((conf.mode !== 'ipam' && conf.prevResult?.interfaces) || []).map(({ name }) => name),
  ]
  const known = ['lo', ...links].filter((name) => name !== undefined)
  return { links: new Set(known), aliases: [aliasOf(key), ifbAlias(key)] }
}
