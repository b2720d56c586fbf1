// SPDX-License-Identifier: Apache-2.0
// The inner process of `try`, alone in its namespaces: makes the lab, tries the network step by step, reports each
// step. Nothing is torn down by hand: the namespaces end with the process.

import { readFileSync } from 'node:fs'
import { diagnosis, isErrorId } from '../../catalogue/diagnosis.ts'
import { bareAddress, familyOf } from '../../cni/addresses.ts'
import { toCniError } from '../../cni/errors.ts'
import { isObject } from '../../cni/json.ts'
import type { ResultIp } from '../../cni/results.ts'
import { nowMs } from '../../process/clock.ts'
import type { Run } from '../../process/runner.ts'
import { runnerUntil } from '../../process/runner.ts'
import { exitCode } from '../command.ts'
import { findingOf, painted } from '../findings.ts'
import { namesIfThere } from '../if-there.ts'
import { checkList, delList, type NetworkList, statusList } from '../network-list.ts'
import { type Output, print } from '../output.ts'
import { podPort, startHolder } from '../probe/ends.ts'
import {
  addPod,
  callStep,
  delPod,
  mapsPorts,
  type Pod,
  podNames,
  type Step,
  speaks,
  type Trial,
} from '../probe/pods.ts'
import {
  addressOf,
  gatewayProbes,
  hostPortProbes,
  nodeAddresses,
  type Probe,
  podProbes,
  runIn,
  skipped,
  tried,
} from '../probe/reach.ts'
import {
  addRouteBack,
  addRouter,
  hasIpv6,
  must,
  openLab,
  outside,
  podRanges,
  type Uplink,
  uplinkApartFrom,
} from './lab.ts'

/** The outer process's decisions. */
export interface InsideInput {
  readonly network: NetworkList
  readonly cniPath: string
  readonly isJson: boolean
  readonly hasColour: boolean
}

const stepTimeoutMs = 30_000

/** A port of the node that nothing else has: the node is private. */
const hostPort = 18081

const bounded: Run = (command) => runnerUntil({ endsAtMs: nowMs() + stepTimeoutMs })(command)

/** Tries the network that standard input describes. Returns the exit code; 3 when the lab cannot be made. */
export async function runInside(output: Output): Promise<number> {
  const { network, cniPath, isJson, hasColour } = JSON.parse(readFileSync(0, 'utf8')) as InsideInput
  const uplink = uplinkApartFrom(rangesIn(network))
  try {
    await openLab(bounded, uplink)
  } catch (error) {
    const { message, details = '' } = toCniError(error)
    output.err(`${message}\n${details}\n`)
    return exitCode.couldNotLook
  }
  const types = network.plugins.map((plugin) => plugin.type).join(', ')
  const ipRanges = takesRanges(network) ? podRanges.map((subnet) => [{ subnet }]) : undefined
  const sent = ipRanges === undefined ? '' : `, with ipRanges ${podRanges.join(' and ')}`
  const title = `network ${network.name} (${types}; CNI ${network.cniVersion}), in private namespaces${sent}`
  const report = openReport(title, isJson, { ...output, hasColour })
  const runtime = { run: bounded, network, cniPath, own: 'this' } as const
  const ports = mapsPorts(runtime) ? hostPort : undefined
  await tryNetwork({ runtime, id: 'pod', hostPort: ports, ipRanges, pods: [], holders: [], report: report.add }, uplink)
  return report.close()
}

/** Whether only a runtime's ranges give the pods addresses. */
function takesRanges({ plugins }: NetworkList): boolean {
  return plugins.some(({ capabilities, ipam, podcidr, podCIDR }) => {
    const own = isObject(ipam) ? (ipam['subnet'] ?? ipam['ranges']) : undefined
    return capabilities?.['ipRanges'] === true && (podcidr ?? podCIDR ?? own) === undefined
  })
}

