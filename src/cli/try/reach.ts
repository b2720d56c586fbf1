// SPDX-License-Identifier: Apache-2.0
// What the pods of `try` can reach. Each probe is one TCP connection that tells which source address
// arrived; the far side's listener runs in its own namespace.

import { bareAddress, familyOf } from '../../cni/model/address.ts'
import type { Finding, KnownCause } from '../shell/report.ts'
import { thisProgram } from '../shell/self.ts'
import { causeOf, type Target } from './causes.ts'
import { addRouteBack, hasIpv6, must, outside, startListener } from './lab.ts'
import { hostPort, type Pod, type Trial } from './pods.ts'
import { probePort } from './probe.ts'

/** Both ends of a probe. `source`: the address that has to arrive; `from` a netns path. */
interface Probe {
  readonly summary: string
  readonly from: string
  readonly address: string
  readonly port?: number
  readonly source?: string
  /** What it is to reach, and from and to which pods: for the cause where it fails. */
  readonly target: Target
  readonly pods: { readonly from?: Pod; readonly to?: Pod }
}

/** Whether every pod's interface is up and has a carrier: all there is to see without addresses. */
export async function linkSteps(trial: Trial, pods: readonly Pod[]): Promise<void> {
  for (const { label, attachment } of pods) {
    const { netns, ifName } = attachment
    const summary = `${label}: ${ifName} is up`
    const printed = await inNetns(trial, netns, ['ip', '-j', 'link', 'show', 'dev', ifName])
    const [link] = printed.code === 0 ? (JSON.parse(printed.stdout) as { operstate?: string }[]) : []
    const detail = link === undefined ? printed.stderr.trim() : `its state is ${link.operstate}`
    trial.report.add(link?.operstate === 'UP' ? { status: 'ok', summary } : { status: 'fail', summary, detail })
  }
}

/** Pod to gateway, pod to pod, pod to outside, host ports; every address of every family. */
export async function reachSteps(trial: Trial, pods: readonly Pod[]): Promise<void> {
  const [first, second] = pods
  if (first === undefined) return
  if (first.ips.length === 0) return skip(trial, 'gateway, other pods and outside', 'the network gives no addresses')
  for (const netns of [undefined, ...pods.map((pod) => pod.attachment.netns), `/run/netns/${outside}`]) {
    await startListener(netns)
  }
  await gatewaySteps(trial, first)
  if (second === undefined) skip(trial, 'pod to pod', 'the addresses are static: one pod only')
  else await podSteps(trial, first, second)
  await outsideSteps(trial, first)
  if (second !== undefined) await hostPortSteps(trial, first, second)
}

async function gatewaySteps(trial: Trial, pod: Pod): Promise<void> {
  const { label, attachment } = pod
  const ours = (await must(trial.run, ['ip', '-o', 'addr', 'show'])).split(/\s+/)
  for (const { address, gateway } of pod.ips) {
    const summary = `${label} to gateway ${gateway ?? `(of ${address})`}`
    const isOurs = ours.some((word) => word.startsWith(`${gateway}/`))
    if (gateway === undefined || !isOurs) skip(trial, summary, 'the node has no gateway address (isGateway is off)')
    else {
      const probe = { summary, from: attachment.netns, address: gateway, source: bareAddress(address) }
      await tryProbe(trial, { ...probe, target: 'gateway', pods: { from: pod } })
    }
  }
}

async function podSteps(trial: Trial, from: Pod, to: Pod): Promise<void> {
  for (const [at, { address }] of to.ips.entries()) {
    const source = from.ips[at]?.address
    const summary = `${from.label} to ${to.label} (${bareAddress(address)})`
    const pods = { from, to }
    const probe = { summary, from: from.attachment.netns, address: bareAddress(address), target: 'pod', pods } as const
    await tryProbe(trial, source === undefined ? probe : { ...probe, source: bareAddress(source) })
  }
}

