// SPDX-License-Identifier: Apache-2.0
// What doctor knows of a node, as data: gathered by the files beside this one, judged by those of judge/.

import type { ErrorId } from '../../cni/model/error-code.ts'
import type { RuleMatches } from '../../compile/rule-matches.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import type { Verdict } from '../../plan/recovery/garbage.ts'
import type { OrphanVerdict } from '../../plan/recovery/kernel-orphans.ts'
import type { ReservationVerdict } from '../../plan/recovery/orphan-reservations.ts'
import type { ForeignAct } from '../../plan/rules/accept-place.ts'
import type { ChainPlace } from '../../plan/rules/host-accept.ts'
import type { Prediction } from '../lint/predict.ts'
import type { Step } from '../probe/pods.ts'
import type { Finding } from '../shell/findings.ts'

/** The groups of findings, in the order of the report. */
export const groups = [
  'host',
  'kernel',
  'runtime',
  'configuration',
  'agents',
  'network',
  'addresses',
  'ports',
  'firewall',
  'limits',
  'log',
  'probe',
] as const

export type Group = (typeof groups)[number]

/** A network of pods on this node, of state or of the configuration in use. */
export interface PodNetwork {
  readonly name: string
  /** CIDRs; empty where another plugin gives addresses that are not known here. */
  readonly subnets: readonly string[]
  /** Links of the node that its packets pass: the bridge, or the ends of routed pods. */
  readonly links: readonly string[]
  /** Of its own ADD: a firewall key puts an accept into chains that drop. */
  readonly accepts: boolean
  /** Its bridge or its pods are there: what an ADD sets up is missing if it is not there. */
  readonly isSetUp: boolean
  /** A bridge that is there, has other addresses than the network's, and by which the next ADD fails. */
  readonly otherBridge?: { readonly name: string; readonly addresses: readonly string[]; readonly hasPorts: boolean }
}

/** The source of directories that nobody named. */
export const unnamedSource = 'its defaults'

/** A runtime of the node, and where it looks. */
export interface RuntimeFacts {
  readonly name: string
  /** The name with its process or socket. */
  readonly text: string
  readonly socket?: string
  readonly confDir: string
  readonly binDirs: readonly string[]
  /** Who says so. */
  readonly source: string
  /** Why it did not answer. */
  readonly silent?: string
  /** What it says of its network, where that is not ready. */
  readonly notReady?: string
}

/** One plugin of the configuration in use. */
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
  /** The file in use, and its network. */
  readonly file?: string
  readonly network?: string
  readonly plugins: readonly PluginFacts[]
  /** Files that are whole: which network each is, and whether trestle is in it. */
  readonly files: readonly { readonly file: string; readonly network: string; readonly isOwn: boolean }[]
}

/** The kernel as pods need it. `settings`: sysctls by key, `net/…`; undefined: no such key. */
export interface KernelFacts {
  readonly settings: ReadonlyMap<string, string | undefined>
  /** Interfaces with a default route, and by which one a packet back to a far sender leaves. */
  readonly uplinks: readonly { readonly dev: string; readonly address: string; readonly backBy: string }[]
  /** Where what is for a pod leaves the node. */
  readonly podRoutes: readonly PodRouteFacts[]
  /** Policy rules by which packets of pods are refused. */
  readonly refusals: readonly RefusalFacts[]
  /** What the files of sysctl.d make of settings at the next start, and which file says so last. */
  readonly kept: ReadonlyMap<string, { readonly value: string; readonly file: string }>
  readonly hasKubeProxy: boolean
  /** Kernel modules that are neither loaded, nor built in, nor installed for the running kernel. */
  readonly missingModules: readonly string[]
  readonly release: string
}

/** A policy rule that refuses packets of a network's pods, as the kernel answered. `rule`: the words behind `rule`. */
export interface RefusalFacts {
  readonly network: string
  readonly family: 4 | 6
  readonly rule: string
  /** What was asked for, in words. */
  readonly asked: string
}

export interface PodRouteFacts {
  readonly pod: string
  readonly address: string
  /** The bridge, or the pod's end on the node. */
  readonly expected: string
  /** Undefined: there is no route, or one that refuses. */
  readonly leavesBy: string | undefined
  /** What takes away the route of this address alone that leads elsewhere: the words behind `ip`. */
  readonly route?: string
}

/** A statement about the kernel that does not hold. `kind`: of the operation; `dev`: the link that it is about. */
export interface Difference {
  readonly kind: string
  readonly dev: string
  readonly found: readonly string[]
}

/** A pod in words, and its sandbox where kubelet made it: then the runtime can be told to make it anew. */
export interface PodName {
  readonly pod: string
  readonly sandbox?: string
}

