// SPDX-License-Identifier: Apache-2.0
// The lease of an ADD: from our pool, from the configuration (`static`), or from a delegated plugin; and its reservation.

import { realpathSync } from 'node:fs'
import { bareAddress, familyOf, networkText, parseAddress, toCidr } from '../cni/addresses.ts'
import type { Call } from '../cni/call.ts'
import { CniError, Code } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
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
      return { addresses, routes, ...defined({ dns }) }
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
      const set = { index, ranges }
      chosen.push(await (asked ? reserveRequested(request, ipam, set, asked) : reserveNext(request, ipam, set)))
    }
  } catch (error) {
    for (const { address } of chosen) withdrawAddress(request.id, address)
    throw error
  }
  const addresses = chosen.map(({ address, range }) => ({
    address: `${address}/${toCidr(range.subnet).prefixLength}`,
    gateway: range.gateway,
  }))
  return { addresses, routes: ipam.routes, ...defined({ dns }) }
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
  const [family] = set.ranges.map(({ subnet }) => familyOf(subnet)) // a set has one
  const taken = () => new Set([...reservedAddresses(id.network), ...theirs, ...nodeAddresses(family)])
  const reserve = (): Candidate | undefined => {
    const last = lastAddress(id.network, set, dataDir)
    const others = taken()
    for (const candidate of candidates(set.ranges, last, exclude)) {
      if (others.has(candidate.address) || !reserveAddress(id, candidate.address)) continue
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
  const used = `${countedAddresses(set.ranges, exclude, taken()).length} of ${capacity(set.ranges, exclude)} used`
  const what = `no IP addresses available in range set: ${describeSet(set.ranges)}`
  throw new CniError(
    Code.poolExhausted,
    'pool-exhausted',
    `failed to allocate for range ${set.index}: ${what} (${used})`,
    {
      details:
        `${addressesDirectory(id.network)} says who has each address; \`trestle gc\` frees those of pods that are gone. ` +
        (theirs.length > 0
          ? `${theirs.length} are host-local's (${dataDir}/${id.network}); see docs/migrate.md. `
          : '') +
        'If all are in use, the network needs a larger subnet or another range in this set.',
    },
  )
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
    const message = `failed to allocate for range ${set.index}: ${what}`
    return new CniError(Code.addressUnavailable, 'requested-taken', message, { details: `It is held by ${who}.` })
  }
  if (hostLocalAddresses(dataDir, id.network).includes(address))
    throw refused(`host-local: ${dataDir}/${id.network}/${address}`)
  if (nodeAddresses(familyOf(address)).has(address)) throw refused('the node itself')
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
  const refused = (why: string) => {
    const message = `ipam.resolvConf: cannot read ${path}: ${why}`
    const more = { details: 'use a file like /etc/resolv.conf', path: ['ipam', 'resolvConf'] }
    return new CniError(Code.ioFailure, 'resolv-conf-unreadable', message, more)
  }
  let found: ReturnType<typeof readText>
  try {
    found = readText(realpathSync(path))
  } catch (error) {
    throw refused((error as Error).message)
  }
  if (found === undefined || found === 'unreadable') throw refused('it is no file of at most 1 MiB')
  const lines = found.text.split('\n').map((line) => line.trim().split(/\s+/))
  const words = (keyword: string) => lines.filter(([first]) => first === keyword).map(([, ...rest]) => rest)
  const filled = (list: readonly string[]) => (list.length > 0 ? list : undefined)
  // The last domain wins, `search` and `options` add up, a nameserver stands on a line of its own (resolv.conf(5)).
  const nameservers = words('nameserver').flatMap(([address = '']) => (parseAddress(address) ? [address] : []))
  return defined({
    nameservers: filled(nameservers),
    domain: words('domain').at(-1)?.[0],
    search: filled(words('search').flat()),
    options: filled(words('options').flat()),
  })
}
