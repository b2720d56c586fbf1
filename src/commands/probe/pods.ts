// SPDX-License-Identifier: Apache-2.0
// Temporary pods: a process holds a network namespace without a name, and plugins are called for it as a runtime calls
// them. The namespace ends with its process.

import { isErrorId } from '../../catalogue/diagnosis.ts'
import { familyOf } from '../../cni/addresses.ts'
import { messageWithId, toCniError } from '../../cni/errors.ts'
import { atLeast, isSupported, type ResultIp, readResult } from '../../cni/results.ts'
import { podIpsOf } from '../by-hand/libcni-cache.ts'
import { type Attachment, addList, delList, type Runtime } from '../plugin-runtime.ts'
import { type Holder, podPort, startHolder } from './ends.ts'

/** The names of the pods in a report; the ends of their container ids. */
export const podNames = ['a', 'b'] as const

/** A call of CNI, or something that is reached between them. `own-port`: a pod its own host port. */
export type Target =
  | ('status' | 'add' | 'link' | 'node' | 'gateway' | 'pod' | 'outside' | 'host-port' | 'own-port')
  | ('peer' | 'check' | 'del' | 'left')

/** One thing that was tried. `detail`: why it failed or was not tried; `known`: the id of trestle's error. */
export interface Step {
  readonly what: string
  readonly target: Target
  readonly outcome: 'ok' | 'failed' | 'skipped'
  readonly detail?: string
  readonly known?: string
}

/** A pod after its ADD. `printed`: the result as it came, for prevResult. */
export interface Pod {
  readonly label: string
  readonly attachment: Attachment
  readonly printed: unknown
  readonly ips: readonly ResultIp[]
  readonly defaultFamilies: readonly (4 | 6)[]
  /** The result names the pod's link alone, as of macvlan: the gateway is a router beyond a link of the node. */
  readonly isBeyondNode: boolean
  readonly gateways: readonly string[]
}

/**
 * The pods of one list. `id`: the beginning of their container ids; `hostPort`: of the second pod; `ipRanges`: sent as
 * a runtime does.
 */
export interface Trial {
  readonly runtime: Runtime
  readonly id: string
  readonly hostPort: number | undefined
  readonly ipRanges?: readonly unknown[] | undefined
  readonly pods: Pod[]
  readonly holders: Holder[]
  readonly report: (step: Step) => void
}

export function mapsPorts({ network }: Pick<Runtime, 'network'>): boolean {
  return network.plugins.some(({ capabilities }) => capabilities?.['portMappings'] === true)
}

/** ADD of a pod. Returns whether it went well. */
export async function addPod(trial: Trial, name: string): Promise<boolean> {
  const { runtime, hostPort, ipRanges, holders, pods } = trial
  const holder = await startHolder(['unshare', '--net', '--'])
  holders.push(holder)
  await runtime.run({ file: 'nsenter', args: [`--net=${holder.netns}`, '--', 'ip', 'link', 'set', 'lo', 'up'] })
  const mapping = { hostPort, containerPort: podPort, protocol: 'tcp' }
  const hasPort = hostPort !== undefined && name === 'b'
  const capabilityArgs = { ...(hasPort && { portMappings: [mapping] }), ...(ipRanges && { ipRanges }) }
  const attachment = { ...attachmentOf(trial, name, holder.netns), capabilityArgs }
  return await callStep(trial, { what: `ADD pod ${name}`, target: 'add' }, async () => {
    pods.push(podOf(attachment, `pod ${name}`, await addList(runtime, attachment)))
  })
}

/** DEL of a pod, also after an ADD that failed or never ran. */
export async function delPod(trial: Trial, name: string): Promise<boolean> {
  const { runtime, pods } = trial
  const made = pods.find(({ label }) => label === `pod ${name}`)
  const netns = trial.holders[name === podNames[0] ? 0 : 1]?.netns ?? ''
  const attachment = made?.attachment ?? attachmentOf(trial, name, netns)
  const printed = speaks(runtime, '0.4.0') ? made?.printed : undefined
  return await callStep(trial, { what: `DEL pod ${name}`, target: 'del' }, () => delList(runtime, attachment, printed))
}

function attachmentOf({ id }: Trial, name: string, netns: string): Attachment {
  return { containerId: `${id}-${name}`, netns, ifName: 'eth0' }
}

/** True if the list's version is `version` or newer. */
export function speaks({ network }: Pick<Runtime, 'network'>, version: '0.4.0' | '1.1.0'): boolean {
  return isSupported(network.cniVersion) && atLeast(network.cniVersion, version)
}

export async function callStep(
  { report }: Pick<Trial, 'report'>,
  about: Pick<Step, 'what' | 'target'>,
  body: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await body()
    report({ ...about, outcome: 'ok' })
    return true
  } catch (error) {
    const failure = toCniError(error)
    const { id, code, details } = failure
    const detail = [`code ${code}: ${messageWithId(failure)}`, details].filter(Boolean).join('\n')
    const isOurs = isErrorId(id) && id !== 'plugin-refused' && id !== 'plugin-failed'
    report({ ...about, outcome: 'failed', detail, ...(isOurs ? { known: id } : {}) })
    return false
  }
}

/** A pod from the result of its ADD as it was printed. */
function podOf(attachment: Attachment, label: string, printed: unknown): Pod {
  const result = readResult(printed, '1.0.0')
  const { interfaces, ips, routes } = result
  const defaults = routes.filter((route) => route.dst === '0.0.0.0/0' || route.dst === '::/0')
  return {
    label,
    attachment,
    printed,
    ips: podIpsOf(result),
    defaultFamilies: defaults.map((route) => familyOf(route.dst)),
    isBeyondNode: interfaces.length > 0 && interfaces.every(({ sandbox }) => sandbox),
    gateways: ips.flatMap(({ gateway }) => gateway ?? []),
  }
}
