// SPDX-License-Identifier: Apache-2.0
// Addresses asked for by name, and what to say when an address cannot be had. Wording: upstream
// host-local plugin's.

import { formatAddress, parseAddress } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { Range } from '../../config/net-conf.ts'
import { type Candidate, capacity, describeSet, rangeOf } from './allocate.ts'

/** A range set by its place in the configuration, which the messages name. */
export interface NumberedSet {
  readonly index: number
  readonly ranges: readonly Range[]
}

function readRequested(text: string): string {
  const slash = text.indexOf('/')
  const address = parseAddress(slash < 0 ? text : text.slice(0, slash))
  if (address !== undefined) return formatAddress(address)
  throw new CniError('requested-address-invalid', `requested address: invalid IP address ${text}`, {
    details: 'CNI_ARGS IP, args.cni.ips and runtimeConfig.ips take addresses; a prefix length is ignored.',
  })
}

function refuseGateway(set: NumberedSet, address: string): CniError {
  const message = `failed to allocate for range ${set.index}: requested ip ${address} is subnet's gateway`
  return new CniError('requested-gateway', message, { details: 'Ask for another address, or for none.' })
}

function refuseLeft(left: readonly string[], sets: readonly (readonly Range[])[]): CniError {
  const details = left.map((address) => {
    const index = sets.findIndex((set) => rangeOf(set, address) !== undefined)
    if (index < 0) return `${address} not in range set ${sets.map(describeSet).join(' or ')}.`
    return `${address}: range set ${index} gives one address to a pod, and another of it was asked for.`
  })
  const message = `failed to allocate all requested IPs: ${left.join(' ')}`
  return new CniError('requested-outside-ranges', message, { details: details.join('\n') })
}

/**
 * The requested address of each range set, undefined where none was asked for. A set takes the first
 * that is in its ranges; the same address twice counts once; a `/prefix` is ignored. `exclude` does
 * not bind a request: it keeps addresses free to be asked for. Throws CniError addressUnavailable for
 * a gateway, an address in no set and a second one in a set, invalidConfig for text that is no
 * address. Source: host-local's main.go and allocator.go.
 */
export function chooseRequested(
  sets: readonly (readonly Range[])[],
  requested: readonly string[],
): readonly (Candidate | undefined)[] {
  const left = new Set(requested.map(readRequested))
  const chosen = sets.map((ranges, index) => {
    for (const address of left) {
      const range = rangeOf(ranges, address)
      if (range === undefined) continue
      if (ranges.some(({ gateway }) => gateway === address)) throw refuseGateway({ index, ranges }, address)
      left.delete(address)
      return { address, range }
    }
    return undefined
  })
  if (left.size > 0) throw refuseLeft([...left], sets)
  return chosen
}

/** The error for a requested address that another attachment holds; `holder` says which. */
export function requestTaken(set: NumberedSet, address: string, holder?: string): CniError {
  const what = `requested IP address ${address} is not available in range set ${describeSet(set.ranges)}`
  const details = holder === undefined ? 'its file in the state directory says who has it.' : `It is held by ${holder}.`
  return new CniError('requested-taken', `failed to allocate for range ${set.index}: ${what}`, { details })
}

/** The error for an address of the configuration or of another plugin that `holder` has. */
export function addressTaken(address: string, holder: string): CniError {
  return new CniError('requested-taken', `IP address ${address} is not available`, {
    details: `It is held by ${holder}. Use another address, or set "allowOverlap": true.`,
  })
}

/**
 * How full a set is. `directory`: of the network's reservations; `used`: its usable addresses that are given out;
 * `theirs`: how many host-local reserved, and where.
 */
export interface PoolUse {
  readonly directory: string
  readonly used: number
  readonly exclude: readonly string[]
  readonly theirs: { readonly count: number; readonly directory: string }
}

/** The error for a set with no address left. */
export function exhausted(set: NumberedSet, use: PoolUse): CniError {
  const total = capacity(set.ranges, use.exclude)
  const what = `no IP addresses available in range set: ${describeSet(set.ranges)}`
  const message = `failed to allocate for range ${set.index}: ${what} (${use.used} of ${total} used)`
  return new CniError('pool-exhausted', message, {
    details:
      `${use.directory} says who has each address; \`trestle gc\` frees those of pods that are gone. ` +
      fromBefore(use.theirs) +
      'If all are in use, the network needs a larger subnet or another range in this set.',
  })
}

/** Nobody but its DEL, a restart or adopt ends a reservation of the upstream plugin. */
function fromBefore({ count, directory }: PoolUse['theirs']): string {
  if (count === 0) return ''
  return (
    `${count} were reserved by host-local, in ${directory}; \`trestle adopt --apply\` ` +
    `frees those of pods that are gone. `
  )
}
