// SPDX-License-Identifier: Apache-2.0
// Temporary pods: a process holds a network namespace without a name, and plugins are called for it as a runtime calls
// them. The namespace ends with its process.

import { isErrorId } from '../../catalogue/diagnosis.ts'
import { familyOf } from '../../cni/addresses.ts'
import { messageWithId, toCniError } from '../../cni/errors.ts'
import { asObject } from '../../cni/json.ts'
import { atLeast, isSupported, type ResultIp, readResult } from '../../cni/results.ts'
import { readDocuments } from '../../kernel/look.ts'
import { podIpsOf } from '../by-hand/libcni-cache.ts'
import { type Attachment, addList, checkList, delList, type Runtime, statusList } from '../plugin-runtime.ts'
import { type Holder, podPort, startHolder } from './ends.ts'

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
 * a runtime does; `isEnded`: a person wants no further step.
 */
export interface Trial {
  readonly runtime: Runtime
  readonly id: string
  readonly hostPort: number | undefined
  readonly ipRanges?: readonly unknown[] | undefined
  readonly isEnded?: () => boolean
  readonly report: (step: Step) => void
}

/** What is done with the pods, and after their DEL. */
interface Between {
  readonly reach: (pods: readonly Pod[]) => Promise<void>
  readonly afterwards?: (pods: readonly Pod[]) => Promise<void>
}

/** Makes two pods, or one where addresses are static, tries them, and removes them whatever happens. */
export async function withPods(trial: Trial, { reach, afterwards }: Between): Promise<void> {
  const { runtime, report, isEnded = () => false } = trial
  const holders: Holder[] = []
  const attachments: Attachment[] = []
  const pods: Pod[] = []
  try {
    if (speaks(runtime, '1.1.0')) await callStep(trial, 'STATUS', 'status', () => statusList(runtime))
    // Static addresses are the same for every pod: a second one would take them from the first.
    const isStatic = asObject(runtime.network.plugins[0]?.['ipam'])['type'] === 'static'
    for (const name of isStatic ? ['a'] : ['a', 'b']) {
      if (isEnded()) return
      const holder = await startHolder(['unshare', '--net', '--'])
      holders.push(holder)
      const attachment = attachmentOf(trial, name, holder.netns)
      attachments.push(attachment)
      await runIn(trial, holder.netns, ['ip', 'link', 'set', 'lo', 'up'])
      const isMade = await callStep(trial, `ADD pod ${name}`, 'add', async () => {
        pods.push(podOf(attachment, `pod ${name}`, await addList(runtime, attachment)))
      })
      if (!isMade || isEnded()) return
    }
    for (const pod of pods) report(await linkStep(trial, pod))
    await reach(pods)
    const { disableCheck } = runtime.network
    if (disableCheck || !speaks(runtime, '0.4.0')) {
      const detail = disableCheck ? 'disableCheck is set' : 'it came with CNI 0.4.0'
      return report({ what: 'CHECK', target: 'check', outcome: 'skipped', detail })
    }
    for (const { label, attachment, printed } of pods) {
      await callStep(trial, `CHECK ${label}`, 'check', () => checkList(runtime, attachment, printed))
    }
  } finally {
    for (const attachment of attachments) await removePod(trial, attachment, pods)
    await afterwards?.(pods)
    for (const { end } of holders) await end()
  }
}

/** DEL, also after an ADD that failed, and as containerd once more without netns and prevResult. */
async function removePod(trial: Trial, attachment: Attachment, pods: readonly Pod[]): Promise<void> {
  const { runtime } = trial
  const made = pods.find((pod) => pod.attachment === attachment)
  const label = `pod ${attachment.containerId.at(-1)}`
  const printed = speaks(runtime, '0.4.0') ? made?.printed : undefined
  await callStep(trial, `DEL ${label}`, 'del', () => delList(runtime, attachment, printed))
  const again = { ...attachment, netns: '' }
  await callStep(trial, `DEL ${label} again, without its namespace`, 'del', () => delList(runtime, again, undefined))
}

/** Whether the interface is up and has a carrier: the only check without addresses. */
async function linkStep(trial: Trial, { label, attachment }: Pod): Promise<Step> {
  const { netns, ifName } = attachment
  const about = { what: `${label}: ${ifName} is up`, target: 'link' } as const
  const { stdout, stderr } = await runIn(trial, netns, ['ip', '-j', 'link', 'show', 'dev', ifName])
  const state = readDocuments(stdout)[0]?.['operstate']
  if (state === 'UP') return { ...about, outcome: 'ok' }
  return { ...about, outcome: 'failed', detail: state === undefined ? stderr.trim() : `its state is ${state}` }
}

export function mapsPorts({ network }: Pick<Runtime, 'network'>): boolean {
  return network.plugins.some(({ capabilities }) => capabilities?.['portMappings'] === true)
}

/** The second pod has the host port. */
function attachmentOf({ id, hostPort, ipRanges }: Trial, name: string, netns: string): Attachment {
  const mapping = { hostPort, containerPort: podPort, protocol: 'tcp' }
  const hasPort = hostPort !== undefined && name === 'b'
  const capabilityArgs = { ...(hasPort && { portMappings: [mapping] }), ...(ipRanges && { ipRanges }) }
  return { containerId: `${id}-${name}`, netns, ifName: 'eth0', capabilityArgs }
}

/** True if the list's version is `version` or newer. */
function speaks({ network }: Pick<Runtime, 'network'>, version: '0.4.0' | '1.1.0'): boolean {
  return isSupported(network.cniVersion) && atLeast(network.cniVersion, version)
}

async function callStep({ report }: Trial, what: string, target: Target, body: () => Promise<unknown>) {
  try {
    await body()
    report({ what, target, outcome: 'ok' })
    return true
  } catch (error) {
    const failure = toCniError(error)
    const { id, code, details } = failure
    const detail = [`code ${code}: ${messageWithId(failure)}`, details].filter(Boolean).join('\n')
    const isOurs = isErrorId(id) && id !== 'plugin-refused' && id !== 'plugin-failed'
    report({ what, target, outcome: 'failed', detail, ...(isOurs ? { known: id } : {}) })
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

/** Runs a command in a namespace, or on the node without one. */
export async function runIn({ runtime }: Pick<Trial, 'runtime'>, netns: string, command: readonly string[]) {
  const inside = netns === '' ? command : ['nsenter', `--net=${netns}`, '--', ...command]
  const [file = '', ...args] = inside
  return await runtime.run({ file, args })
}