/** State against kernel. */
export interface StateFacts {
  readonly differences: readonly Difference[]
  readonly state: readonly string[]
  readonly accepts: readonly string[]
  /** Live pods whose interface is gone. */
  readonly lost: readonly PodName[]
  readonly elsewhere: readonly string[]
  /** Live pods whose record was lost and written again without what they have: nothing is compared with the kernel. */
  readonly partial: readonly PodName[]
  /** What is not as it was made, inside pods. */
  readonly pods: readonly (PodName & { readonly found: readonly string[] })[]
  readonly podsNotLooked: number
  /** Why live pods could not be looked into, each reason once, with how many they are. */
  readonly podsNotSeen: readonly string[]
  readonly pendingCleanups: readonly AttachmentRecord[]
  readonly attachments: readonly Verdict[]
  readonly reservations: readonly ReservationVerdict[]
  readonly orphans: readonly OrphanVerdict[]
  readonly inTheWay: readonly string[]
  readonly damaged: readonly string[]
  readonly ports: readonly { readonly port: string; readonly listener: string; readonly pod: string }[]
  /** Services of IPVS whose address and port a pod's host port has. */
  readonly caught: readonly { readonly port: string; readonly service: string; readonly pod: string }[]
  readonly mtus: readonly { readonly pod: string; readonly mtu: number }[]
  readonly uplinkMtu?: number
  /** Pods that have a network of trestle, by network. */
  readonly podsOf: ReadonlyMap<string, number>
}

/** A range set, and how much of it is taken. */
export interface PoolFacts {
  readonly network: string
  readonly ranges: string
  readonly taken: number
  readonly total: bigint
  /** host-local: reservations of containers that no runtime lists; undefined where none could be asked. */
  readonly leaked?: readonly string[]
  /** Where the reservations are. */
  readonly directory: string
  readonly isHostLocal: boolean
}

/** Why STATUS says no for the configuration in use. */
export interface ReadinessFacts {
  readonly network: string
  readonly id: ErrorId
  readonly message: string
  readonly details: string
}

/** One chain of another firewall with everything that leads from it. */
export interface FirewallFacts {
  /** Where packets meet it: before the way is chosen, on the way to the node itself, on the way through it. */
  readonly hook: 'prerouting' | 'input' | 'forward'
  readonly base: ChainPlace
  /** What nobody accepts is dropped at its end; of the forward hook, behind where an accept of ours may stand. */
  readonly endsInDrop: boolean
  /** In the order in which packets meet them; chains that rules jump to in their place. */
  readonly rules: readonly {
    readonly chain: string
    readonly id: string
    readonly act: ForeignAct
    readonly isOurs: boolean
    /** Also the rules that lead to its chain, in the prerouting and input hooks. */
    readonly isUnconditional: boolean
    readonly text: string
    readonly matches: RuleMatches
  }[]
}

/** Something of which the node has only so much. */
export interface LimitFacts {
  readonly what: 'inotify' | 'watches' | 'files' | 'processes' | 'disk' | 'inodes' | 'neighbours' | 'conntrack'
  readonly on: string
  /** Of the process whose limit it is. */
  readonly pid?: string
  readonly used: number
  readonly most: number
}

/** An error of the last hour. */
export interface LoggedError {
  readonly id: string
  readonly count: number
  /** Milliseconds since 1970 of the last one. */
  readonly lastMs: number
  readonly pods: readonly string[]
  readonly units: readonly string[]
  readonly text: string
}

/** A group that was not looked at, or not wholly, with the reason. */
export interface NotLooked {
  readonly group: Group
  readonly why: string
  /** The rest of the group was looked at, and this never is: the exit code does not tell it. */
  readonly isPartial?: true
}

/** Everything. A part that could not be looked at is undefined, and named in `notLooked`. */
export interface NodeFacts {
  readonly nowMs: number
  readonly networks: readonly PodNetwork[]
  readonly runtimes: readonly RuntimeFacts[]
  readonly configurations: readonly ConfigurationFacts[]
  /** Agents of other plugins that the configuration needs, and whether what they provide is there. */
  readonly agents: readonly { readonly plugin: string; readonly path: string; readonly isThere: boolean }[]
  readonly readiness: readonly ReadinessFacts[]
  readonly pools: readonly PoolFacts[]
  readonly kernel?: KernelFacts
  readonly state?: StateFacts
  readonly firewalls?: readonly FirewallFacts[]
  readonly limits?: readonly LimitFacts[]
  readonly log?: readonly LoggedError[]
  /** Of the pod that was asked about. */
  readonly pod?: PodFacts
  /** Of throw-away pods, where they were asked for. */
  readonly probe?: ProbeFacts
  readonly notLooked: readonly NotLooked[]
}

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

/** What throw-away pods of one list had. `file`: its name in the directory of the runtime. */
export interface ProbeFacts {
  readonly network: string
  readonly file: string
  readonly steps: readonly Step[]
}
