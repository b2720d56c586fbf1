// SPDX-License-Identifier: Apache-2.0
// What an ADD knows. It only grows: what a stage learns is added to it, a later look of the same kind in place of the
// earlier one.

import type { NetConf } from '../../cni/model/net-conf.ts'
import type { PlacedPod } from '../ipam/range-overlap.ts'
import type { AttachmentKey, AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import type { Element } from '../model/elements.ts'
import type { Lease } from '../model/lease.ts'
import type { ObservedNamespace, ObservedQueue } from '../model/observed.ts'
import type { ChainedSurroundings } from '../modes/chained.ts'
import type { Master } from '../modes/driver.ts'
import type { FlowSelections } from '../recovery/orphan-flows.ts'
import type { Cluster } from '../rules/cluster-elements.ts'
import type { PlanRun } from './stage.ts'

/** What the network's ranges meet on the host. `abandoned`: links of bridges that make room for them. */
export interface Ranges {
  readonly excluded: readonly string[]
  readonly abandoned: readonly string[]
}

/** State of the network, and what files tell of what it shares. `forwarding`: the families that are forwarded. */
export interface Known {
  readonly network: NetworkSpec | undefined
  readonly hasBridge: boolean
  readonly forwarding: readonly (4 | 6)[]
}

/**
 * What everything shared is made from: networks and live attachments from state, links from the kernel. `host`: absent
 * where there is nothing to look at. `made`: networks as live attachments were made with them, newest first.
 */
export interface NetworkFacts {
  readonly isMade: boolean
  readonly before: NetworkSpec | undefined
  readonly networks: readonly NetworkSpec[]
  readonly made: readonly NetworkSpec[]
  readonly attachments: readonly AttachmentSpec[]
  /** Those of them whose link is there, and where. */
  readonly pods: readonly PlacedPod[]
  readonly host: ObservedNamespace | undefined
  readonly cluster: Cluster | undefined
  readonly links: ReadonlySet<string>
  readonly sysctls: ReadonlyMap<string, string | undefined>
}

/** What stages learn. */
export interface Learnt {
  readonly ranges?: Ranges
  /** Of our own pool or the configuration; none for a delegated plugin. */
  readonly lease?: Lease
  /** Of a delegated plugin. */
  readonly delegated?: Lease
  readonly usedTables?: ReadonlySet<number>
  readonly master?: Master
  readonly known?: Known
  /** All networks, after the intent was written. */
  readonly networks?: readonly NetworkSpec[]
  /** The names of those that are there once the rules are said. */
  readonly networksLeft?: ReadonlySet<string>
  readonly shared?: NetworkFacts
  readonly vlans?: ReadonlyMap<string, readonly number[]>
  /** A link of the pod's name on the host: its alias, and which of the pod's links are there. */
  readonly orphanLink?: { readonly alias: string | undefined; readonly links: readonly string[] }
  /** Flows that began before the rules. */
  readonly flows?: readonly FlowSelections[]
  /** Chained: what is around the interface, and what is on its host end already. */
  readonly seen?: ChainedSurroundings
  readonly othersQueue?: ObservedQueue
  /** Of a teardown: the links that are there, and the chains of port conditions that nobody else has. */
  readonly present?: { readonly links: ReadonlySet<string>; readonly unused: readonly string[] }
  /** Elements of an attachment that no record tells of. */
  readonly orphans?: readonly Element[]
}

/** An ADD under way. `mtu`: of the configuration, "auto" already chosen; `netns`: the path of CNI_NETNS. */
export interface AddFacts {
  readonly key: AttachmentKey
  readonly conf: NetConf
  readonly netns: string
  readonly mtu: number
  readonly machineId: string
  readonly learnt: Learnt
  readonly runs: readonly PlanRun[]
}

/** The facts after a plan was run. */
export function afterRun<Facts extends Pick<AddFacts, 'learnt' | 'runs'>>(facts: Facts, run: PlanRun): Facts {
  const learnt: Learnt = Object.assign({}, facts.learnt, ...run.outcomes.map((outcome) => outcome.learnt))
  return { ...facts, learnt, runs: [...facts.runs, run] }
}