/** Every CIDR in the configuration, whatever its key. */
function rangesIn(network: NetworkList): readonly string[] {
  return [...JSON.stringify(network).matchAll(/"([0-9a-fA-F.:]+\/\d{1,3})"/g)].map((match) => match[1] ?? '')
}

async function tryNetwork(trial: Trial, uplink: Uplink): Promise<void> {
  const { runtime, pods, report } = trial
  if (speaks(runtime, '1.1.0')) await callStep(trial, { what: 'STATUS', target: 'status' }, () => statusList(runtime))
  for (const name of namesOf(runtime.network)) {
    // A failed ADD is followed by DEL, as every runtime does.
    if (!(await addPod(trial, name))) await delPod({ ...trial, report: () => undefined }, name)
  }
  if (pods.length > 0) {
    for (const pod of pods) await linkStep(trial, pod)
    await reachSteps(trial, uplink)
    await checkSteps(trial)
  }
  for (const { label, attachment } of pods) {
    await delPod(trial, label.replace('pod ', ''))
    // containerd calls once more, without netns and prevResult.
    const what = `DEL ${label} again, without its namespace`
    await callStep(trial, { what, target: 'del' }, () => delList(runtime, { ...attachment, netns: '' }, undefined))
  }
  const left = await whatIsLeft(trial)
  const about = { what: 'nothing is left of the pods: links, state, rules', target: 'left' } as const
  report(left.length === 0 ? { ...about, outcome: 'ok' } : { ...about, outcome: 'failed', detail: left.join('\n') })
}

/** Static addresses are the same for every pod: a second one would take them from the first. */
function namesOf({ plugins }: NetworkList): readonly string[] {
  const ipam = plugins[0]?.['ipam'] as { type?: unknown } | undefined
  return ipam?.type === 'static' ? podNames.slice(0, 1) : podNames
}

/** Whether the interface is up and has a carrier: the only check without addresses. */
async function linkStep(trial: Trial, { label, attachment }: Pod): Promise<void> {
  const { netns, ifName } = attachment
  const about = { what: `${label}: ${ifName} is up`, target: 'link' } as const
  const printed = await runIn(trial, netns, ['ip', '-j', 'link', 'show', 'dev', ifName])
  const [link] = printed.code === 0 ? (JSON.parse(printed.stdout) as { operstate?: string }[]) : []
  const detail = link === undefined ? printed.stderr.trim() : `its state is ${link.operstate}`
  trial.report(link?.operstate === 'UP' ? { ...about, outcome: 'ok' } : { ...about, outcome: 'failed', detail })
}

async function checkSteps(trial: Trial): Promise<void> {
  const { runtime, pods, report } = trial
  const { disableCheck } = runtime.network
  if (disableCheck || !speaks(runtime, '0.4.0')) {
    report(skipped('CHECK', 'check', disableCheck ? 'disableCheck is set' : 'it came with CNI 0.4.0'))
    return
  }
  for (const { label, attachment, printed } of pods) {
    const about = { what: `CHECK ${label}`, target: 'check' } as const
    await callStep(trial, about, () => checkList(runtime, attachment, printed))
  }
}

