// SPDX-License-Identifier: Apache-2.0
// What the throw-away pods reach, and who reaches them. Every step is one connection, or one question to a resolver.

import { bareAddress, familyOf } from '../../../cni/model/address.ts'
import { readDocuments } from '../../../compile/read-ip.ts'
import type { Run } from '../../../system/process/runner.ts'
import { thisProgram } from '../../shell/self.ts'
import { causeOf, type Target } from '../../try/causes.ts'
import type { Pod } from '../../try/pods.ts'
import { podPort, reach, resolveName } from './ends.ts'
import type { ProbePods } from './pods.ts'
import type { ProbeStep, ProbeTarget } from './probe-facts.ts'
import { type Family, nodeAddress, type Outside, outsideOf, pingArgs, resolversOf, type Way } from './targets.ts'

/** One probe. `from`, `to`: absent for the node itself. */
interface Probe {
  readonly what: string
  readonly target: ProbeTarget
  readonly address: string
  readonly way: Way | 'resolver'
  readonly from?: Pod
  readonly to?: Pod
}

/** Any port of the node does: it answers by a refusal, too. */
const gatewayPort = 9

/** All steps, at the same time. `run`: ends what it runs when the probe is called off. */
export async function reachSteps(run: Run, probe: ProbePods): Promise<readonly ProbeStep[]> {
  const [first, second] = probe.pods
  if (first === undefined) return []
  if (first.ips.length === 0) return [skipped('what pods reach', 'pod', 'the network gives no addresses')]
  const families = ([4, 6] as const).filter((family) => addressOf(first, family) !== undefined)
  const resolvers = resolversOf(resultResolvers(first))
  const parts = [
    ...probe.pods.flatMap(nodeProbes),
    ...gatewayProbes(first),
    ...(second === undefined ? [] : podProbes(first, second)),
    ...(second === undefined ? [] : portProbes(probe, first, second, families)),
  ]
  const [reached, ...beyond] = await Promise.all([
    Promise.all(parts.map((each) => tried(run, probe, each))),
    ...families.map((family) => outsideSteps(run, probe, { pod: first, family, resolvers })),
    ...resolvers.map((address) => resolverStep(run, probe, first, address)),
  ])
  const none = skipped('pod a asks a resolver, port 53', 'dns', 'no resolver of pods is known on this node')
  return [...(reached ?? []), ...beyond.flat(), ...(resolvers.length === 0 ? [none] : [])]
}

function nodeProbes(to: Pod): readonly Probe[] {
  return to.ips.map(({ address: cidr }) => {
    const address = bareAddress(cidr)
    return { what: `the node to ${to.label} (${address})`, target: 'node', address, way: { port: podPort }, to }
  })
}

function gatewayProbes(from: Pod): readonly Probe[] {
  return from.gateways.map((address) => {
    const what = `${from.label} to its gateway ${address}`
    return { what, target: 'gateway', address, way: { port: gatewayPort }, from }
  })
}

function podProbes(from: Pod, to: Pod): readonly Probe[] {
  return to.ips.map(({ address: cidr }) => {
    const address = bareAddress(cidr)
    return {
      what: `${from.label} to ${to.label} (${address})`,
      target: 'pod',
      address,
      way: { port: podPort },
      from,
      to,
    }
  })
}

function portProbes({ hostPort }: ProbePods, from: Pod, to: Pod, families: readonly Family[]): readonly Probe[] {
  if (hostPort === undefined) return []
  return families.flatMap((family): readonly Probe[] => {
    const address = nodeAddress(family, to.gateways) ?? to.gateways.find((each) => familyOf(each) === family)
    if (address === undefined) return []
    const about = { target: 'host-port', address, way: { port: hostPort }, to } as const
    const where = `host port ${hostPort} of ${to.label} (${address})`
    return [
      { ...about, what: `the node to ${where}` },
      { ...about, what: `${from.label} to ${where}`, from },
    ]
  })
}

interface Beyond {
  readonly pod: Pod
  readonly family: Family
  readonly resolvers: readonly string[]
}

