// SPDX-License-Identifier: Apache-2.0
// `trestle doctor --probe`: two temporary pods of the list that the runtime uses, in the node's own network. An end
// beyond the node counts only if it answers the node itself.

import { randomBytes } from 'node:crypto'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { asObject, lookUp } from '../../cni/json.ts'
import { readDocuments } from '../../kernel/look.ts'
import { nowMs } from '../../process/clock.ts'
import { type Run, runnerUntil } from '../../process/runner.ts'
import { stateRoot } from '../../state/layout.ts'
import type { Configuration, Node } from '../doctor/observed-node.ts'
import { failureOf } from '../failure.ts'
import { readConfigurationText } from '../input-file.ts'
import { readNetworkList } from '../network-list.ts'
import { mapsPorts, type Pod, runIn, type Step, type Trial, withPods } from './pods.ts'
import { pingArgs, reachSteps, skipped, tried, type World } from './reach.ts'

export interface Probed {
  readonly network: string
  readonly file: string
  readonly steps: readonly Step[]
}

const stepTimeoutMs = 30_000

/**
 * Makes, probes and removes the pods, also when this process is told to end. Throws CniError 106 then, or an error with
 * the reason why no pods can be made.
 */
export async function probeNode({ configurations, options: { peer } }: Node): Promise<Probed> {
  const used = configurations.find(({ file }) => file !== undefined)
  if (used?.file === undefined) throw new Error('no runtime of this node uses a configuration')
  const { confDir, binDirs, file, network = '' } = used
  const why = whyNotProbeable(used)
  if (why !== undefined) throw new Error(`network ${network}: ${why}`)
  const steps: Step[] = []
  const list = readNetworkList(readConfigurationText(join(confDir, file)))
  const run: Run = (command) => runnerUntil({ endsAtMs: nowMs() + stepTimeoutMs })(command)
  const env = { TRESTLE_STATE_DIR: stateRoot() }
  let endedBy: string | undefined
  const onSignal = (signal: string) => {
    endedBy = signal
  }
  const trial: Trial = {
    runtime: { own: 'installed', run, network: list, cniPath: binDirs.join(':'), env },
    id: `probe-${randomBytes(6).toString('hex')}`,
    hostPort: mapsPorts({ network: list }) ? await freePort() : undefined,
    isEnded: () => endedBy !== undefined,
    // What is no finding is not worth a line.
    report: (step) => {
      if (step.outcome !== 'ok' || !['status', 'link', 'check', 'del'].includes(step.target)) steps.push(step)
    },
  }
  const outside = (pod: Pod, family: 4 | 6) => outsideStep(trial, pod, family)
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
  for (const signal of signals) process.on(signal, onSignal)
  // A running call of CNI is not cancelled: its result has to be known.
  await withPods(trial, {
    reach: async (pods) => {
      const portAddresses = pods[0]?.gateways ?? []
      const world: World = { routers: [], outside, portAddresses, askers: [{ who: 'the node' }], peer }
      steps.push(...(await reachSteps(trial, pods, world)))
    },
  })
  for (const signal of signals) process.off(signal, onSignal)
  if (endedBy === undefined) return { network, file, steps }
  throw failureOf('call-interrupted', `ended by ${endedBy}`, { details: 'the temporary pods are gone' })
}

/** Other plugins ask the API server for the pod, take a link of the node, or have one fixed address. */
function whyNotProbeable({ plugins }: Configuration): string | undefined {
  for (const { type, conf, isOwn } of plugins) {
    if (!isOwn && !chainable.includes(type)) return `the plugin ${type} may need more than its configuration`
    const ipam = lookUp(asObject(lookUp(conf, 'ipam')), 'type')
    if (ipam === undefined || ipam === 'host-local' || ipam === 'trestle') continue
    return `a temporary pod could not give back what the plugin ${ipam} hands out`
  }
  return plugins[0]?.isOwn === true ? undefined : 'the interface is of another plugin'
}

/** Reference plugins behind trestle that need only their own configuration. */
const chainable = ['portmap', 'firewall', 'bandwidth', 'tuning', 'sbr']

/** The gateway of the node's default route, where it answers the pings of the node. */
async function outsideStep(trial: Trial, from: Pod, family: 4 | 6): Promise<Step> {
  const what = `${from.label} to outside (IPv${family})`
  const { stdout } = await runIn(trial, '', ['ip', '-j', `-${family}`, 'route', 'show', 'default'])
  // A link-local address of another link is unreachable for forwarded packets (RFC 4291, 2.5.6).
  const address = readDocuments(stdout)
    .map(({ gateway }) => String(gateway))
    .find((each) => !/^(?:fe[89ab]|undefined)/i.test(each))
  if (address === undefined) return skipped(what, 'outside', `the node has no IPv${family} default route by a gateway`)
  const { code } = await runIn(trial, '', ['ping', ...pingArgs(address)])
  if (code !== 0) return skipped(what, 'outside', `${address} does not answer the pings of the node either`)
  const probe = { what: `${from.label} to outside: ${address}`, target: 'outside', address, way: 'ping' } as const
  return await tried(trial, { ...probe, netns: from.attachment.netns })
}

/** A port of the node without a listener. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
