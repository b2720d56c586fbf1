// SPDX-License-Identifier: Apache-2.0
// enabledad: the wait for the answer of IPv6 duplicate address detection on the pod's interface.

import { setTimeout as sleep } from 'node:timers/promises'
import { CniError } from '../../cni/error.ts'
import { podNetns, readDocuments } from '../../tools/ip.ts'
import { nowMs } from '../process/clock.ts'
import type { Place } from './execute.ts'

/** As upstream (plugins/pkg/ipam/ipam_linux.go): five seconds, looked at every 50 ms. */
const settleMs = 5000
const pauseMs = 50

/** Waits until no address is tentative. Throws CniError 100 for a duplicate, or when it takes longer than 5 s. */
export async function waitForDad(place: Place, ifName: string): Promise<void> {
  const until = nowMs() + settleMs
  for (;;) {
    const addresses = await podAddresses(place, ifName)
    const failed = addresses.find((address) => address['dadfailed'] === true)
    if (failed) throw duplicate(ifName, String(failed['local']))
    if (!addresses.some((address) => address['tentative'] === true)) return
    if (nowMs() > until) throw tentative(ifName)
    await sleep(pauseMs)
  }
}

type Json = Readonly<Record<string, unknown>>

async function podAddresses({ run, netnsFd }: Place, ifName: string): Promise<readonly Json[]> {
  const args = [`--net=${podNetns}`, '--', 'ip', '-6', '-j', 'addr', 'show', 'dev', ifName]
  const output = await run({ file: 'nsenter', args, ...(netnsFd !== undefined && { netnsFd }) })
  return readDocuments(output.stdout).flatMap((link) => (link['addr_info'] ?? []) as Json[])
}

function duplicate(ifName: string, address: string): CniError {
  return new CniError('duplicate-address', `${address} on ${ifName} is in use by another machine`, {
    details:
      `duplicate address detection failed; give the other one up, ` +
      `or take the address out of the range${macHint(address)}`,
  })
}

/**
 * A pod that got the same first address got the same MAC (model/names.ts), and its link-local address comes first.
 */
function macHint(address: string): string {
  return address.startsWith('fe80:') ? "\nthe MAC is in use too: it follows the pod's first address" : ''
}

function tentative(ifName: string): CniError {
  return new CniError('address-tentative', `${ifName} still has tentative addresses after ${settleMs} ms`, {
    details: 'duplicate address detection did not end; is the bridge up? Without "enabledad" it is not waited for',
  })
}