/** The first address of each family: masqueraded where the configuration says so, else the pod's own. */
async function outsideSteps(trial: Trial, pod: Pod): Promise<void> {
  const isMasqueraded = trial.network.plugins.some(
    ({ ipMasq, podcidr, podCIDR }) => ipMasq === true || ((podcidr ?? podCIDR) !== undefined && ipMasq !== false),
  )
  for (const family of [4, 6] as const) {
    const own = pod.ips.map(({ address }) => bareAddress(address)).find((address) => familyOf(address) === family)
    if (own === undefined) continue
    const target = trial.uplink.outside[family]
    const source = isMasqueraded ? trial.uplink.node[family] : own
    const summary = `${pod.label} to outside ${target}, seen as ${isMasqueraded ? 'the node' : 'the pod'} (${source})`
    const why = pod.defaultFamilies.includes(family) ? undefined : `the pod has no IPv${family} default route`
    if (why !== undefined || (family === 6 && !hasIpv6())) {
      skip(trial, summary, why ?? 'this kernel has no IPv6')
      continue
    }
    await addRouteBack(trial.run, trial.uplink, own)
    const probe = { summary, from: pod.attachment.netns, address: target, source }
    await tryProbe(trial, { ...probe, target: 'outside', pods: { from: pod } })
  }
}

/** The second pod's host port: from outside, from another pod, and from the pod itself (hairpin). */
async function hostPortSteps(trial: Trial, other: Pod, owner: Pod): Promise<void> {
  if (!trial.network.plugins.some(({ capabilities }) => capabilities?.['portMappings'] === true)) return
  const families = [4, 6] as const
  for (const family of families.filter((each) => owner.ips.some(({ address }) => familyOf(address) === each))) {
    const address = trial.uplink.node[family]
    const to = `host port ${hostPort} (${address})`
    const probe = { address, port: hostPort }
    const ends = [
      { summary: `outside to ${owner.label}'s ${to}`, from: `/run/netns/${outside}`, pods: { to: owner } },
      { summary: `${other.label} to ${owner.label}'s ${to}`, pods: { from: other, to: owner } },
    ]
    for (const end of ends) {
      const from = end.from ?? other.attachment.netns
      await tryProbe(trial, { ...probe, ...end, from, target: 'host-port' })
    }
    const summary = `${owner.label} to its own ${to}`
    const own = { target: 'own-port', pods: { from: owner, to: owner } } as const
    await tryProbe(trial, { ...probe, ...own, summary, from: owner.attachment.netns })
  }
}

async function tryProbe(trial: Trial, probe: Probe): Promise<void> {
  const { summary, from, address, port = probePort, source } = probe
  const { file, args } = thisProgram()
  const start = performance.now()
  const ran = await inNetns(trial, from, [file, ...args, '__probe', 'connect', address, `${port}`])
  const seen = ran.stdout.trim()
  const ms = Math.round((performance.now() - start) * 10) / 10
  const judged = judge(ran, seen, source)
  const known = judged.status === 'fail' ? await causeFor(trial, probe) : undefined
  trial.report.add({ summary, ms, ...judged, ...(known === undefined ? {} : { known }) })
}

async function causeFor(trial: Trial, { target, address, pods }: Probe): Promise<KnownCause | undefined> {
  const printed = await must(trial.run, ['ip', '-o', 'addr', 'show'])
  const nodeAddresses = [...printed.matchAll(/ inet6? ([^\s/]+)/g)].map((match) => match[1] ?? '')
  return causeOf({ target, family: familyOf(address), ...pods, network: trial.network, nodeAddresses })
}

function judge(ran: { code: number | undefined; stderr: string }, seen: string, source: string | undefined) {
  if (ran.code !== 0) return { status: 'fail', detail: ran.stderr.trim() } as const
  if (source === undefined || seen === source) return { status: 'ok' } as const
  return { status: 'fail', detail: `the far side saw ${seen || 'nothing'} instead of ${source}` } as const
}

async function inNetns(trial: Trial, netns: string, [file = '', ...args]: readonly string[]) {
  return await trial.run({ file: 'nsenter', args: [`--net=${netns}`, '--', file, ...args] })
}

function skip(trial: Trial, summary: string, detail: string): void {
  const finding: Finding = { status: 'skip', summary, detail }
  trial.report.add(finding)
}
