// SPDX-License-Identifier: Apache-2.0
// What is known of one pod on this node, in texts for people: `trestle doctor --pod`.

/** A sandbox that a runtime lists. */
export interface PodSandbox {
  readonly id: string
  /** NAMESPACE/NAME, as kubelet has it. */
  readonly pod: string
  readonly isReady: boolean
}

/** One interface of the pod. Lists are empty where nothing is known of it, or there is nothing. */
export interface PodAttachment {
  readonly containerId: string
  readonly network: string
  readonly ifName: string
  /** Who remembers it: a record of trestle, or libcni's cache (then another plugin may have made it). */
  readonly source: 'record' | 'libcni'
  readonly pod?: string
  /** ISO 8601. */
  readonly createdAt?: string
  /** The path of its namespace, and whether it is there. */
  readonly netns: string
  readonly links: readonly string[]
  readonly addresses: readonly string[]
  readonly routes: readonly string[]
  readonly hostPorts: readonly string[]
  /** Elements of trestle's sets that are the pod's own. */
  readonly rules: readonly string[]
  /** What the kernel does not have as it was made. */
  readonly differences: readonly string[]
  readonly pendingCleanup: readonly string[]
}

/** `asked`: NAMESPACE/NAME or the beginning of a container id. `names`: by which findings and logs name the pod. */
export interface PodFacts {
  readonly asked: string
  readonly sandboxes: readonly PodSandbox[]
  readonly attachments: readonly PodAttachment[]
  readonly names: readonly string[]
}
