// SPDX-License-Identifier: Apache-2.0
// Where an attachment's addresses come from: our own pool, the configuration, or another plugin.

import { realpathSync } from 'node:fs'
import { bareAddress, parseCidr } from '../../cni/address.ts'
import { CniError, orElse } from '../../cni/error.ts'
import { defined } from '../../cni/json.ts'
import type { Dns, Route } from '../../cni/result.ts'
import { readResult } from '../../cni/result-shapes.ts'
import type { NetConf, PoolIpam } from '../../config/net-conf.ts'
import { type Lease, noLease, type PodAddress } from '../../model/attachment.ts'
import { describeHolder } from '../../model/record.ts'
import {
  addressTaken,
  type Candidate,
  chooseRequested,
  countedOf,
  exhausted,
  firstFree,
  type PoolUse,
  requestTaken,
  staticLease,
} from '../../plan/ipam/allocate.ts'
import { type NamesIn, namesIn, readableText } from '../files/files.ts'
import type { NetworkFiles } from '../files/state.ts'
import type { Run } from '../process/runner.ts'
import {
  coolingAddresses,
  holderOf,
  type PlacedSet,
  reserveAddress,
  roundRobin,
  takenAddresses,
  withdrawAddress,
} from '../store/addresses.ts'
import { upstreamAddresses, upstreamLastGiven } from '../upstream/host-local-leases.ts'
import { delegate, printed } from './delegate.ts'

/**
 * Who asks for a lease. `reclaim` frees what dead attachments hold; others may do so at the same time. `names`: where
 * addresses have been looked at. One that was taken since is passed over. `elsewhere`: who of another network has an
 * address, asked once it is reserved here: of two that reserve it at once, one at least sees the other. `here`: the pod
 * of this network, where it is in the way.
 */
export interface LeaseRequest {
  readonly conf: NetConf
  readonly files: NetworkFiles
  readonly intentFile: string
  readonly reclaim: () => Promise<void>
  readonly names: NamesIn
  readonly elsewhere: (address: string) => string | undefined
  readonly here: (address: string) => string | undefined
}

/** Addresses from our own pool or from the configuration; none for layer 2 and for a delegated plugin. */
export async function ownLease(request: LeaseRequest): Promise<Lease> {
  const { ipam } = request.conf
  if (ipam.kind === 'static') {
    const lease = staticLease(ipam)
    await claim(request, lease.ips)
    return lease
  }
  if (ipam.kind !== 'pool') return noLease
  const dns = ipam.resolvConf === undefined ? undefined : readDns(ipam.resolvConf)
  const ips = await reserveAll(request, ipam)
  return { ips, routes: ipam.routes, ...(dns === undefined ? {} : { dns }) }
}

/**
 * Reserves addresses that were chosen elsewhere, so that the pool gives none of them out. Throws CniError 102 for one
 * that a live pod in the same place has, unless the configuration allows it.
 */
export async function claim(request: LeaseRequest, ips: readonly PodAddress[]): Promise<void> {
  const { conf, files, intentFile, reclaim } = request
  const claimed: string[] = []
  for (const address of new Set(ips.map((ip) => bareAddress(ip.address)))) {
    const isFree = reserveAddress(files, intentFile, address)
    if (!isFree) await reclaim()
    const isOurs = isFree || reserveAddress(files, intentFile, address)
    if (isOurs) claimed.push(address)
    const holder = isOurs ? request.elsewhere(address) : request.here(address)
    if (holder === undefined || (conf.mode !== 'ipam' && conf.allowOverlap)) continue
    for (const each of claimed) withdrawAddress(files, each)
    throw addressTaken(address, holder)
  }
}

/** Addresses from a delegated plugin. Throws its error, or 105 when its answer is no result with addresses. */
export async function delegatedLease(
  run: Run,
  conf: NetConf,
  call: { type: string; path: readonly string[] },
): Promise<Lease> {
  const stdout = await delegate(run, { ...call, verb: 'ADD', stdin: conf.stdin })
  const result = parseAnswer(stdout, conf, call.type)
  if (result.ips.length === 0) {
    throw new CniError('ipam-plugin-no-address', `the IPAM plugin ${call.type} returned no address`, {
      details: printed(stdout),
    })
  }
  return {
    ips: result.ips.map(toPodAddress).filter(isFirstOfAddress),
    routes: result.routes.map(toRoute),
    ...(result.dns === undefined ? {} : { dns: toDns(result.dns) }),
  }
}

function isFirstOfAddress({ address }: PodAddress, at: number, all: readonly PodAddress[]): boolean {
  return all.findIndex((other) => other.address === address) === at
}

/** A result may hold other keys, of any type and depth: nothing has looked at them, so they go no further. */
function toRoute({ dst, gw, mtu, advmss, priority, table, scope }: Route): Route {
  return { dst, ...defined({ gw, mtu, advmss, priority, table, scope }) }
}

function toDns({ nameservers, domain, search, options }: Dns): Dns {
  return defined({ nameservers, domain, search, options })
}

async function reserveAll(request: LeaseRequest, ipam: PoolIpam): Promise<readonly PodAddress[]> {
  const requested = chooseRequested(ipam.rangeSets, ipam.requested)
  const ips: PodAddress[] = []
  for (const [index, ranges] of ipam.rangeSets.entries()) {
    const wanted = requested[index]
    const set = { index, ranges, count: ipam.rangeSets.length }
    const { address, range } =
      wanted === undefined ? await reserveNext(request, ipam, set) : await reserveWanted(request, set, wanted)
    ips.push({ address: `${address}/${parseCidr(range.subnet)?.prefixLength}`, gateway: range.gateway })
  }
  return ips
}

