// SPDX-License-Identifier: Apache-2.0
// `trestle try`: a network tried step by step with temporary pods, on a private node. Nothing is torn down by hand: the
// namespaces end with the process.

import { bareAddress, familyOf } from '../cni/addresses.ts'
import { asObject } from '../cni/json.ts'
import { readDocuments } from '../kernel/look.ts'
import { nowMs } from '../process/clock.ts'
import { runnerUntil } from '../process/runner.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { failureOf } from './failure.ts'
import { painted } from './findings.ts'
import { namesIfThere } from './if-there.ts'
import { readFileAs } from './input-file.ts'
import { type NetworkList, readNetworkList } from './network-list.ts'
import { type Output, print } from './output.ts'
import { missingPlugins, pluginPath } from './plugin-runtime.ts'
import { hasIpv6, insideNode, outside, type PrivateNode, type Uplink } from './private-node.ts'
import { podPort, startHolder } from './probe/ends.ts'
import { mapsPorts, type Pod, runIn, type Step, type Trial, withPods } from './probe/pods.ts'
import { addressOf, reachSteps, skipped, tried, type World } from './probe/reach.ts'
import { requireRoot, thisProgram } from './self.ts'
import { runUnshared } from './unshared.ts'

/** Of pods whose configuration names no ranges. */
const podRanges = ['10.240.0.0/24', 'fd00:240::/64'] as const

/** Two families, host ports, and the defaults of a pod network. */
const defaultNetwork = JSON.stringify({
  cniVersion: '1.1.0',
  name: 'try',
  plugins: [{ type: 'trestle', bridge: 'try0', podcidr: podRanges, capabilities: { portMappings: true } }],
})

export const tryCommand: Command = {
  name: 'try',
  words: '[CONFLIST]',
  maxWords: 1,
  summary: 'test a network with temporary pods in private namespaces',
  description: [
    'ADD, TCP from pod to gateway, pod, outside and host port, CHECK, DEL, nothing left; nothing of the machine is',
    'touched. CONFLIST is a file, or - for standard input; without it a dual-stack network is tried. CNI_PATH has the',
    'plugins (/opt/cni/bin).',
  ].join('\n'),
  options: {},
  examples: ['trestle try', 'trestle try /etc/cni/net.d/10-pods.conflist', 'trestle try - -o json <net.conflist'],
  run,
}

/** The outer process's decisions. */
interface TryInput extends PrivateNode {
  readonly network: NetworkList
  readonly cniPath: string
  readonly isJson: boolean
  readonly hasColour: boolean
}

async function run({ words, isJson, output }: Input): Promise<number> {
  const network = words[0] === undefined ? readNetworkList(defaultNetwork) : readFileAs(words[0], readNetworkList)
  const cniPath = pluginPath()
  const [missing] = missingPlugins({ network, cniPath, own: 'this' })
  if (missing !== undefined) {
    const details = 'set CNI_PATH to the directories of the plugins'
    throw failureOf('try-not-possible', `try: the plugin "${missing}" is not in ${cniPath}`, { details })
  }
  requireRoot('try', 'it makes network namespaces')
  const programs = [...cniPath.split(':'), thisProgram().file]
  // A master is the uplink of the private node.
  const masters = network.plugins.map(({ master }) => master).filter((name) => typeof name === 'string')
  const node = { programs, uplink: masters[0] ?? 'uplink', mtu: 1500, links: masters }
  const input: TryInput = { ...node, network, cniPath, isJson, hasColour: output.hasColour }
  const { code, why } = await runUnshared('__try-inside', input, 'inherit')
  if (code === exitCode.fine || code === exitCode.findings) return code
  throw failureOf('try-not-possible', 'try: the private namespaces could not be made or used', { details: why })
}

const stepTimeoutMs = 30_000
/** A port of the node that nothing else has: the node is private. */
const hostPort = 18081

