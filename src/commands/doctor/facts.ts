// SPDX-License-Identifier: Apache-2.0
// Facts about a node as data: doctor's other files gather them, the files judge*.ts turn them into findings.

import type { ErrorId } from '../../../src-before/cni/error-code.ts'
import type { Judged } from '../../../src-before/core.ts'
import type { ChainPlace, ForeignAct } from '../../../src-before/features/accept-place.ts'
import type { AttachmentRecord } from '../../../src-before/model/record.ts'
import type { Problem } from '../../agent/cluster.ts'
import type { Finding } from '../findings.ts'
import type { Prediction } from '../lint/predict.ts'
import type { Step } from '../probe/pods.ts'
import type { PodSandbox } from '../runtimes/runtime-list.ts'
import type { RuleMatches } from './rule-matches.ts'

export const groups = [
  ...(['host', 'kernel', 'runtime', 'configuration', 'agents', 'network'] as const),
  ...(['addresses', 'ports', 'firewall', 'limits', 'log', 'probe'] as const),
] as const

export type Group = (typeof groups)[number]

/** A pod network of this node, from state or from the used configuration. */
export interface PodNetwork {
  readonly name: string
  /** CIDRs; empty if another plugin chooses addresses that are not known here. */
  readonly subnets: readonly string[]
  /** Links of the node that the pods' packets pass: bridges with their gateway links, or the host ends of routed pods. */
  readonly links: readonly string[]
  readonly bridges: readonly string[]
  /** A firewall key of trestle's, or the plugin `firewall`, puts accept rules into chains that drop. */
  readonly accepts: boolean
  /** The bridge or a pod exists: anything that an ADD sets up and that is absent is missing. */
  readonly isSetUp: boolean
  /** An existing bridge whose addresses are of another network: the next ADD fails. */
  readonly otherBridge?: { readonly name: string; readonly addresses: readonly string[]; readonly hasPorts: boolean }
}

/** The source of directories that nobody named. */
export const unnamedSource = 'default'

export interface RuntimeFacts {
  readonly name: string
  /** The name with its process or socket. */
  readonly text: string
  readonly socket?: string
  readonly confDir: string
  readonly binDirs: readonly string[]
  /** The file, flag or answer that names the directories. */
  readonly source: string
  readonly silent?: string
  /** The runtime's own words about a network that is not ready. */
  readonly notReady?: string
}

export interface PluginFacts {
  readonly type: string
  readonly ipamType?: string
  readonly conf: Readonly<Record<string, unknown>>
  readonly isOwn: boolean
}

/** A directory of configurations as its runtime sees it. */
export interface ConfigurationFacts {
  readonly runtime: RuntimeFacts
  readonly findings: readonly Finding[]
  readonly prediction?: Prediction
  readonly file?: string
  readonly network?: string
  readonly plugins: readonly PluginFacts[]
  /** By libcni's cache, live pods are in the network of the used file. */
  readonly hasPods?: true
  /** Valid files: the network of each, and whether trestle is in the list. */
  readonly files: readonly { readonly file: string; readonly network: string; readonly isOwn: boolean }[]
}

/** `key`: as the file has it. */
export interface KeptSetting {
  readonly key: string
  readonly value: string
  readonly file: string
}

/** Kernel settings that pods need. `settings`: sysctls by key, `net/…`; undefined: the key does not exist. */
export interface KernelFacts {
  readonly settings: ReadonlyMap<string, string | undefined>
  /** Interfaces with a default route, and the interface by which an answer to a distant sender leaves. */
  readonly uplinks: readonly { readonly dev: string; readonly address: string; readonly backBy: string }[]
  /** Interfaces with an IPv6 default route. */
  readonly uplinks6: readonly string[]
  /** The link by which packets for each pod leave the node. */
  readonly podRoutes: readonly PodRouteFacts[]
  /** Policy rules that refuse packets of pods. */
  readonly refusals: readonly RefusalFacts[]
  /** Values that sysctl.d sets at the next start, and the last file that sets each. */
  readonly kept: ReadonlyMap<string, KeptSetting>
  readonly hasKubeProxy: boolean
}

/**
 * A policy rule that refuses packets of a network's pods, by the kernel's own answer. `rule`: its selector and action.
 */
interface RefusalFacts {
  readonly network: string
  readonly family: 4 | 6
  readonly rule: string
  /** The question to the kernel, in words. */
  readonly asked: string
}

export interface PodRouteFacts {
  readonly pod: string
  readonly address: string
  /** The bridge, or the pod's host link. */
  readonly expected: string
  /** Undefined: no route exists, or the route refuses. */
  readonly leavesBy: string | undefined
  /** Arguments of `ip` that delete a wrong route of this single address. */
  readonly route?: string
}

/** A failed statement about the kernel. `kind`: of the operation; `dev`: its link; `master`: that of a port. */
export interface Difference {
  readonly kind: string
  readonly dev: string
  readonly master?: string
  readonly found: readonly string[]
}

/** A pod in words, and its sandbox if kubelet made the pod: then the runtime can replace the sandbox. */
export interface PodName {
  readonly pod: string
  readonly sandbox?: string
}

