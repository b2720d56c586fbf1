// SPDX-License-Identifier: Apache-2.0
// STATUS: cheap, without a process, and true: 50 with the reason. Never for what the next ADD sets up itself, since a node
// that is not ready gets no ADD. A fault that is gone one second later is not reported.

import { accessSync, constants, statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Call } from '../cni/call.ts'
import { CniError, Code, toCniError } from '../cni/errors.ts'
import type { NetworkConf, OwnConf, PoolIpam } from '../config/network-conf.ts'
import { hasIpv6 } from '../config/read-config.ts'
import { makesInterface } from '../drivers/drivers.ts'
import { capacity, countedAddresses, describeSet, rangeOf } from '../ipam/choose.ts'
import { delegate, requirePlugin } from '../ipam/delegate.ts'
import { hostLocalAddresses } from '../ipam/host-local-files.ts'
import { nodeAddresses } from '../kernel/proc.ts'
import { findProgram } from '../process/runner.ts'
import { isTaken } from '../state/files.ts'
import { requireStateIfThere, stateRoot } from '../state/layout.ts'
import { findRecord, isDead } from '../state/records.ts'
import { addressHolder, reservedAddresses } from '../state/reservations.ts'
import type { Context } from './context.ts'

export async function status(call: Call, conf: NetworkConf, context: Context): Promise<void> {
  const first = problemOf(conf, call)
  if (first !== undefined) {
    // Runtimes take the node out of service at once: what passes is not worth that.
    await sleep(1000, undefined, { signal: context.deadline.signal }).catch(() => undefined)
    const second = context.deadline.signal?.aborted ? first : problemOf(conf, call)
    if (second !== undefined) throw second
  }
  if (conf.ipam.kind === 'delegated')
    await delegate(context.machine, { type: conf.ipam.type, verb: 'STATUS', path: call.path, stdin: conf.stdin })
}

function problemOf(conf: NetworkConf, call: Call): CniError | undefined {
  try {
    if (conf.mode !== 'ipam') requireTools(conf)
    if (conf.mode === 'loopback') return undefined
    requireState(conf)
    if (conf.ipam.kind === 'pool') requireFreeAddress(conf, conf.ipam)
    if (conf.ipam.kind === 'delegated') requirePluginHere(conf.ipam.type, call)
    return undefined
  } catch (error) {
    return toCniError(error)
  }
}

function notReady(id: string, why: string, details: string): CniError {
  return new CniError(Code.notAvailable, id, `not ready: ${why}`, { details })
}

/** A directory of ours, or the nearest one that is there, can be written, and has room. */
function requireState({ name }: NetworkConf): void {
  try {
    let directory = stateRoot()
    if (!requireStateIfThere(name)) while (!isTaken(directory)) directory = dirname(directory)
    accessSync(directory, constants.W_OK)
    const { bavail, files, ffree } = statfsSync(directory)
    // A file system without a count of inodes has 0 of 0.
    if (bavail === 0 || (files > 0 && ffree === 0)) throw new Error(`the file system of ${directory} is full`)
  } catch (error) {
    const { message } = error as Error
    const details = error instanceof CniError ? error.details : undefined
    throw notReady(
      'not-ready-state',
      `the state directory cannot be used: ${message}`,
      details ?? 'make room, or repair it',
    )
  }
}

/** What an ADD of this configuration runs, also for ports and limits where a capability lets pods ask for them. */
function requireTools(conf: OwnConf): void {
  const missing = toolsOf(conf).filter((tool) => findProgram(tool) === undefined)
  if (missing.length === 0) return
  const details =
    'install them (Debian: iproute2, util-linux, nftables, procps; Fedora has tc in iproute-tc), or add their directory to PATH'
  throw notReady('not-ready-tool', `${missing.join(', ')} not found`, details)
}

function toolsOf(conf: OwnConf): readonly string[] {
  const tools = ['ip', 'nsenter']
  if (conf.mode === 'loopback') return tools
  // Also without rules: a DEL of what has no record looks at our tables.
  tools.push('nft')
  if (conf.bandwidth !== undefined || conf.capabilities.includes('bandwidth')) tools.push('tc')
  const hasDetection = makesInterface(conf) && conf.enabledad && hasIpv6(conf.ipam)
  if (Object.keys(conf.tuning?.sysctl ?? {}).length > 0 || hasDetection) tools.push('sysctl')
  if (conf.mode === 'bridge' && (conf.bridge.vlan > 0 || conf.bridge.vlanTrunk !== undefined)) tools.push('bridge')
  return tools
}

/** A dead pod's address is free for the next ADD. */
function requireFreeAddress(conf: NetworkConf, { rangeSets, exclude, dataDir }: PoolIpam): void {
  const reserved = reservedAddresses(conf.name)
  const theirs = hostLocalAddresses(dataDir, conf.name)
  for (const set of rangeSets) {
    const total = capacity(set, exclude)
    const used = countedAddresses(set, exclude, new Set([...reserved, ...theirs, ...nodeAddresses()]))
    if (BigInt(used.length) < total) continue
    const holders = reserved
      .filter((address) => rangeOf(set, address) !== undefined)
      .map((address) => addressHolder(conf.name, address))
    if (holders.some((holder) => holder !== undefined && isDead(findRecord(holder.id) ?? holder))) continue
    const ofHostLocal = theirs.length === 0 ? '' : `, ${theirs.length} of them by host-local (${dataDir}/${conf.name})`
    const details = `all ${total} are held for pods whose network namespace exists${ofHostLocal}; trestle gc names those that no runtime lists`
    throw notReady('not-ready-pool', `no IP addresses available in range set ${describeSet(set)}`, details)
  }
}

function requirePluginHere(type: string, { path }: Call): void {
  try {
    requirePlugin({ type, path })
  } catch (error) {
    const { message, details = '' } = toCniError(error)
    throw notReady('not-ready-ipam', message, details)
  }
}
