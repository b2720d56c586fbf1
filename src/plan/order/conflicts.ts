// SPDX-License-Identifier: Apache-2.0
// What stands in the way of an ADD and is told to the runtime.

import { CniError } from '../../cni/model/error.ts'
import type { NetworkSpec } from '../model/attachment.ts'
import { mostBridgePorts } from '../modes/network.ts'
import type { AddFacts } from './facts.ts'
import type { Failure } from './stage.ts'

/** Whether a pair could not be made because the pod, or the host, has a link of that name. */
export function isNameTaken({ op, reason }: Failure): boolean {
  return op?.kind === 'veth.add' && reason === 'exists'
}

/**
 * The kernel tells: it counts the ports of others too, and at the moment of the call, where a count of ours before
 * every ADD would cost time and still come too early.
 */
export function isBridgeFull({ op, reason }: Failure): boolean {
  return op?.kind === 'veth.add' && reason === 'full'
}

/** CniError 108. */
export function bridgeFull({ bridge }: NetworkSpec, cause: Error): CniError {
  const name = bridge?.name ?? ''
  return new CniError('bridge-ports-full', `bridge ${name} is full: it has ${mostBridgePorts} ports`, {
    details: `Linux allows no more on one bridge; use a second network with another "bridge", or see what is plugged in: ip link show master ${name}`,
    cause,
  })
}

/** CniError 4. */
export function interfaceExists({ key, netns }: Pick<AddFacts, 'key' | 'netns'>, cause: Error): CniError {
  const { ifName } = key
  const details = cause instanceof CniError ? (cause.details ?? '') : ''
  return new CniError(
    'interface-name-taken',
    `CNI_IFNAME ${ifName}: an interface of that name is already in ${netns}`,
    { details: `choose another name, or remove it: nsenter --net=${netns} ip link del ${ifName}\n${details}`, cause },
  )
}
