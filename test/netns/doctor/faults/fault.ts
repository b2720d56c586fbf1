// SPDX-License-Identifier: Apache-2.0
// A state of a node that keeps pods from their network: how it is made, where users met it, and what trestle says of it.

/** Which node a fault is on: keys of the plugin that its two pods have. */
export const nodeKinds = {
  bridge: {},
  routed: { mode: 'ptp' },
  small: { podcidr: '10.240.0.0/29' },
  accepting: { firewall: {} },
  isolated: { firewall: { ingressPolicy: 'isolated' } },
} as const

export type NodeKind = keyof typeof nodeKinds

export interface Fault {
  readonly what: string
  /** The thread, page or manual where it is met. */
  readonly source: string
  readonly on?: NodeKind
  /**
   * Lines for a shell of the node. VETH: the first pod's end; NS: its namespace, POD: its file; ID: its container id; `add X`, `del X`: a pod X, NODE-X;
   * CONF, BIN: the directories of configurations and plugins; SCRATCH: an empty directory; the variable of the state directory (state-layout.ts).
   */
  readonly make: string
  /** The ids of doctor and of lint above a note: these, and no others. */
  readonly doctor: readonly string[]
  readonly lint?: readonly string[]
  /** What is in `seen` or `on` of doctor's first finding. */
  readonly names?: string | RegExp
  /** What prints an error in that state, for explain: CHECK of the first pod, ADD of a new one, or lines for a shell. */
  readonly says?: 'CHECK' | 'ADD' | string
  /** The ids that explain finds in it. */
  readonly explain?: readonly string[]
  /** Where doctor prints no command: the lines that follow from its words. The printed one is run as it stands. */
  readonly cure?: string
  /** What is tidied up that is no part of the cure. */
  readonly tidy?: string
  /** The cure makes the first pod anew. */
  readonly isAnew?: true
}
