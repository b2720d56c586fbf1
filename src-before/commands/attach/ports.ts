// SPDX-License-Identifier: Apache-2.0
// The effects that the stories of an ADD need: interfaces without code. A call has them from attach-port.ts, `trestle
// plan` from its own recording (cli/plan/assume.ts).

import type { DeviceQuery } from '../../config/net-conf.ts'
import type { ChainedSurroundings } from '../../drivers/chained.ts'
import type { Device, GatewaySide } from '../../drivers/driver.ts'
import type { AttachmentSpec, Lease, NetworkSpec } from '../../model/attachment.ts'
import type { ObservedQueue } from '../../model/observed.ts'
import type { Known, NetworkFacts, Ranges } from '../../plan/order/facts.ts'
import type { RunPort } from '../call/beside.ts'

/**
 * A look at the host before a set-up. `unlessMade`: nothing is looked at where another call has set the network up.
 * `abandoned`: links that are to go. `spec`: of the call; its host ports may be a live pod's.
 */
export interface HostLook {
  readonly network: NetworkSpec
  readonly unlessMade: boolean
  readonly abandoned: readonly string[]
  readonly spec?: AttachmentSpec | undefined
}

/** Effects on the rules of all networks. All but `locked` expect the machine's lock. */
export interface RulesPort extends RunPort {
  /** Runs `body` under the machine's lock. Throws CniError 11 where the lock stays held. */
  readonly locked: <T>(because: string, body: () => Promise<T>) => Promise<T>
  readonly lookAtRules: (spec: AttachmentSpec | undefined) => Promise<NetworkFacts>
  readonly settleAllAccepts: () => Promise<void>
}

/** Effects on the shared parts of one network, under the machine's lock. */
export interface SharedPort extends RulesPort {
  readonly lookAtHost: (look: HostLook) => Promise<NetworkFacts>
  readonly lookAtVlans: () => Promise<ReadonlyMap<string, readonly number[]>>
  /** Puts the network's accepts into the chains of other firewalls. `all`: every network. */
  readonly settleAccepts: (accepting: NetworkSpec, all: readonly NetworkSpec[]) => Promise<void>
  readonly writeNetwork: (network: NetworkSpec) => void
}

interface RecordPort {
  readonly writeIntent: (spec: AttachmentSpec, network?: NetworkSpec) => void
  readonly finish: () => void
}

/** Effects of an ADD that reserves addresses. Each throws the CniError that the ADD fails with. */
export interface LeasePort extends RecordPort {
  /** Reserves addresses of the pool, or takes those of the configuration; none for a delegated plugin. */
  readonly reserveAddresses: (excluded: readonly string[]) => Promise<Lease>
}

export interface PodPort extends SharedPort, RecordPort {
  /** Resolves to the spec without the ports that another interface of the container has. */
  readonly reservePorts: (spec: AttachmentSpec) => Promise<AttachmentSpec>
  readonly lookAtKnown: () => Known
  /** All networks of the machine. To be called after the intent is written: a removal of one sees the intent. */
  readonly networks: () => readonly NetworkSpec[]
}

export interface InterfacePort extends PodPort, LeasePort {
  readonly lookAtDevice: (query: DeviceQuery) => Promise<Device>
  readonly lookAtRanges: (network: GatewaySide) => Promise<Ranges>
  /** Numbers of the pod's routing tables that are in use. */
  readonly lookAtTables: (families: readonly (4 | 6)[]) => Promise<ReadonlySet<number>>
  readonly delegate: (type: string) => Promise<Lease>
  /** A link of the pod's name on the host: its alias, and which of the pod's links are there. */
  readonly lookAtOrphanLink: (dev: string) => Promise<OrphanLink>
}

export interface ChainedPort extends PodPort {
  readonly lookAround: () => Promise<ChainedSurroundings>
  readonly lookAtQueue: (dev: string) => Promise<ObservedQueue | undefined>
}

export interface OrphanLink {
  readonly alias: string | undefined
  readonly links: readonly string[]
}
