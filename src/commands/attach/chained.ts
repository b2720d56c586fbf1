// SPDX-License-Identifier: Apache-2.0
// ADD after another plugin of the list: no interface is made, the features act on the one in prevResult. It is
// looked at first and everything is decided; only then is anything changed.

import { isDeepStrictEqual } from 'node:util'
import { bareAddress, familyOf } from '../../cni/model/address.ts'
import { CniError } from '../../cni/model/error.ts'
import type { Result } from '../../cni/model/result.ts'
import type { AttachmentSpec, NetworkSpec } from '../../plan/model/attachment.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { afterRuleOps, hostOps, podOps, podSysctlOps, queueingOps } from '../../plan/modes/attach.ts'
import {
  addressesOf,
  asksForAnything,
  type ChainedSurroundings,
  chainedNetwork,
  chainedResult,
  chainedSpec,
  hostLinksOf,
} from '../../plan/modes/chained.ts'
import { mergeNetworks } from '../../plan/modes/resolve.ts'
import { sharesRules } from '../../plan/modes/shared.ts'
import { acceptedOf } from '../../plan/rules/host-accept.ts'
import { chainedFiles } from '../../system/files/state.ts'
import { deleteEarlierFlows } from '../../system/kernel/conntrack.ts'
import { execute } from '../../system/kernel/execute.ts'
import type { OpenNetns } from '../../system/kernel/netns.ts'
import { observePod, observeQueues } from '../../system/kernel/observe.ts'
import { observeWays } from '../../system/kernel/observe-ways.ts'
import { finish, readNetwork, writePending } from '../../system/store/records.ts'
import { type Addition, claimFor, reservePortsOf, undoneOnError } from './claim.ts'
import { listenerLook } from './listener-look.ts'
import { sayRules } from './say-rules.ts'
import { setUpShared } from './shared-setup.ts'

/** A chained ADD under way. */
interface Chaining extends Addition {
  readonly record: AttachmentRecord
  readonly netns: OpenNetns
  readonly prevResult: Result
}

/** Adds what the configuration asks for to the interface of prevResult. Throws CniError as plan/modes/chained.ts and add.ts say. */
export async function addChained(addition: Addition, netns: OpenNetns): Promise<Result> {
  const { conf, files, key } = addition
  const { prevResult } = conf
  if (prevResult === undefined) {
    throw new CniError('chained-first', 'mode: "chained" needs a prevResult', {
      details: 'put this plugin after the one that makes the interface, or leave "mode" out',
    })
  }
  const record = await claimFor(addition, netns.stamp)
  if (!asksForAnything(conf, readNetwork(chainedFiles(files)))) {
    finish(files, key)
    return prevResult
  }
  return await undoneOnError(addition, record, () => change({ ...addition, record, netns, prevResult }))
}

async function change(chaining: Chaining): Promise<Result> {
  const { context, conf, files, key, prevResult, record, netns } = chaining
  const seen = await look(chaining)
  const spec = chainedSpec({ key, conf, prevResult, seen })
  await refuseOthersQueues(chaining, spec)
  await reservePortsOf(chaining, spec)
  const known = readNetwork(chainedFiles(files))
  const network = mergeNetworks(known, chainedNetwork(conf, spec, seen.host), false)
  writePending(files, { ...record, spec, network })
  const place = { run: context.run, netnsFd: netns.fd }
  const lookBeside = listenerLook(conf, spec)
  const isSteady =
    isDeepStrictEqual(known, network) ||
    (known === undefined && !sharesRules(network) && acceptedOf(network).length === 0)
  const links = [
    execute(place, [...hostOps(spec), ...queueingOps(spec)]),
    execute(place, [...podOps(spec), ...podSysctlOps(spec)]),
  ]
  const rules = isSteady ? sayRules(context, spec) : setUpRules(chaining, network)
  const begun = Promise.all(isSteady ? links : [...links, rules])
  const changes = await Promise.allSettled([...links, rules, begun.then(() => lookBeside('nft'))])
  for (const each of changes) if (each.status === 'rejected') throw each.reason
  await execute(place, afterRuleOps(spec))
  await Promise.all([deleteEarlierFlows(context.run, spec.hostPorts?.ports ?? []), lookBeside('conntrack')])
  finish(files, key)
  return chainedResult(prevResult, spec)
}

/** Pod and host side by side: a process each, and one more for IPv6 rules where sbr is set. */
async function look({ context, conf, key, netns, prevResult }: Chaining): Promise<ChainedSurroundings> {
  const ips = addressesOf(prevResult, key.ifName)
  const isV6 = ips.some(({ address }) => familyOf(address) === 6)
  const families = conf.sbr === undefined ? [] : isV6 ? ([4, 6] as const) : ([4] as const)
  const addresses = conf.portMappings.length === 0 ? [] : ips.map(({ address }) => bareAddress(address))
  const [pod, { host, ways }] = await Promise.all([
    observePod(context.run, netns.fd, families),
    observeWays(context.run, { names: hostLinksOf(prevResult), addresses }),
  ])
  return { pod, host, ways }
}

/** A limit that somebody else has set there would be lost, and its removal would be ours to answer for. */
async function refuseOthersQueues({ context }: Chaining, { bandwidth }: AttachmentSpec): Promise<void> {
  if (bandwidth === undefined) return
  const queue = (await observeQueues(context.run, [bandwidth.link])).get(bandwidth.link)
  const found = queue?.root ?? (queue?.hasIngress && bandwidth.egress ? 'ingress' : undefined)
  if (found === undefined) return
  throw new CniError('bandwidth-set-already', `bandwidth: ${bandwidth.link} has a qdisc already (${found})`, {
    details: `another plugin of the list limits this link, or an agent does; let one of them do it: tc qdisc show dev ${bandwidth.link}`,
  })
}

async function setUpRules({ context, files, netns }: Chaining, network: NetworkSpec): Promise<void> {
  await setUpShared(context, { files: chainedFiles(files), network, own: [], netnsFd: netns.fd, namesSubnets: false })
}
