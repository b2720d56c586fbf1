// SPDX-License-Identifier: Apache-2.0
// The CNI calls of `try`: what a runtime does for two pods, each call one finding.

import { familyOf } from '../../cni/model/address.ts'
import { messageWithId, toCniError } from '../../cni/model/error.ts'
import type { ResultIp } from '../../cni/model/result.ts'
import { atLeast, isSupported } from '../../cni/model/version.ts'
import { readResult } from '../../cni/result/result-shapes.ts'
import { type Attachment, addList, checkList, delList, type Runtime, statusList } from '../node/list.ts'
import type { Finding, Report } from '../shell/report.ts'
import { causeOfError } from './causes.ts'
import { addNetns, type Uplink } from './lab.ts'
import { probePort } from './probe.ts'

/** One run of `try`. */
export interface Trial extends Runtime {
  readonly uplink: Uplink
  readonly report: Report
}

/** A pod after its ADD. `printed`: the result as it came, for prevResult. */
export interface Pod {
  readonly label: string
  readonly attachment: Attachment
  readonly printed: unknown
  readonly ips: readonly ResultIp[]
  readonly defaultFamilies: readonly (4 | 6)[]
  /** Links on the node that the result names. */
  readonly hostLinks: readonly string[]
  readonly gateways: readonly string[]
}

/** The host port of the second pod, for networks with the capability portMappings. */
export const hostPort = 18081

/** STATUS, then ADD of two pods; of one where the configuration gives every pod the same address. */
export async function addPods(trial: Trial): Promise<readonly Pod[]> {
  if (speaks(trial, '1.1.0')) await step(trial, 'STATUS', () => statusList(trial))
  const pods: Pod[] = []
  for (const label of labels(trial)) {
    const attachment = await attachmentOf(trial, label)
    const added = await step(trial, `ADD ${label}`, async () =>
      podOf(attachment, label, await addList(trial, attachment)),
    )
    if (added !== undefined) pods.push(added)
    // A failed ADD is followed by DEL, as every runtime does.
    else await delList(trial, attachment, undefined).catch(() => undefined)
  }
  return pods
}

/** CHECK of every pod, where the version has it. */
export async function checkPods(trial: Trial, pods: readonly Pod[]): Promise<void> {
  const why = trial.network.disableCheck ? 'disableCheck is set' : 'it came with CNI 0.4.0'
  if (trial.network.disableCheck || !speaks(trial, '0.4.0')) {
    return trial.report.add({ status: 'skip', summary: 'CHECK', detail: why })
  }
  for (const pod of pods) {
    await step(trial, `CHECK ${pod.label}`, () => checkList(trial, pod.attachment, pod.printed))
  }
}

/** DEL of every pod, and once more without netns and prevResult, as containerd does. */
export async function delPods(trial: Trial, pods: readonly Pod[]): Promise<void> {
  for (const { label, attachment, printed } of pods) {
    await step(trial, `DEL ${label}`, () => delList(trial, attachment, speaks(trial, '0.4.0') ? printed : undefined))
    await step(trial, `DEL ${label} again, without its namespace`, () =>
      delList(trial, { ...attachment, netns: '' }, undefined),
    )
  }
}

/** Runs `body` as one finding; returns its value, or undefined when it failed. */
async function step<T>(trial: Trial, summary: string, body: () => Promise<T>): Promise<T | undefined> {
  const start = performance.now()
  const finding = (more: Omit<Finding, 'summary' | 'ms'>): void =>
    trial.report.add({ ...more, summary, ms: Math.round((performance.now() - start) * 10) / 10 })
  try {
    const value = await body()
    finding({ status: 'ok' })
    return value
  } catch (error) {
    const failure = toCniError(error)
    const what = `code ${failure.code}: ${messageWithId(failure)}`
    const known = causeOfError(failure)
    const detail = [what, failure.details].filter(Boolean).join('\n')
    finding({ status: 'fail', detail, ...(known === undefined ? {} : { known }) })
    return undefined
  }
}

/** Static addresses are the same for every pod: a second one would take them from the first. */
function labels({ network }: Trial): readonly string[] {
  const ipam = network.plugins[0]?.['ipam'] as { type?: unknown } | undefined
  return ipam?.type === 'static' ? ['pod a'] : ['pod a', 'pod b']
}

async function attachmentOf(trial: Trial, label: string): Promise<Attachment> {
  const name = label.replace(' ', '-')
  const mapping = { hostPort, containerPort: probePort, protocol: 'tcp' }
  const capabilityArgs = label === 'pod b' ? { portMappings: [mapping] } : {}
  return { containerId: name, netns: await addNetns(trial.run, name), ifName: 'eth0', capabilityArgs }
}

/** A pod from the result of its ADD as it was printed. */
export function podOf(attachment: Attachment, label: string, printed: unknown): Pod {
  const { interfaces, ips, routes } = readResult(printed, '1.0.0')
  const isOfPod = (ip: ResultIp) => ip.interface === undefined || Boolean(interfaces[ip.interface]?.sandbox)
  const defaults = routes.filter((route) => route.dst === '0.0.0.0/0' || route.dst === '::/0')
  return {
    label,
    attachment,
    printed,
    ips: ips.filter(isOfPod),
    defaultFamilies: defaults.map((route) => familyOf(route.dst)),
    hostLinks: interfaces.filter((each) => !each.sandbox).map((each) => each.name),
    gateways: ips.flatMap(({ gateway }) => gateway ?? []),
  }
}

function speaks({ network }: Trial, version: '0.4.0' | '1.1.0'): boolean {
  return isSupported(network.cniVersion) && atLeast(network.cniVersion, version)
}
