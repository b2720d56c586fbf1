// SPDX-License-Identifier: Apache-2.0
// Finds what is ours in the kernel and in no record, for GC and `trestle gc`, and removes it.

import { existsSync } from 'node:fs'
import { includes, parseAddress, parseCidr } from '../../cni/model/address.ts'
import { toCniError } from '../../cni/model/error.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import { elementOps } from '../../plan/model/elements.ts'
import type { Op } from '../../plan/model/op.ts'
import {
  hasPodWithoutRecord,
  judgeOrphan,
  type Orphan,
  type OrphanVerdict,
  orphansOf,
} from '../../plan/recovery/kernel-orphans.ts'
import { orphanElements } from '../../plan/rules/orphan-elements.ts'
import { namesIn } from '../../system/files/files.ts'
import { chainedFiles, networkDirectories, networkFiles } from '../../system/files/state.ts'
import { executeAll } from '../../system/kernel/execute.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import { allRecords } from '../../system/store/records.ts'
import { withoutSpec } from '../call/attachment-records.ts'
import type { CallContext } from '../call/context.ts'
import type { Listed } from '../teardown/collect.ts'
import { bothTables } from '../teardown/orphan-elements.ts'
import { teardownWithoutRecord } from '../teardown/teardown.ts'

/** Judges everything of ours that no record names. Three processes, six where there is any. */
export async function judgeOrphans(context: CallContext, listed: Listed): Promise<readonly OrphanVerdict[]> {
  const { links, orphans } = await findOrphans(context)
  const networks = networkDirectories()
  const isChained = networks.some((files) => existsSync(chainedFiles(files).network))
  // Where all state was lost, too, a chained pod has no link of ours that would tell of it.
  const mayBeOfUnknownPod = hasPodWithoutRecord(orphans) || isChained || networks.length === 0
  return orphans.map((orphan) =>
    judgeOrphan(orphan, { links, isListed: orphan.key && listed?.has(orphan.key.containerId), mayBeOfUnknownPod }),
  )
}

/** Removes those that are to be collected, and are orphans still. Returns what failed. */
export async function collectOrphans(
  context: CallContext,
  verdicts: readonly OrphanVerdict[],
): Promise<readonly string[]> {
  const judged = verdicts.filter(({ verdict }) => verdict === 'collect').map(({ orphan }) => orphan)
  if (judged.length === 0) return []
  const { orphans } = await findOrphans(context)
  const names = new Set(orphans.map(({ name }) => name))
  const failures = await remove(
    context,
    judged.filter(({ name }) => names.has(name)),
  )
  return failures.map(({ message }) => message)
}

/**
 * Removes a network's orphans that `isListed` does not know, for GC; of its elements those of its ranges, and of links
 * that are gone, while no pod may have lost its record. Returns what failed.
 */
export async function removeUnlisted(
  context: CallContext,
  conf: NetConf,
  isListed: (id: { containerId: string; ifName: string }) => boolean,
): Promise<readonly Error[]> {
  try {
    const { orphans } = await findOrphans(context)
    const orphaned = orphans.filter(({ key }) => key?.network === conf.name && !isListed(key))
    const mayBeOfUnknownPod = hasPodWithoutRecord(orphans.filter((orphan) => !orphaned.includes(orphan)))
    const elements = orphans.filter(({ kind, name }) => kind === 'elements' && isOwn(conf, name))
    return await remove(context, [...orphaned, ...(mayBeOfUnknownPod ? [] : elements)])
  } catch (error) {
    return [toCniError(error)]
  }
}

/** A name that is no address is a link's that is gone: nobody's. */
function isOwn({ ipam }: NetConf, name: string): boolean {
  const address = parseAddress(name)
  if (address === undefined) return true
  const subnets = ipam.kind === 'pool' ? ipam.rangeSets.flat().flatMap(({ subnet }) => parseCidr(subnet) ?? []) : []
  return subnets.some((subnet) => includes(subnet, address))
}

/**
 * Looks once more where there are any: a DEL beside us forgets its record between our look at the links and that at the
 * records.
 */
async function findOrphans(context: CallContext) {
  const first = await lookForOrphans(context)
  if (first.orphans.length === 0) return first
  const { links, orphans } = await lookForOrphans(context)
  return { links, orphans: orphans.filter(({ name }) => first.orphans.some((each) => each.name === name)) }
}

async function lookForOrphans(context: CallContext) {
  const [{ links }, table] = await Promise.all([observeHost(context.run), bothTables(context)])
  const records = allRecords().map(({ record }) => record)
  const reserved = new Set(networkDirectories().flatMap(({ addresses }) => namesIn(addresses)))
  return { links, orphans: orphansOf({ links, table, records, reserved }) }
}

async function remove(context: CallContext, orphans: readonly Orphan[]): Promise<readonly Error[]> {
  const failures: Error[] = []
  for (const orphan of orphans) failures.push(...(await removeOne(context, orphan)))
  return failures
}

/** A main attachment goes as by DEL of a lost record: what is reserved for it goes, too. */
async function removeOne(context: CallContext, { kind, name, key }: Orphan): Promise<readonly Error[]> {
  if (kind === 'link' && key?.role === 'main') {
    return await teardownWithoutRecord(context, networkFiles(key.network), withoutSpec(context, key))
  }
  if (kind === 'link') {
    return await runAll(context, [{ in: 'host', kind: 'link.del', dev: name, why: `remove the orphan ${name}` }])
  }
  const isAddress = parseAddress(name) !== undefined
  const owner = { portNames: [], addresses: isAddress ? [name] : [], link: isAddress ? '' : name }
  return await runAll(context, elementOps(orphanElements(await bothTables(context), owner), 'nft.del'))
}

async function runAll(context: CallContext, ops: readonly Op[]): Promise<readonly Error[]> {
  return await executeAll({ run: context.cleanup }, ops)
}
