// SPDX-License-Identifier: Apache-2.0
// The plan of an ADD after another plugin of the list, and its decisions. No interface is made, the features act on the
// interface in prevResult. commands/attach/chained.ts has the order.

import { CniError } from '../../cni/error.ts'
import type { Result } from '../../cni/result.ts'
import type { ChainedNetConf } from '../../config/net-conf.ts'
import { type ChainedSurroundings, chainedNetwork } from '../../drivers/chained.ts'
import { sharesRules } from '../../drivers/network.ts'
import { mergeNetworks } from '../../drivers/specs.ts'
import { type AttachmentSpec, isSameNetwork, type NetworkSpec } from '../../model/attachment.ts'
import type { ObservedQueue } from '../../model/observed.ts'
import type { Begun } from './facts.ts'
import { type Plan, planOf } from './stage.ts'
import { chainedStages, lastStages, type RuleStages, ruleStages } from './stages.ts'

/** An ADD after another plugin. `seen`: the surroundings of the interface. */
export interface ChainedFacts extends Begun<ChainedNetConf> {
  readonly prevResult: Result
  readonly seen: ChainedSurroundings
}

/** The shared part of the network's chained attachments, with what state has of it. */
export function networkOfChain(
  { conf, seen }: ChainedFacts,
  spec: AttachmentSpec,
  known: NetworkSpec | undefined,
): NetworkSpec {
  return mergeNetworks(known, chainedNetwork(conf, spec, seen), 'leases')
}

/** Throws CniError 7 for a limit of somebody else: it would be lost, and its removal would be ours to answer for. */
export function refuseForeignQueue({ bandwidth }: AttachmentSpec, queue: ObservedQueue | undefined): void {
  const found = queue?.root ?? (queue?.hasIngress && bandwidth?.egress ? 'ingress' : undefined)
  if (bandwidth === undefined || found === undefined) return
  throw new CniError('bandwidth-set-already', `bandwidth: ${bandwidth.link} has a qdisc already (${found})`, {
    details:
      'another plugin of the list limits this link, or an agent does; let one of them do it: tc qdisc show dev ' +
      `${bandwidth.link}`,
  })
}

/** Whether the network shares something that is not there as it is to be. */
export function needsSetUp(network: NetworkSpec, known: NetworkSpec | undefined): boolean {
  const isNothing = known === undefined && !sharesRules(network)
  return !isNothing && !isSameNetwork(known, network)
}

/** A chained attachment to be changed. `networks`: all of the machine; undefined where a set-up says the rules. */
interface Change {
  readonly spec: AttachmentSpec
  readonly networks: readonly NetworkSpec[] | undefined
  readonly warns: boolean
}

export function changePlan({ spec, networks, warns }: Change): { readonly plan: Plan; readonly rules: RuleStages } {
  const rules = networks === undefined ? { said: [], all: [] } : ruleStages(spec, networks)
  const changes = [...chainedStages(spec), ...rules.all]
  const ids = changes.map(({ id }) => id)
  const last = networks === undefined ? [] : lastStages(spec, ids, warns)
  return { plan: planOf({ id: 'usual', because: 'everything is decided', stages: [...changes, ...last] }), rules }
}
