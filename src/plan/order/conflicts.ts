// SPDX-License-Identifier: Apache-2.0
// What stands in the way of an ADD and is told to the runtime.

import { CniError } from '../../cni/error.ts'
import { mostBridgePorts } from '../../drivers/bridge.ts'
import { masterRefused } from '../../drivers/macvlan.ts'
import type { AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import type { AddFacts } from './facts.ts'
import type { Failure } from './stage.ts'

/**
 * Whether a pair could not be made because the pod, or the host, has a link of that name. Of a limited pod the ifb
 * stays on the host when its pair goes with the pod.
 */
export function isPairTaken({ op, reason }: Failure): boolean {
  return (op?.kind === 'veth.add' || op?.kind === 'ifb.add') && reason === 'exists'
}

/** The attachment that was being made. */
interface Whose extends Pick<AddFacts, 'key' | 'netns'> {
  readonly spec: AttachmentSpec
  readonly network: NetworkSpec
}

/**
 * What a failure means that no look and no repair changes: CniError 108, 7 or 4. The kernel tells that a bridge is
 * full: it counts the ports of others too, and at the moment of the call, where a count of ours would come too early.
 */
export function conflictOf({ op, reason, error }: Failure, whose: Whose): CniError | undefined {
  if (op?.kind === 'veth.add' && reason === 'full') return bridgeFull(whose.network, error)
  if (op?.kind === 'macvlan.add' && (reason === 'busy' || reason === 'invalid'))
    return masterRefused(whose.spec, reason === 'busy', error)
  return op?.kind === 'link.name' && reason === 'exists' ? interfaceExists(whose, error) : undefined
}

function bridgeFull({ bridge }: NetworkSpec, cause: Error): CniError {
  const name = bridge?.name ?? ''
  return new CniError('bridge-ports-full', `bridge ${name} is full: it has ${mostBridgePorts} ports`, {
    details:
      `Linux allows no more on one bridge; use a second network with another "bridge", or see what ` +
      `is plugged in: ip link show master ${name}`,
    cause,
  })
}

/** CniError 4. */
export function interfaceExists({ key, netns }: Pick<AddFacts, 'key' | 'netns'>, cause: Error): CniError {
  const { ifName } = key
  const details = cause instanceof CniError ? (cause.details ?? '') : ''
  // The kernel refuses to remove it.
  const removal = ifName === 'lo' ? '' : `, or remove it: nsenter --net=${netns} ip link del ${ifName}`
  return new CniError(
    'interface-name-taken',
    `CNI_IFNAME ${ifName}: an interface of that name is already in ${netns}`,
    { details: `choose another name${removal}\n${details}`, cause },
  )
}