/** Pod to gateway, pod to pod, pod to outside, host ports; every address of every family. */
async function reachSteps(trial: Trial, uplink: Uplink): Promise<void> {
  const { pods, holders, report } = trial
  const [first, second] = pods
  if (first === undefined) return
  const none = 'the network gives no addresses'
  if (first.ips.length === 0) return report(skipped('gateway, other pods and outside', 'pod', none))
  const far = `/run/netns/${outside}`
  for (const inside of [[], ['nsenter', `--net=${far}`, '--']]) holders.push(await startHolder(inside))
  const routers = first.isBeyondNode ? first.ips.flatMap(routerOf) : []
  for (const router of routers) await addRouter(trial.runtime.run, router)
  const known = [...(await nodeAddresses(trial)), ...routers.map(bareAddress)]
  for (const probe of gatewayProbes(first)) {
    const none = 'the node has no gateway address (isGateway is off)'
    report(known.includes(probe.address) ? await tried(trial, probe) : skipped(probe.what, 'gateway', none))
  }
  if (first.gateways.length === 0) report(skipped(`${first.label} to gateway`, 'gateway', 'the result names none'))
  if (second === undefined) report(skipped('pod to pod', 'pod', 'the addresses are static: one pod only'))
  else for (const probe of withSource(podProbes(first, second), first)) report(await tried(trial, probe))
  await outsideSteps(trial, first, uplink)
  if (second === undefined || trial.hostPort === undefined) return
  const askers = [
    { who: 'outside', netns: far },
    { who: first.label, from: first },
    { who: second.label, from: second },
  ]
  for (const family of [4, 6] as const) {
    if (addressOf(second, family) === undefined) continue
    const probes = hostPortProbes(uplink.node[family], trial.hostPort, second, askers)
    for (const probe of probes) report(await tried(trial, probe))
  }
}

/** The gateway with the length of the pod's address. */
function routerOf({ address, gateway }: ResultIp): readonly string[] {
  return gateway === undefined ? [] : [`${gateway}/${address.split('/')[1]}`]
}

/** Within a node a pod's address is not translated. */
function withSource(probes: readonly Probe[], from: Pod): readonly Probe[] {
  return probes.map((probe) => {
    const source = addressOf(from, familyOf(probe.address))
    return source === undefined ? probe : { ...probe, source }
  })
}

/** The first address of each family: masqueraded if the configuration says so, else the pod's own. */
async function outsideSteps(trial: Trial, pod: Pod, uplink: Uplink): Promise<void> {
  const { run, network } = trial.runtime
  const isMasqueraded = network.plugins.some(
    ({ ipMasq, podcidr, podCIDR }) => ipMasq === true || ((podcidr ?? podCIDR) !== undefined && ipMasq !== false),
  )
  for (const family of [4, 6] as const) {
    const own = addressOf(pod, family)
    if (own === undefined) continue
    const address = uplink.outside[family]
    const source = isMasqueraded ? uplink.node[family] : bareAddress(own)
    const what = `${pod.label} to outside ${address}, seen as ${isMasqueraded ? 'the node' : 'the pod'} (${source})`
    const why = pod.defaultFamilies.includes(family) ? undefined : `the pod has no IPv${family} default route`
    if (why !== undefined || (family === 6 && !hasIpv6())) {
      trial.report(skipped(what, 'outside', why ?? 'this kernel has no IPv6'))
      continue
    }
    if (!pod.isBeyondNode) await addRouteBack(run, uplink, own)
    trial.report(await tried(trial, { what, target: 'outside', address, way: { port: podPort }, from: pod, source }))
  }
}

// Leftovers that `try` must not find after DEL: links, state, or rules of its pods. The bridge and the base of the nft
// table stay by design.

const stateRoot = '/run/trestle/networks'
const perPod = ['attachments', 'addresses', 'pending']

async function whatIsLeft(trial: Trial): Promise<readonly string[]> {
  return [...(await linksLeft(trial)), ...stateLeft(), ...(await rulesLeft(trial))]
}

async function linksLeft(trial: Trial): Promise<readonly string[]> {
  const { runtime, pods } = trial
  const show = ['ip', '-j', '-d', 'link', 'show']
  const onNode = linksIn(await must(runtime.run, show))
  const veths = onNode.filter(({ linkinfo, ifname }) => linkinfo?.info_kind === 'veth' && ifname !== 'uplink')
  const inPods = await Promise.all(
    pods.map(async ({ label, attachment }) => {
      const links = linksIn((await runIn(trial, attachment.netns, show)).stdout)
      return links.filter(({ ifname }) => ifname === attachment.ifName).map(({ ifname }) => `${ifname} in ${label}`)
    }),
  )
  return [...veths.map(({ ifname }) => `${ifname} on the node`), ...inPods.flat()]
}

