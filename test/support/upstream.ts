// SPDX-License-Identifier: Apache-2.0
// Lists of an upstream plugin and trestle after it, run as libcni runs them: ADD forward, CHECK with the last
// result, DEL in reverse order.

import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type Answer, type Call, environment, type Finished, type Host, type Verb } from './host.ts'
import { expectSilent } from './outcome.ts'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')

/** Where scripts/peers.sh puts the upstream plugins. */
export const upstreamPlugins = join(process.env['TRESTLE_PEERS'] ?? join(cache, 'trestle-peers'), 'cni')

/** Why tests with these plugins cannot run, or undefined: for the title of what is skipped. */
export function missingPlugins(names: readonly string[]): string | undefined {
  const missing = names.filter((name) => !existsSync(join(upstreamPlugins, name)))
  return missing.length === 0 ? undefined : `skipped: no ${missing.join(', ')}; scripts/peers.sh cni builds them`
}

/** Runs an upstream plugin on the host: the one that the configuration names. */
export function upstream(host: Host, verb: Verb, sent: { conf: { type: string }; call: Call }): Finished {
  const env = environment(verb, { ...sent.call, path: upstreamPlugins })
  const words = Object.entries(env).map(([key, value]) => `${key}=${value}`)
  return host.run('env', [...words, join(upstreamPlugins, sent.conf.type)], JSON.stringify(sent.conf))
}

/** A list of two: `first` is an upstream plugin's configuration, `second` is trestle's. */
export interface Chain {
  readonly first: { readonly type: string }
  readonly second: object
}

/** A pod with the list run on it. `own`: the first plugin's result; `result`: the list's. */
export interface ChainedPod {
  readonly netns: string
  readonly call: Call
  readonly own: Answer
  readonly result: Answer
  /** Its first addresses, without prefix. */
  readonly address4: string
  readonly address6: string
}

/** ADD of the first plugin alone. */
export function attachFirst(host: Host, first: Chain['first'], given: Call = {}): ChainedPod {
  const call = { ...given, netns: given.netns ?? host.pod(given.id ?? 'c1') }
  const added = upstream(host, 'ADD', { conf: first, call })
  expect(added.code, `${added.stdout}${added.stderr}`).toBe(0)
  const own = added.json as Answer
  const bare = own.ips.map((ip) => ip.address.replace(/\/.*/, ''))
  const [address4 = '', address6 = ''] = [bare.find((ip) => !ip.includes(':')), bare.find((ip) => ip.includes(':'))]
  return { netns: call.netns, call, own, result: own, address4, address6 }
}

/** ADD of the list. */
export function attachChain(host: Host, chain: Chain, given: Call = {}): ChainedPod {
  const pod = attachFirst(host, chain.first, given)
  const added = host.cni('ADD', { ...chain.second, prevResult: pod.own }, pod.call)
  expect(added.code, `${added.stdout}${added.stderr}`).toBe(0)
  return { ...pod, result: added.json as Answer }
}

/** CHECK of the second plugin. */
export function checkSecond(host: Host, chain: Chain, pod: ChainedPod): Finished {
  return host.cni('CHECK', { ...chain.second, prevResult: pod.result }, pod.call)
}

/** DEL of the second plugin alone. */
export function detachSecond(host: Host, chain: Chain, pod: ChainedPod): void {
  expectSilent(host.cni('DEL', { ...chain.second, prevResult: pod.result }, pod.call))
}

/** DEL of the list, and again as containerd sends it: without namespace and prevResult. */
export function detachChain(host: Host, chain: Chain, pod: ChainedPod): void {
  detachSecond(host, chain, pod)
  const conf = { ...chain.first, prevResult: pod.result }
  expect(upstream(host, 'DEL', { conf, call: pod.call }).code).toBe(0)
  expectSilent(host.cni('DEL', chain.second, { ...pod.call, netns: '' }))
}