/** The inner process. Returns the exit code; 3 when the private node cannot be made. */
export async function runInside(output: Output): Promise<number> {
  return await insideNode<TryInput>(async ({ network, cniPath, isJson, hasColour }, uplink) => {
    const types = network.plugins.map((plugin) => plugin.type).join(', ')
    const ipRanges = takesRanges(network) ? podRanges.map((subnet) => [{ subnet }]) : undefined
    const sent = ipRanges === undefined ? '' : `, with ipRanges ${podRanges.join(' and ')}`
    const title = `network ${network.name} (${types}; CNI ${network.cniVersion}), in private namespaces${sent}`
    const { add: report, close } = openReport(title, isJson, { ...output, hasColour })
    const runtime: Trial['runtime'] = {
      ...{ network, cniPath, own: 'this' },
      run: (command) => runnerUntil({ endsAtMs: nowMs() + stepTimeoutMs })(command),
    }
    const port = mapsPorts(runtime) ? hostPort : undefined
    await tryNetwork({ runtime, id: 'pod', hostPort: port, ipRanges, report }, uplink)
    return close()
  })
}

/** Whether only a runtime's ranges give the pods addresses. */
function takesRanges({ plugins }: NetworkList): boolean {
  return plugins.some(({ capabilities, ipam, podcidr }) => {
    const { subnet, ranges } = asObject(ipam)
    return capabilities?.['ipRanges'] === true && (podcidr ?? subnet ?? ranges) === undefined
  })
}

async function tryNetwork(trial: Trial, uplink: Uplink): Promise<void> {
  const { report } = trial
  const far = `/run/netns/${outside}`
  const reach = async (pods: readonly Pod[]) => {
    const [first] = pods
    if (first === undefined) return
    for (const inside of [[], ['nsenter', `--net=${far}`, '--']]) await startHolder(inside)
    const world: World = {
      routers: await makeRouters(trial, first, uplink),
      outside: (pod, family) => outsideStep(trial, pod, family, uplink),
      portAddresses: [uplink.node[4], uplink.node[6]],
      askers: [{ who: 'outside', netns: far }],
    }
    for (const step of await reachSteps(trial, pods, world)) report(step)
  }
  const afterwards = async (pods: readonly Pod[]) => {
    const left = await whatIsLeft(trial, pods, uplink)
    const about = { what: 'nothing is left of the pods: links, state, rules', target: 'left' } as const
    report(left.length === 0 ? { ...about, outcome: 'ok' } : { ...about, outcome: 'failed', detail: left.join('\n') })
  }
  await withPods(trial, { reach, afterwards })
}

/** The outside gets the way back to a pod; of macvlan it is the pods' router. Returns the routers' addresses. */
async function makeRouters(trial: Trial, pod: Pod, { node }: Uplink): Promise<readonly string[]> {
  const beyond = async (...words: readonly string[]) => {
    const { code, stderr } = await trial.runtime.run({ file: 'ip', args: ['-n', outside, ...words] })
    if (code !== 0) throw failureOf('command-failed', `ip ${words.join(' ')} failed`, { details: stderr })
  }
  const routers: string[] = []
  for (const { address, gateway } of pod.ips) {
    const family = familyOf(address)
    if (!pod.isBeyondNode && (family === 4 || hasIpv6())) {
      await beyond('route', 'replace', bareAddress(address), 'via', node[family])
    } else if (pod.isBeyondNode && gateway !== undefined) {
      const cidr = `${gateway}/${address.split('/')[1]}`
      await beyond('address', 'replace', cidr, 'dev', 'uplink', ...(family === 6 ? ['nodad'] : []))
      routers.push(gateway)
    }
  }
  return routers
}

