// SPDX-License-Identifier: Apache-2.0
// The order of an ADD after another plugin of the list: no interface is made, the features act on the one in
// prevResult. It is looked at first and everything is decided; only then is anything changed.

import { isDeepStrictEqual } from 'node:util'
import { CniError } from '../../cni/model/error.ts'
import type { AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import { mergeNetworks } from '../modes/build-spec.ts'
import { chainedConf, chainedNetwork, chainedResult, chainedSpec } from '../modes/chained.ts'
import { sharesRules } from '../modes/network-rules.ts'
import { acceptedOf } from '../rules/host-accept.ts'
import type { AddFacts } from './facts.ts'
import { finish, missingFlows, missingLast, warnsOf } from './last.ts'
import { areRulesMissing, ran } from './progress.ts'
import { inTurn } from './reserve.ts'
import { isOvertaken, lookAtHost, lookAtRules, rebuiltRules, setUp } from './set-up.ts'
import { failureIn, type Plan, planOf, type Stage, type Step } from './stage.ts'
import { chainedStages, lastStages, ruleStages } from './stages.ts'

/** What comes next. Throws CniError as plan/modes/chained-spec.ts says. */
export function nextOfChained(facts: AddFacts): Step {
  const last = facts.runs.at(-1)
  if (last === undefined) return lookAround
  const failed = failureIn(last)
  if (last.plan.id === 'usual') {
    const error = last.outcomes.find(({ id, failed: each }) => each && !(id.startsWith('rules') && each.reason))
    return error?.failed?.error ?? rest(facts)
  }
  if (failed !== undefined)
    return isOvertaken(facts, last, failed) ? lookAtHost(networkOfChain(facts), {}) : failed.error
  switch (last.plan.id) {
    case 'look around':
      return lookAtQueue(specOf(facts)) ?? reservePorts(specOf(facts))
    case 'look at the limits':
      return foreignQueue(facts) ?? reservePorts(specOf(facts))
    case 'look at the network':
      return writeDown(facts)
    case 'write down':
      return change(facts)
    case 'look at the host':
    case 'look at VLANs':
      return setUp(facts, { network: networkOfChain(facts), namesSubnets: false, own: [], mayOverlap: true })
    case 'look at the rules':
      return rebuiltRules(facts)
    default:
      return rest(facts)
  }
}

/** Pod and host side by side: a process each, and one more for IPv6 rules where sbr is set. */
const lookAround: Plan = {
  id: 'look around',
  because: 'another plugin has made the interface',
  stages: [{ id: 'around', run: { kind: 'look', what: 'chained' }, after: [] }],
}

function specOf({ key, conf, learnt }: AddFacts): AttachmentSpec {
  const { prevResult } = chainedConf(conf)
  if (prevResult === undefined || learnt.seen === undefined) throw new Error('a chained interface was not looked at')
  return chainedSpec({ key, conf: chainedConf(conf), prevResult, seen: learnt.seen })
}

/** What the network's chained attachments share, with what was learnt of it before. */
export function networkOfChain(facts: AddFacts): NetworkSpec {
  const { conf, learnt } = facts
  const host = learnt.seen?.host ?? { links: new Map(), routes: new Map() }
  return mergeNetworks(learnt.known?.network, chainedNetwork(chainedConf(conf), specOf(facts), host), false)
}

/** A limit that somebody else has set there would be lost, and its removal would be ours to answer for. */
function lookAtQueue({ bandwidth }: AttachmentSpec): Plan | undefined {
  if (bandwidth === undefined) return undefined
  return {
    id: 'look at the limits',
    because: `somebody else may limit ${bandwidth.link}`,
    stages: [{ id: 'queue', run: { kind: 'look', what: 'queues', dev: bandwidth.link }, after: [] }],
  }
}

function foreignQueue(facts: AddFacts): CniError | undefined {
  const { bandwidth } = specOf(facts)
  const { othersQueue } = facts.learnt
  const found = othersQueue?.root ?? (othersQueue?.hasIngress && bandwidth?.egress ? 'ingress' : undefined)
  if (bandwidth === undefined || found === undefined) return undefined
  return new CniError('bandwidth-set-already', `bandwidth: ${bandwidth.link} has a qdisc already (${found})`, {
    details:
      'another plugin of the list limits this link, or an agent does; let one of them do it: tc qdisc show dev ' +
      `${bandwidth.link}`,
  })
}

function reservePorts(spec: AttachmentSpec): Plan {
  const ports: Stage[] =
    spec.hostPorts === undefined ? [] : [{ id: 'ports', run: { kind: 'state', what: 'ports', spec }, after: [] }]
  return {
    id: 'look at the network',
    because: 'files tell whether it is set up',
    stages: inTurn([...ports, { id: 'known', run: { kind: 'look', what: 'known' }, after: [] }]),
  }
}

function writeDown(facts: AddFacts): Plan {
  const spec = specOf(facts)
  return {
    id: 'write down',
    because: 'a later call can undo what is written down',
    stages: inTurn([
      { id: 'intent', run: { kind: 'state', what: 'intent', spec, network: networkOfChain(facts) }, after: [] },
      { id: 'networks', run: { kind: 'look', what: 'networks' }, after: [] },
    ]),
  }
}

/** Pod, host and rules side by side. What the network shares is set up afterwards, where it is not yet. */
function change(facts: AddFacts): Plan {
  const spec = specOf(facts)
  const isUsual = !needsSetUp(facts)
  const rules = isUsual ? ruleStages(spec, facts.learnt.networks ?? []) : []
  const changes = [...chainedStages(spec), ...rules]
  const last = isUsual
    ? lastStages(
        spec,
        changes.map(({ id }) => id),
        warnsOf(facts),
      )
    : []
  return planOf({ id: 'usual', because: 'everything is decided', stages: [...changes, ...last] })
}

/** Whether the network shares something that is not there as it is to be. */
function needsSetUp(facts: AddFacts): boolean {
  const { network: known } = facts.learnt.known ?? {}
  const network = networkOfChain(facts)
  const isNothing = known === undefined && !sharesRules(network) && acceptedOf(network).length === 0
  return !isNothing && !isDeepStrictEqual(known, network)
}

function rest(facts: AddFacts): Step {
  if (needsSetUp(facts) && ran(facts, 'set up') === undefined) return lookAtHost(networkOfChain(facts), {})
  if (areRulesMissing(facts)) return lookAtRules(specOf(facts))
  const spec = specOf(facts)
  const missing = missingLast(facts, spec) ?? missingFlows(facts)
  if (missing !== undefined) return missing
  if (ran(facts, 'finish') === undefined) return finish
  const { prevResult } = chainedConf(facts.conf)
  return prevResult === undefined ? new Error('no prevResult') : { result: chainedResult(prevResult, spec) }
}