export interface StateFacts {
  readonly differences: readonly Difference[]
  readonly accepts: readonly string[]
  /** Records that were lost under live pods. */
  readonly lacks: readonly string[]
  /** Pods whose record was found again, without their namespace. */
  readonly partial: readonly string[]
  readonly lost: readonly PodName[]
  /** `isTaken`: what differs is what a sandbox with a network stack of its own takes from the pod's end. */
  readonly pods: readonly (PodName & { readonly found: readonly string[]; readonly isTaken: boolean })[]
  /** Reasons for pods that could not be entered, each reason once, with the number of its pods. */
  readonly podsNotSeen: readonly string[]
  readonly pendingCleanups: readonly AttachmentRecord[]
  /** What `trestle gc` would remove or report. */
  readonly garbage: readonly Judged[]
  readonly damaged: readonly string[]
  readonly ports: readonly { readonly port: string; readonly listener: string; readonly pod: string }[]
  readonly mtus: readonly { readonly pod: string; readonly mtu: number }[]
  readonly uplinkMtu?: number
  /** The number of trestle's pods in each network. */
  readonly podsOf: ReadonlyMap<string, number>
  /** The same without those that a person or nerdctl made. */
  readonly podsOfKubelet: ReadonlyMap<string, number>
}

/** A set of ranges of host-local, and the number of reserved addresses. */
export interface PoolFacts {
  readonly network: string
  readonly ranges: string
  readonly taken: number
  readonly total: bigint
  /** Reservations of containers that no runtime lists, older than five minutes; none if no runtime answered. */
  readonly leaked: readonly string[]
  readonly isAnyListed: boolean
  readonly directory: string
}

/** STATUS's reason to refuse the used configuration. */
export interface ReadinessFacts {
  readonly network: string
  readonly id: ErrorId
  readonly message: string
  readonly details: string
}

/** `before`: the id of the rule that drops the rest; absent: the policy does. `isUnmarked`: trestle's mark comes later. */
export interface TailPlace {
  readonly chain: string
  readonly before?: string
  readonly isUnmarked?: true
}

/** A base chain of another firewall with all rules that packets can reach from it. */
export interface FirewallFacts {
  /** The hook: before routing, towards the node, through the node, or behind routing. */
  readonly hook: 'prerouting' | 'input' | 'forward' | 'postrouting'
  readonly base: ChainPlace
  /** The chain drops unmatched packets: the place of an accept that comes last before that. */
  readonly tail?: TailPlace
  /** In the order of evaluation; a jump is replaced by the rules of its chain. */
  readonly rules: readonly {
    readonly chain: string
    readonly id: string
    readonly act: ForeignAct
    readonly isOurs: boolean
    /** In the prerouting and input hooks, rules that lead to the chain count too. */
    readonly isUnconditional: boolean
    readonly text: string
    /** The conditional jump to the chain of a rule that itself matches every packet. */
    readonly jump?: string
    readonly matches: RuleMatches
  }[]
}

/** A limited resource of the node. `id`: of its diagnosis; `raisedBy`: sysctls that raise the limit, as they are now. */
export interface LimitFacts {
  readonly id: string
  readonly what: string
  readonly on: string
  readonly used: number
  readonly most: number
  readonly raisedBy?: readonly { readonly name: string; readonly value: number }[]
}

export interface LoggedError {
  readonly id: string
  readonly count: number
  /** The time of the last occurrence, in milliseconds since 1970. */
  readonly lastMs: number
  readonly pods: readonly string[]
  readonly units: readonly string[]
  readonly text: string
}

/** A group that was not examined, or only in part, with the reason. */
export interface NotLooked {
  readonly group: Group
  readonly why: string
  /** A part that doctor never examines; the exit code ignores it. */
  readonly isPartial?: true
}

/** All facts. A part that could not be examined is undefined, and `notLooked` has the reason. */
export interface NodeFacts {
  readonly nowMs: number
  readonly networks: readonly PodNetwork[]
  readonly runtimes: readonly RuntimeFacts[]
  /** Sockets of runtimes that have pods. */
  readonly socketsInUse: readonly string[]
  readonly configurations: readonly ConfigurationFacts[]
  /** Agents of other plugins that the configuration needs, and whether each agent's file exists. */
  readonly agents: readonly {
    readonly plugin: string
    readonly id: string
    readonly path: string
    readonly isThere: boolean
  }[]
  /** What trestle's own agent reported last. */
  readonly agentProblems: readonly Problem[]
  readonly readiness: readonly ReadinessFacts[]
  readonly pools: readonly PoolFacts[]
  readonly kernel?: KernelFacts
  readonly state?: StateFacts
  readonly firewalls?: readonly FirewallFacts[]
  readonly limits?: readonly LimitFacts[]
  readonly log?: readonly LoggedError[]
  readonly pod?: PodFacts
  readonly probe?: ProbeFacts
  readonly notLooked: readonly NotLooked[]
}

/** One interface of the pod. A list is empty if its contents are unknown. */
export interface PodAttachment {
  readonly containerId: string
  readonly network: string
  readonly ifName: string
  /** The source: a record of trestle, or libcni's cache (another plugin may have made the interface). */
  readonly source: 'record' | 'libcni'
  readonly pod?: string
  readonly createdAt?: string
  /** The path of the namespace, and whether it exists. */
  readonly netns: string
  readonly links: readonly string[]
  readonly addresses: readonly string[]
  readonly routes: readonly string[]
  readonly hostPorts: readonly string[]
  readonly rules: readonly string[]
  /** Properties that the kernel lacks. */
  readonly differences: readonly string[]
  readonly pendingCleanup: readonly string[]
}

/** `asked`: NAMESPACE/NAME or the beginning of a container id. `names`: the pod's names in findings and logs. */
export interface PodFacts {
  readonly asked: string
  readonly sandboxes: readonly PodSandbox[]
  readonly attachments: readonly PodAttachment[]
  readonly names: readonly string[]
}

/** The results of throw-away pods of one list. `file`: its name in the runtime's directory. */
export interface ProbeFacts {
  readonly network: string
  readonly file: string
  readonly steps: readonly Step[]
}