/** The next free address of a range set; what others take meanwhile is passed over. */
async function reserveNext(request: LeaseRequest, ipam: PoolIpam, set: PlacedSet): Promise<Candidate> {
  const own = roundRobin(request.files, set)
  const last = own.last ?? upstreamLastGiven(ipam.dataDir, request.conf.name, set.index)
  let taken = takenNow(request, ipam, request.names)
  let hasReclaimed = false
  for (;;) {
    const chosen = firstFree(set.ranges, { last, exclude: ipam.exclude, taken })
    if (chosen === undefined) {
      if (hasReclaimed) throw exhausted(set, useOf(request, ipam, { set, taken }))
      await request.reclaim()
      hasReclaimed = true
      taken = takenNow(request, ipam)
      continue
    }
    if (reserveHere(request, chosen.address)) {
      own.remember(chosen.address)
      return chosen
    }
    taken.add(chosen.address)
  }
}

/** Whether the address is reserved now; it is not where a pod of another network has it. */
function reserveHere({ files, intentFile, elsewhere }: LeaseRequest, address: string): boolean {
  if (!reserveAddress(files, intentFile, address)) return false
  if (elsewhere(address) === undefined) return true
  withdrawAddress(files, address)
  return false
}

function useOf(request: LeaseRequest, ipam: PoolIpam, at: { set: PlacedSet; taken: ReadonlySet<string> }): PoolUse {
  const { files } = request
  const { exclude, cooldownS } = ipam
  const counted = (addresses: Iterable<string>) => countedOf(at.set.ranges, exclude, addresses)
  const cooling = coolingAddresses(files, cooldownS)
  return {
    directory: files.addresses,
    used: counted(at.taken).length,
    cooling: counted(cooling.keys()).map((address) => cooling.get(address) ?? 0),
    exclude,
    theirs: theirsOf(request, ipam),
  }
}

async function reserveWanted(request: LeaseRequest, set: PlacedSet, chosen: Candidate): Promise<Candidate> {
  const { files, elsewhere } = request
  const isTheirs = upstreamAddresses(dataDirOf(request.conf), request.conf.name).includes(chosen.address)
  if (!isTheirs && reserveHere(request, chosen.address)) return chosen
  if (!isTheirs) await request.reclaim()
  if (!isTheirs && reserveHere(request, chosen.address)) return chosen
  const holder = holderOf(files, chosen.address)
  const pod = isTheirs ? `the pod in ${dataDirOf(request.conf)}/${request.conf.name}/${chosen.address}` : undefined
  throw requestTaken(set, chosen.address, holder ? describeHolder(holder) : (elsewhere(chosen.address) ?? pod))
}

function theirsOf({ conf }: LeaseRequest, { dataDir }: PoolIpam): PoolUse['theirs'] {
  return { count: upstreamAddresses(dataDir, conf.name).length, directory: `${dataDir}/${conf.name}` }
}

function takenNow(request: LeaseRequest, ipam: PoolIpam, names: NamesIn = namesIn): Set<string> {
  const taken = takenAddresses(request.files, ipam.cooldownS, names)
  for (const address of upstreamAddresses(ipam.dataDir, request.conf.name)) taken.add(address)
  return taken
}

function dataDirOf(conf: NetConf): string {
  return conf.ipam.kind === 'pool' ? conf.ipam.dataDir : ''
}

/** The administrator's own file: with systemd-resolved /etc/resolv.conf is a link. */
function readDns(path: string): Dns {
  const text = readableText(orElse(() => realpathSync(path), path))
  if (text !== undefined) return readResolvConf(text)
  throw new CniError('resolv-conf-unreadable', `cannot read ipam.resolvConf ${path}`, {
    details: 'it must be a file of at most 1 MiB',
  })
}

function parseAnswer(stdout: string, conf: NetConf, type: string) {
  try {
    return readResult(JSON.parse(stdout), conf.cniVersion)
  } catch (cause) {
    throw new CniError(
      'ipam-plugin-no-result',
      `the IPAM plugin ${type} answered ADD with something that is no result`,
      {
        details: `${(cause as Error).message}\nstdout: ${printed(stdout)}`,
        cause,
      },
    )
  }
}

function toPodAddress(ip: { address: string; gateway?: string }): PodAddress {
  return ip.gateway === undefined ? { address: ip.address } : { address: ip.address, gateway: ip.gateway }
}

// The text of a resolv.conf, as the upstream host-local plugin reads it for `ipam.resolvConf`.

/**
 * The DNS settings in `text`; a key that does not occur is absent. One nameserver a line, the last
 * `domain` wins, `search` and `options` add up. Lines that start with `#` or `;`, lines with one
 * word and other keywords are passed over. Source: host-local's dns.go, resolv.conf(5).
 */
export function readResolvConf(text: string): Dns {
  const nameservers: string[] = []
  const search: string[] = []
  const options: string[] = []
  let domain: string | undefined
  for (const line of text.split('\n')) {
    const [keyword, ...values] = line.trim().split(/\s+/)
    const [first] = values
    if (keyword === undefined || first === undefined || /^[#;]/.test(keyword)) continue
    if (keyword === 'nameserver') nameservers.push(first)
    else if (keyword === 'domain') domain = first
    else if (keyword === 'search') search.push(...values)
    else if (keyword === 'options') options.push(...values)
  }
  return {
    ...(nameservers.length > 0 && { nameservers }),
    ...(domain !== undefined && { domain }),
    ...(search.length > 0 && { search }),
    ...(options.length > 0 && { options }),
  }
}
