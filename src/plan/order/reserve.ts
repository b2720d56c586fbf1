// SPDX-License-Identifier: Apache-2.0
// The beginning of an ADD: what is reserved and written down before anything is made, so that a later call can settle
// a killed one from its record alone.

import { familyOf } from '../../cni/model/address.ts'
import type { NetworkSpec } from '../model/attachment.ts'
import { interfaceConf, masterOf } from '../modes/drivers.ts'
import { isUsual, specOf, wantedNetwork } from './decided.ts'
import type { AddFacts } from './facts.ts'
import { type Plan, planOf, type Stage } from './stage.ts'

/**
 * Addresses, from ranges that were looked at where they are new, and the link that the interface is put on, where there
 * is one. In the role of IPAM they are on somebody else's interface.
 */
export function reserve({ key, conf }: AddFacts): Plan {
  const looks: readonly Stage[] = [
    ...(masterOf(conf) ? [{ id: 'master', run: { kind: 'look', what: 'master' }, after: [] } as const] : []),
    ...(conf.ipam.kind === 'pool' && key.role !== 'ipam'
      ? [{ id: 'ranges', run: { kind: 'look', what: 'ranges' }, after: [] } as const]
      : []),
  ]
  return {
    id: 'reserve',
    because: 'whose the addresses are is written down before they are used',
    stages: inTurn([...looks, { id: 'lease', run: { kind: 'state', what: 'addresses' }, after: [] }]),
  }
}

/** sbr takes tables that are free: the one thing of the pod that is looked at beforehand. */
export function lookAtTables({ conf, learnt }: AddFacts): Plan | undefined {
  const { sbr } = interfaceConf(conf)
  if (sbr === undefined || sbr.table !== undefined) return undefined
  const isV4Only = conf.ipam.kind !== 'delegated' && !learnt.lease?.ips.some(({ address }) => familyOf(address) === 6)
  const families = isV4Only ? ([4] as const) : ([4, 6] as const)
  return {
    id: 'look at routing tables',
    because: 'sbr takes routing tables that are free',
    stages: [{ id: 'tables', run: { kind: 'look', what: 'routing tables', families }, after: [] }],
  }
}

/** Host ports, and what is known of the network. `made`: the network of an interface that is there already. */
export function lookAtNetwork(facts: AddFacts, made: NetworkSpec): Plan {
  const spec = specOf(facts)
  const ports: Stage[] = [{ id: 'ports', run: { kind: 'state', what: 'ports', spec }, after: [] }]
  // A teardown gives back the ports that the record has: they are in it before they are reserved.
  const intent: Stage[] =
    facts.learnt.delegated === undefined
      ? []
      : [{ id: 'intent', run: { kind: 'state', what: 'intent', spec, network: made }, after: [] }]
  const reserving = spec.hostPorts === undefined ? [] : [...intent, ...ports]
  return {
    id: 'look at the network',
    because: 'files tell whether it is set up',
    stages: inTurn([...reserving, { id: 'known', run: { kind: 'look', what: 'known' }, after: [] }]),
  }
}

/**
 * The whole intent. Of a network that is to be set up the ranges are known by now, also where a plugin gave the
 * addresses.
 */
export function writeDown(facts: AddFacts): Plan {
  const network = wantedNetwork(facts)
  const looks: Stage[] =
    isUsual(facts) || facts.conf.ipam.kind === 'pool'
      ? []
      : [{ id: 'ranges', run: { kind: 'look', what: 'ranges of addresses', network }, after: [] }]
  return planOf({
    id: 'write down',
    because: 'a later call can undo what is written down',
    stages: inTurn([
      ...looks,
      { id: 'intent', run: { kind: 'state', what: 'intent', spec: specOf(facts), network }, after: [] },
      { id: 'networks', run: { kind: 'look', what: 'networks' }, after: [] },
    ]),
  })
}

/** Stages that follow each other. */
export function inTurn(stages: readonly Stage[]): readonly Stage[] {
  return stages.map((stage, at) => ({ ...stage, after: stages.slice(Math.max(0, at - 1), at).map(({ id }) => id) }))
}
