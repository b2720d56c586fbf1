// SPDX-License-Identifier: Apache-2.0
// ADD after another plugin of the list: the interface of prevResult is looked at and everything is decided before
// anything is changed.

import type { Result } from '../../cni/result.ts'
import type { ChainedNetConf } from '../../config/net-conf.ts'
import { chainedResult, chainedSpec } from '../../drivers/chained.ts'
import {
  type ChainedFacts,
  changePlan,
  needsSetUp,
  networkOfChain,
  refuseForeignQueue,
} from '../../plan/order/chained.ts'
import type { Begun } from '../../plan/order/facts.ts'
import { warnsOf } from '../../plan/order/interface.ts'
import { areRulesMissing, unrepairable } from '../../plan/order/stages.ts'
import type { ChainedPort } from './ports.ts'
import { rebuildRules, runLast, setUpShared } from './set-up.ts'

/** Adds everything that the configuration asks for to the interface. Throws CniError as the port, and what fails. */
export async function addChained(
  port: ChainedPort,
  { prevResult, ...begun }: Begun<ChainedNetConf> & { readonly prevResult: Result },
): Promise<Result> {
  const facts: ChainedFacts = { ...begun, prevResult, seen: await port.lookAround() }
  const asked = chainedSpec(facts)
  if (asked.bandwidth !== undefined) refuseForeignQueue(asked, await port.lookAtQueue(asked.bandwidth.link))
  const spec = asked.hostPorts === undefined ? asked : await port.reservePorts(asked)
  const { network: known } = port.lookAtKnown()
  const network = networkOfChain(facts, spec, known)
  port.writeIntent(spec, network)
  const networks = port.networks()
  const isToBeSetUp = needsSetUp(network, known)
  const warns = warnsOf(begun.conf)
  const { plan, rules } = changePlan({ spec, networks: isToBeSetUp ? undefined : networks, warns })
  const run = await port.run(plan)
  const failed = unrepairable(run, rules)
  if (failed !== undefined) throw failed.error
  if (isToBeSetUp) {
    const setting = { network, subnetSource: 'leases', own: () => [], mayOverlap: true } as const
    const end = await setUpShared(port, setting, { unlessMade: false, machineId: begun.machineId })
    if (end.at === 'failed') throw end.failed.error
  } else if (areRulesMissing(run, rules, networks)) await rebuildRules(port, spec)
  await runLast(port, run, { spec, warns })
  port.finish()
  return chainedResult(prevResult, spec)
}
