// SPDX-License-Identifier: Apache-2.0
// What an ADD does apart from operations, as its order asks (plan/order): looks, state, a delegated plugin, waits.

import { defined } from '../../cni/model/defined.ts'
import type { Invocation } from '../../cni/model/invocation.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import { withExcluded } from '../../plan/ipam/range-overlap.ts'
import { tablesInUse } from '../../plan/link/sbr.ts'
import type { AttachmentKey, AttachmentSpec } from '../../plan/model/attachment.ts'
import { ifbName } from '../../plan/model/names.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { gatewaySide } from '../../plan/modes/build-spec.ts'
import { chainedConf } from '../../plan/modes/chained.ts'
import type { Master } from '../../plan/modes/driver.ts'
import { bridgeOf, interfaceConf, masterOf } from '../../plan/modes/drivers.ts'
import type { Learnt, Ranges } from '../../plan/order/facts.ts'
import type { LookRun, OtherRun, StateRun } from '../../plan/order/stage.ts'
import { type NamesIn, namesIn } from '../../system/files/files.ts'
import { chainedFiles, type NetworkFiles } from '../../system/files/state.ts'
import { claim, delegatedLease, type LeaseRequest, ownLease } from '../../system/ipam/ipam.ts'
import { deleteFlows, earlierFlows } from '../../system/kernel/conntrack.ts'
import type { Place } from '../../system/kernel/execute.ts'
import { isWireless, linkExists } from '../../system/kernel/kernel-files.ts'
import { reportListeners } from '../../system/kernel/listening.ts'
import type { OpenNetns } from '../../system/kernel/netns.ts'
import { observeHost, observePod, observeQueues } from '../../system/kernel/observe.ts'
import type { Door } from '../../system/kernel/run-plan.ts'
import { uplinkName } from '../../system/kernel/uplink.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { allNetworks, finish, pendingFile, readNetwork, writePending } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { machineLock } from '../call/machine-lock.ts'
import { healBeforeAdd } from '../recover/heal.ts'
import { reclaimOrphans } from '../recover/orphan-reservations.ts'
import { reclaimDead } from '../teardown/teardown.ts'
import { lookAround } from './chained-look.ts'
import { waitForDad } from './duplicate-addresses.ts'
import { reservePortsOf } from './intent.ts'
import { lookAtKnown, networkDoor } from './network-door.ts'
import { holderElsewhere, holderHere, requireApart } from './range-overlap.ts'

/** An attachment being made. */
export interface Attaching {
  readonly context: CallContext
  readonly call: Invocation
  readonly conf: NetConf
  readonly files: NetworkFiles
  readonly key: AttachmentKey
  readonly record: AttachmentRecord
  /** Absent in the role of IPAM. */
  readonly netns?: OpenNetns
  /** Links, records and addresses, each looked at once. */
  readonly names: NamesIn
}

/** The door of one ADD. */
export function doorOf(attaching: Attaching): Door {
  const ranges: { latest?: Ranges } = {}
  return async (run) => {
    const { context, files } = attaching
    // Chained attachments share other things than those we made.
    const sharing = attaching.key.role === 'chained' ? chainedFiles(files) : files
    const shared = await networkDoor(context, sharing, placeOf(attaching), run)
    if (shared !== 'other') return shared
    const learnt = await ownDoor(attaching, run, ranges.latest)
    if (learnt?.ranges !== undefined) ranges.latest = learnt.ranges
    return learnt
  }
}

async function ownDoor(attaching: Attaching, run: OtherRun, ranges: Ranges | undefined): Promise<Learnt | undefined> {
  const { context } = attaching
  switch (run.kind) {
    case 'look':
      return await look(attaching, run)
    case 'state':
      return await write(attaching, run, ranges)
    case 'delegate':
      return { delegated: await delegatedOf(attaching, run.type) }
    case 'wait':
      if (run.until === 'rebuilds') throw new Error('an ADD waits for no rebuilds')
      if (run.until === 'refill') return await waitForRefill(context, run.spec)
      return await waitForDad(context, podOf(attaching), run.spec.key.ifName).then(() => undefined)
    case 'flows':
      if (run.verb === 'list') return { flows: await earlierFlows(context.run, run.flows, run.ports) }
      return await deleteFlows(context.run, run.flows).then(() => undefined)
    default:
      throw new Error(`an ADD has nothing to do with ${run.kind}`)
  }
}

