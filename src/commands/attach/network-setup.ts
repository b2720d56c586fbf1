// SPDX-License-Identifier: Apache-2.0
// Sets up what attachments share where no ADD does it: for pods that are taken over, and for the agent.

import type { NetworkSpec } from '../../plan/model/attachment.ts'
import { nextOfRules, nextOfSetUp } from '../../plan/order/set-up.ts'
import type { OtherRun } from '../../plan/order/stage.ts'
import type { NetworkFiles } from '../../system/files/state.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { carryOut } from '../call/carry-out.ts'
import type { CallContext } from '../call/context.ts'
import { networkDoor } from './network-door.ts'

/**
 * Makes the network's bridge, forwarding and rules be as wanted, whatever is there. Returns the network as it is: an
 * existing bridge keeps its MAC and MTU. Throws CniError 108 when the bridge has an address of another network, 110
 * when a network in the way of its ranges is there.
 */
export async function setUpNetwork(
  context: CallContext,
  { files, network }: { readonly files: NetworkFiles; readonly network: NetworkSpec },
): Promise<NetworkSpec> {
  const setting = { network, namesSubnets: false, own: [], mayOverlap: false }
  return await carryOut(context, { ...networkPart(context, files), next: nextOfSetUp }, { ...nothingYet(), setting })
}

/** Builds all rules of all networks anew after a flush, or after an overlap of networks. */
export async function repairRules(context: CallContext): Promise<void> {
  await carryOut(context, { ...networkPart(context, undefined), next: nextOfRules }, nothingYet())
}

function nothingYet() {
  return { machineId: machineId(), learnt: {}, runs: [] }
}

function networkPart(context: CallContext, files: NetworkFiles | undefined) {
  const place = { run: context.run }
  const door = async (run: OtherRun) => {
    const learnt = await networkDoor(context, files, place, run)
    if (learnt === 'other') throw new Error(`what is shared has nothing to do with ${run.kind}`)
    return learnt
  }
  return { place, door }
}
