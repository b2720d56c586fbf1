// SPDX-License-Identifier: Apache-2.0
// The lease of an ADD: from our pool, from the configuration (`static`), or from a delegated plugin; and its reservation.

import { realpathSync } from 'node:fs'
import { bareAddress, networkText, parseAddress, toCidr } from '../cni/addresses.ts'
import type { Call } from '../cni/call.ts'
import { CniError, Code, oneLine } from '../cni/errors.ts'
import type { Dns } from '../cni/results.ts'
import type { NetworkConf, PoolIpam, Range } from '../config/network-conf.ts'
import type { AttachmentId, Lease, PodAddress } from '../drivers/spec.ts'
import { nodeAddresses } from '../kernel/proc.ts'
import type { Machine } from '../process/machine.ts'
import { readText, writeText } from '../state/files.ts'
import { addressesDirectory, networkDirectory, readOwnText } from '../state/layout.ts'
import { describeRecord } from '../state/records.ts'
import {
  addressHolder,
  reserveAddress,
  reservedAddresses,
  reserveNamedAddress,
  type SettleDead,
  withdrawAddress,
} from '../state/reservations.ts'
import {
  type Candidate,
  candidates,
  capacity,
  chooseRequested,
  countedAddresses,
  describeSet,
  rangeOf,
} from './choose.ts'
import { delegate, readLease } from './delegate.ts'
import { hostLocalAddresses, hostLocalLast } from './host-local-files.ts'

export interface LeaseRequest {
  readonly id: AttachmentId
  readonly conf: NetworkConf
  readonly call: Call
  readonly settleDead: SettleDead
}

/** Reserves the addresses of the attachment. Throws CniError 101 where the pool is full, 102 for one that is taken. */
export async function reserveAddresses(request: LeaseRequest, machine: Machine): Promise<Lease> {
  const { conf } = request
  switch (conf.ipam.kind) {
    case 'none':
      return { addresses: [], routes: [] }
    case 'pool':
      return await reserveFromPool(request, conf.ipam)
    case 'static': {
      const { addresses, routes, dns } = conf.ipam
      await reserveGiven(request, addresses)
      return { addresses, routes, ...(dns === undefined ? {} : { dns }) }
    }
    case 'delegated': {
      const { type } = conf.ipam
      const stdout = await delegate(machine, { type, verb: 'ADD', path: request.call.path, stdin: conf.stdin })
      const lease = readLease(stdout, type, conf.cniVersion)
      await reserveGiven(request, lease.addresses)
      return lease
    }
    default:
      return conf.ipam satisfies never
  }
}

/** An address of the configuration or of another plugin: the pool of the network gives it to nobody, and none is shared. */
async function reserveGiven({ id, conf, settleDead }: LeaseRequest, addresses: readonly PodAddress[]): Promise<void> {
  for (const { address } of addresses) {
    const bare = bareAddress(address)
    const holder = await reserveNamedAddress(id, bare, settleDead)
    if (holder === 'reserved') continue
    if ('allowOverlap' in conf && conf.allowOverlap) continue
    const who = holder === undefined ? 'an attachment that cannot be read' : describeRecord(holder)
    throw new CniError(Code.addressUnavailable, 'requested-taken', `IP address ${bare} is not available`, {
      details: `It is held by ${who}. Use another address, or set "allowOverlap": true.`,
    })
  }
}

async function reserveFromPool(request: LeaseRequest, ipam: PoolIpam): Promise<Lease> {
  // What cannot be read is refused before anything is reserved.
  const dns = ipam.resolvConf === undefined ? undefined : readResolvConf(ipam.resolvConf)
  const requested = chooseRequested(ipam.rangeSets, ipam.requested)
  const chosen: Candidate[] = []
  try {
    for (const [index, ranges] of ipam.rangeSets.entries()) {
      const asked = requested[index]
      const placed = { index, ranges }
      chosen.push(
        asked === undefined
          ? await reserveNext(request, ipam, placed)
          : await reserveRequested(request, ipam, placed, asked),
      )
    }
  } catch (error) {
    for (const { address } of chosen) withdrawAddress(request.id, address)
    throw error
  }
  const addresses = chosen.map(({ address, range }) => ({
    address: `${address}/${toCidr(range.subnet).prefixLength}`,
    gateway: range.gateway,
  }))
  return { addresses, routes: ipam.routes, ...(dns === undefined ? {} : { dns }) }
}

/** A range set by its place in the configuration, which messages name. */
interface PlacedSet {
  readonly index: number
  readonly ranges: readonly Range[]
}