async function look(attaching: Attaching, run: LookRun): Promise<Learnt | undefined> {
  const { context, conf, key, files } = attaching
  switch (run.what) {
    case 'ranges':
      return {
        ranges: await requireApart(context, interfaceConf(conf), {
          key,
          network: gatewaySide(interfaceConf(conf), []),
          known: readNetwork(files),
        }),
      }
    case 'ranges of addresses':
      return {
        ranges: await requireApart(context, interfaceConf(conf), {
          key,
          network: run.network,
          known: readNetwork(files),
        }),
      }
    case 'routing tables':
      return { usedTables: tablesInUse(await observePod(context.run, podOf(attaching), run.families)) }
    case 'networks':
      return { networks: allNetworks(attaching.names) }
    case 'known':
      return { known: lookAtKnown(key.role === 'chained' ? chainedFiles(files) : files, bridgeOf(conf)) }
    case 'master':
      return { master: await lookAtMaster(context, masterOf(conf)?.master ?? uplinkName()) }
    case 'chained':
      return { seen: await lookAround({ run: context.run, netnsFd: podOf(attaching) }, chainedConf(conf), key.ifName) }
    case 'queues': {
      const othersQueue = (await observeQueues(context.run, [run.dev])).get(run.dev)
      return othersQueue && { othersQueue }
    }
    case 'listeners':
      reportListeners(run.spec.hostPorts?.ports ?? [])
      return undefined
    case 'orphan link':
      return { orphanLink: await lookAtOrphanLink(context, key, run.dev) }
    default:
      throw new Error(`an ADD does not look at ${run.what}`)
  }
}

/** Where its operations run. */
export function placeOf({ context, netns }: Pick<Attaching, 'context' | 'netns'>): Place {
  return { run: context.run, ...(netns && { netnsFd: netns.fd }) }
}

function podOf({ netns }: Attaching): number {
  if (netns === undefined) throw new Error('there is no pod in the role of IPAM')
  return netns.fd
}

async function write(attaching: Attaching, run: StateRun, ranges: Ranges | undefined): Promise<Learnt | undefined> {
  const { files, key, record } = attaching
  switch (run.what) {
    case 'addresses':
      return { lease: await leaseOf(attaching, ranges?.excluded ?? []) }
    case 'ports':
      await reservePortsOf(attaching, run.spec)
      return undefined
    case 'intent':
      writePending(files, { ...record, spec: run.spec, ...(run.network && { network: run.network }) })
      return undefined
    case 'finished':
      finish(files, key)
      return undefined
    default:
      throw new Error(`${run.what} are written with everything shared`)
  }
}

/** Addresses of our own. `excluded`: what other interfaces have of the ranges. */
async function leaseOf(attaching: Attaching, excluded: readonly string[]) {
  const { context, conf, files, names } = attaching
  const perPod = conf.ipam.kind === 'pool' ? conf.ipam.rangeSets.length : 0
  const isReserving = perPod > 0 || (conf.mode !== 'ipam' && conf.portMappings.length > 0)
  const isHealed = isReserving && (await healBeforeAdd(context, { files, conf, perPod, names }))
  const ipam = conf.ipam.kind === 'pool' ? withExcluded(conf.ipam, excluded) : conf.ipam
  return await ownLease(requestOf({ ...attaching, names: isHealed ? namesIn : names }, ipam))
}

/** Addresses of another plugin, which are reserved like our own: our pool knows nothing of them. */
async function delegatedOf(attaching: Attaching, type: string) {
  const { context, call, conf } = attaching
  const lease = await delegatedLease(context.run, conf, { type, path: call.path })
  await claim(requestOf(attaching, conf.ipam), lease.ips)
  return lease
}

function requestOf({ context, conf, files, key, names }: Attaching, ipam: NetConf['ipam']): LeaseRequest {
  const reclaim = async () => {
    await reclaimDead(context, files)
    await reclaimOrphans(context, { network: key.network, isMain: key.role === 'main' })
  }
  const elsewhere = holderElsewhere(context, { conf, files, names })
  const here = holderHere(context, { conf, files, key })
  return { conf: { ...conf, ipam }, files, intentFile: pendingFile(files, key), reclaim, names, elsewhere, here }
}

async function lookAtMaster({ run }: CallContext, name = ''): Promise<Master> {
  const link = name !== '' && linkExists(name) ? (await observeHost(run, [name])).links.get(name) : undefined
  return { name, ...defined({ link }), isWireless: isWireless(name) }
}

async function lookAtOrphanLink({ run }: CallContext, key: AttachmentKey, dev: string) {
  if (!linkExists(dev)) return { alias: undefined, links: [] }
  const found = (await observeHost(run, [dev])).links.get(dev)
  // Of a limited pod the ifb stays when its veth goes.
  return { alias: found?.alias, links: [dev, ifbName(key)].filter(linkExists) }
}

/**
 * Who empties sets and fills them reads the records under the machine's lock: perhaps ours was not there yet. Whoever
 * takes the lock later finds it.
 */
async function waitForRefill(context: CallContext, { key }: AttachmentSpec): Promise<undefined> {
  const purpose = `say the rules of ${key.ifName} of container ${key.containerId}`
  await waitForHolder({ ...machineLock(context, purpose), deadline: context.work })
}