function linksIn(json: string) {
  return JSON.parse(json) as readonly { readonly ifname: string; readonly linkinfo?: { readonly info_kind?: string } }[]
}

function stateLeft(): readonly string[] {
  return namesIfThere(stateRoot).flatMap((network) =>
    perPod.flatMap((kind) =>
      namesIfThere(`${stateRoot}/${network}/${kind}`).map((name) => `${stateRoot}/${network}/${kind}/${name}`),
    ),
  )
}

/** Rules and elements that name a pod's address. */
async function rulesLeft({ runtime, pods }: Trial): Promise<readonly string[]> {
  const listed = runtime.run({ file: 'nft', args: ['-j', 'list', 'ruleset'] })
  const { code, stdout } = await listed.catch(() => ({ code: 1, stdout: '' }))
  if (code !== 0) return []
  const words = new Set(stdout.split(/[\s,{}]+/))
  const addresses = pods.flatMap((pod) => pod.ips.map(({ address }) => bareAddress(address)))
  return addresses.filter((address) => words.has(address)).map((address) => `${address} in the nft ruleset`)
}

// The output of `try`: a line for each step with its outcome first, or all steps at the end as JSON.

const statuses = { ok: 'ok', failed: 'fail', skipped: 'skip' } as const
const symbols = { ok: 'ok  ', failed: 'FAIL', skipped: 'skip' } as const

/** A step, its line break included; a failed or skipped step has its detail and its cure below. */
export function stepText(step: Step, hasColour: boolean): string {
  const { what, outcome, detail = '' } = step
  const hint = hintOf(step)
  const rest = outcome === 'ok' ? [] : [...detail.split('\n'), hint === undefined ? '' : `hint: ${hint}`]
  const lines = rest.filter((line) => line !== '').map((line) => `        ${line}\n`)
  return `  ${painted(symbols[outcome], statuses[outcome], { hasColour })}  ${what}\n${lines.join('')}`
}

/** The hint below a failed step; an error of trestle has its own. */
function hintOf({ known }: Step): string | undefined {
  if (known === undefined || isErrorId(known.id)) return undefined
  return `${known.message} [${known.id}]: ${diagnosis(known.id).cure}`
}

/** 1 when a step failed; a step that was skipped is no failure. */
export function exitCodeOf(steps: readonly Step[]): number {
  return steps.some(({ outcome }) => outcome === 'failed') ? exitCode.findings : exitCode.fine
}

const notLooked = 'the node itself was not looked at: `trestle lint` and `trestle doctor` do that\n'

/** A report being made. `close` prints its end and returns the exit code. */
export function openReport(title: string, isJson: boolean, output: Output) {
  const steps: Step[] = []
  if (!isJson) output.out(`${title}\n\n`)
  const add = (step: Step): void => {
    steps.push(step)
    if (!isJson) output.out(stepText(step, output.hasColour))
  }
  const close = (): number => {
    const count = (outcome: Step['outcome']) => steps.filter((step) => step.outcome === outcome).length
    const counts = { ok: count('ok'), failed: count('failed'), skipped: count('skipped') }
    const checks = steps.map((step) => {
      const { what: summary, outcome, detail, ms } = step
      return { status: statuses[outcome], summary, detail, hint: hintOf(step), ms }
    })
    const findings = steps.flatMap(({ what, outcome, known }) =>
      outcome !== 'failed' || known === undefined ? [] : [findingOf({ ...known, severity: 'error', on: what })],
    )
    const document = { title, checks, findings, counts }
    const ending = counts.failed === 0 ? notLooked : ''
    const text = `\n${counts.ok} ok, ${counts.failed} failed, ${counts.skipped} skipped\n${ending}`
    return print({ isJson, output }, { command: 'try', document, text, code: exitCodeOf(steps) })
  }
  return { add, close }
}