async function outsideSteps(
  run: Run,
  probe: ProbePods,
  { pod, family, resolvers }: Beyond,
): Promise<readonly ProbeStep[]> {
  const what = `${pod.label} to outside (IPv${family})`
  const found: Outside = await outsideOf(run, family, resolvers)
  if ('why' in found) return [skipped(what, 'outside', found.why)]
  const { address, way } = found
  const how = way === 'ping' ? 'ping' : `port ${way.port}`
  return [
    await tried(run, probe, {
      what: `${pod.label} to outside: ${address}, ${how}`,
      target: 'outside',
      address,
      way,
      from: pod,
    }),
  ]
}

async function resolverStep(run: Run, probe: ProbePods, from: Pod, address: string): Promise<readonly ProbeStep[]> {
  const what = `${from.label} asks resolver ${address}, port 53`
  if (addressOf(from, familyOf(address)) === undefined) {
    return [skipped(what, 'dns', `the pod has no IPv${familyOf(address)} address`)]
  }
  const ofNode = await resolveName(address)
  if (ofNode !== undefined) return [skipped(what, 'dns', `it does not answer the node either: ${ofNode}`)]
  return [await tried(run, probe, { what, target: 'dns', address, way: 'resolver', from })]
}

async function tried(run: Run, probe: ProbePods, each: Probe): Promise<ProbeStep> {
  const { what, target, from } = each
  const failure = await failureOf(run, each)
  if (failure === undefined) return { what, target, outcome: 'ok' }
  if (target === 'gateway' && from !== undefined && (await isNeighbour(run, from, each.address))) {
    return skipped(what, target, `it is there, and the node does not answer pods (${failure})`)
  }
  const known = await knownCause(run, probe, each)
  return { what, target, outcome: 'failed', detail: `${what}: ${failure}`, ...(known === undefined ? {} : { known }) }
}

async function failureOf(run: Run, { from, address, way }: Probe): Promise<string | undefined> {
  if (from === undefined) return await reach(address, way === 'ping' || way === 'resolver' ? 0 : way.port)
  const { file, args } = thisProgram()
  const words = way === 'resolver' ? ['resolve', address] : ['reach', address, `${way === 'ping' ? 0 : way.port}`]
  const command = way === 'ping' ? ['ping', ...pingArgs(address)] : [file, ...args, '__probe-end', ...words]
  const { code, stdout, stderr } = await inPod(run, from, command)
  return code === 0 ? undefined : stderr.trim() || stdout.trim().split('\n').at(-1) || 'no answer'
}

/** Whether the pod knows the gateway's MAC: a firewall of the node may drop all that is for the node itself. */
async function isNeighbour(run: Run, pod: Pod, address: string): Promise<boolean> {
  const { stdout } = await inPod(run, pod, ['ip', '-j', 'neigh', 'show', address])
  return readDocuments(stdout).some(({ lladdr }) => typeof lladdr === 'string')
}

async function inPod(run: Run, { attachment }: Pod, [file = '', ...args]: readonly string[]) {
  return await run({ file: 'nsenter', args: [`--net=${attachment.netns}`, '--', file, ...args] })
}

const causeTargets: Readonly<Partial<Record<ProbeTarget, Target>>> = {
  gateway: 'gateway',
  pod: 'pod',
  outside: 'outside',
  dns: 'outside',
  'host-port': 'host-port',
}

async function knownCause(run: Run, { runtime }: ProbePods, { target, address, from, to }: Probe) {
  const meant = causeTargets[target]
  if (meant === undefined) return undefined
  const { stdout } = await run({ file: 'ip', args: ['-o', 'addr', 'show'] })
  const nodeAddresses = [...stdout.matchAll(/ inet6? ([^\s/]+)/g)].map(([, found = '']) => found)
  const pods = { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }
  return causeOf({ target: meant, family: familyOf(address), ...pods, network: runtime.network, nodeAddresses })
}

function addressOf({ ips }: Pod, family: Family): string | undefined {
  return ips.map(({ address }) => bareAddress(address)).find((address) => familyOf(address) === family)
}

function resultResolvers({ printed }: Pod): readonly string[] {
  const { dns } = printed as { readonly dns?: { readonly nameservers?: readonly unknown[] } }
  return (dns?.nameservers ?? []).flatMap((each) => (typeof each === 'string' ? [each] : []))
}

function skipped(what: string, target: ProbeTarget, detail: string): ProbeStep {
  return { what, target, outcome: 'skipped', detail }
}