/** The first address of the family: masqueraded if the configuration says so, else the pod's own. */
async function outsideStep(trial: Trial, pod: Pod, family: 4 | 6, uplink: Uplink): Promise<Step> {
  const isMasqueraded = trial.runtime.network.plugins.some(({ ipMasq, podcidr }) => {
    return ipMasq === true || (podcidr !== undefined && ipMasq !== false)
  })
  const address = uplink.outside[family]
  const source = isMasqueraded ? uplink.node[family] : (addressOf(pod, family) ?? '')
  const what = `${pod.label} to outside ${address}, seen as ${isMasqueraded ? 'the node' : 'the pod'} (${source})`
  if (!pod.defaultFamilies.includes(family)) {
    return skipped(what, 'outside', `the pod has no IPv${family} default route`)
  }
  if (family === 6 && !hasIpv6()) return skipped(what, 'outside', 'this kernel has no IPv6')
  const { netns } = pod.attachment
  return await tried(trial, { what, target: 'outside', address, way: podPort, netns, source })
}

/** Links, state and rules of the pods after DEL. The bridge and the base of the nft table stay by design. */
async function whatIsLeft(trial: Trial, pods: readonly Pod[], uplink: Uplink): Promise<readonly string[]> {
  const left: string[] = []
  const { stdout } = await runIn(trial, '', ['ip', '-j', 'link', 'show', 'type', 'veth'])
  for (const { ifname } of readDocuments(stdout)) if (ifname !== uplink.name) left.push(`${ifname} on the node`)
  for (const { label, attachment } of pods) {
    const { code } = await runIn(trial, attachment.netns, ['ip', 'link', 'show', 'dev', attachment.ifName])
    if (code === 0) left.push(`${attachment.ifName} in ${label}`)
  }
  const root = '/run/trestle/networks'
  for (const network of namesIfThere(root)) {
    for (const part of ['attachments', 'addresses', 'pending']) {
      for (const name of namesIfThere(`${root}/${network}/${part}`)) left.push(`${root}/${network}/${part}/${name}`)
    }
  }
  const rules = (await runIn(trial, '', ['nft', 'list', 'ruleset'])).stdout.split(/[\s,{}]+/)
  for (const { address } of pods.flatMap(({ ips }) => ips)) {
    if (rules.includes(bareAddress(address))) left.push(`${bareAddress(address)} in the nft ruleset`)
  }
  return left
}

// The output: a line for each step with its outcome first, or all steps at the end as JSON.

const words = { ok: 'ok  ', failed: 'FAIL', skipped: 'skip' } as const
const statuses = { ok: 'ok', failed: 'fail', skipped: 'skip' } as const

export function stepText({ what, outcome, detail = '' }: Step, hasColour: boolean): string {
  const lines = outcome === 'ok' ? [] : detail.split('\n').filter((line) => line !== '')
  return `  ${painted(words[outcome], statuses[outcome], { hasColour })}  ${what}\n${lines.map((line) => `        ${line}\n`).join('')}`
}

/** A report being made. `close` prints its end and returns the exit code: 1 when a step failed. */
function openReport(title: string, isJson: boolean, output: Output) {
  const steps: Step[] = []
  if (!isJson) output.out(`${title}\n\n`)
  const add = (step: Step): void => {
    steps.push(step)
    if (!isJson) output.out(stepText(step, output.hasColour))
  }
  const close = (): number => {
    const count = (outcome: Step['outcome']) => steps.filter((step) => step.outcome === outcome).length
    const counts = { ok: count('ok'), failed: count('failed'), skipped: count('skipped') }
    const checks = steps.map(({ what, outcome, detail, known }) => ({
      ...{ status: statuses[outcome], summary: what, detail, id: known },
    }))
    const notLooked = 'the node itself was not looked at: `trestle lint` and `trestle doctor` do that\n'
    const text = `\n${counts.ok} ok, ${counts.failed} failed, ${counts.skipped} skipped\n${counts.failed === 0 ? notLooked : ''}`
    const code = counts.failed > 0 ? exitCode.findings : exitCode.fine
    return print({ isJson, output }, { command: 'try', document: { title, checks, counts }, text, code })
  }
  return { add, close }
}