async function reserveNext(request: LeaseRequest, ipam: PoolIpam, set: PlacedSet): Promise<Candidate> {
  const { id } = request
  const { exclude, dataDir } = ipam
  const theirs = hostLocalAddresses(dataDir, id.network)
  const reserve = (): Candidate | undefined => {
    const last = lastAddress(id.network, set, dataDir)
    const taken = new Set([...reservedAddresses(id.network), ...theirs, ...nodeAddresses()])
    for (const candidate of candidates(set.ranges, last, exclude)) {
      if (taken.has(candidate.address) || !reserveAddress(id, candidate.address)) continue
      writeText(lastFile(id.network, set), candidate.address)
      return candidate
    }
    return undefined
  }
  let found = reserve()
  while (found === undefined && (await settleDeadHolders(request, set))) found = reserve()
  // Another call may have taken down the dead ones meanwhile.
  found ??= reserve()
  if (found !== undefined) return found
  const used = countedAddresses(
    set.ranges,
    exclude,
    new Set([...reservedAddresses(id.network), ...theirs, ...nodeAddresses()]),
  )
  const what = `no IP addresses available in range set: ${describeSet(set.ranges)}`
  const message = `failed to allocate for range ${set.index}: ${what} (${used.length} of ${capacity(set.ranges, exclude)} used)`
  const ofHostLocal =
    theirs.length === 0
      ? ''
      : `${theirs.length} were reserved by host-local, in ${dataDir}/${id.network}; docs/migrate.md says when these end. `
  throw new CniError(Code.poolExhausted, 'pool-exhausted', message, {
    details:
      `${addressesDirectory(id.network)} says who has each address; \`trestle gc\` frees those of pods that are gone. ${ofHostLocal}` +
      'If all are in use, the network needs a larger subnet or another range in this set.',
  })
}

/** Tears down what dead pods have of a full set; false where nobody is dead. */
async function settleDeadHolders({ id, settleDead }: LeaseRequest, { ranges }: PlacedSet): Promise<boolean> {
  for (const address of reservedAddresses(id.network)) {
    if (rangeOf(ranges, address) === undefined) continue
    const holder = addressHolder(id.network, address)
    if (holder !== undefined && (await settleDead(holder))) return true
  }
  return false
}

async function reserveRequested(
  { id, settleDead }: LeaseRequest,
  { dataDir }: PoolIpam,
  set: PlacedSet,
  asked: Candidate,
): Promise<Candidate> {
  const { address } = asked
  const refused = (who: string) => {
    const what = `requested IP address ${address} is not available in range set ${describeSet(set.ranges)}`
    return new CniError(
      Code.addressUnavailable,
      'requested-taken',
      `failed to allocate for range ${set.index}: ${what}`,
      { details: `It is held by ${who}.` },
    )
  }
  if (hostLocalAddresses(dataDir, id.network).includes(address))
    throw refused(`host-local: ${dataDir}/${id.network}/${address}`)
  if (nodeAddresses().has(address)) throw refused('the node itself')
  const holder = await reserveNamedAddress(id, address, settleDead)
  if (holder === 'reserved') return asked
  throw refused(holder === undefined ? 'an attachment that cannot be read' : describeRecord(holder))
}

/**
 * The file with the address that a range set gave last: named by its first address, so that a set which changes its place
 * in the configuration goes on where it was.
 */
function lastFile(network: string, { ranges }: PlacedSet): string {
  return `${networkDirectory(network)}/last.${bareAddress(networkText(ranges[0]?.subnet ?? ''))}`
}

function lastAddress(network: string, set: PlacedSet, dataDir: string): string | undefined {
  return readOwnText(lastFile(network, set))?.trim() ?? hostLocalLast(dataDir, network, set.index)
}

/** With systemd-resolved /etc/resolv.conf is a link. Throws CniError 5. */
function readResolvConf(path: string): Dns {
  const refused = (why: string) =>
    new CniError(Code.ioFailure, 'resolv-conf-unreadable', `ipam.resolvConf: cannot read ${path}: ${why}`, {
      details: 'use a file like /etc/resolv.conf',
      path: ['ipam', 'resolvConf'],
    })
  let file: string
  try {
    file = realpathSync(path)
  } catch (error) {
    throw refused((error as Error).message)
  }
  const found = readText(file)
  if (found === undefined || found === 'unreadable') throw refused('it is no file of at most 1 MiB')
  const words = (keyword: string) =>
    found.text
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([first, ...rest]) => first === keyword && rest.length > 0)
      .map(([, ...rest]) => rest)
  // The last domain wins, `search` and `options` add up, a nameserver stands on a line of its own (resolv.conf(5)).
  const nameservers = words('nameserver')
    .map(([address = '']) => oneLine(address))
    .filter((text) => parseAddress(text) !== undefined)
  const domain = words('domain').at(-1)?.[0]
  const [search, options] = [words('search').flat(), words('options').flat()]
  return {
    ...(nameservers.length > 0 ? { nameservers } : {}),
    ...(domain === undefined ? {} : { domain }),
    ...(search.length > 0 ? { search } : {}),
    ...(options.length > 0 ? { options } : {}),
  }
}
