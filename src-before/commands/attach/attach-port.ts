// SPDX-License-Identifier: Apache-2.0
// The effects of an ADD on this machine: looks, state, addresses, a delegated plugin.

import { bareAddress, familyOf } from '../../cni/address.ts'
import type { ChainedNetConf, DeviceQuery, InterfaceNetConf, NetConf, OwnNetConf } from '../../config/net-conf.ts'
import { openedLink } from '../../drivers/attach.ts'
import { addressesOf, type ChainedSurroundings, hostLinksOf } from '../../drivers/chained.ts'
import type { Device } from '../../drivers/driver.ts'
import { bridgeOf } from '../../drivers/drivers.ts'
import { deviceInUse, hasDevice } from '../../drivers/host-device.ts'
import { tablesInUse } from '../../features/sbr.ts'
import type { AttachmentKey } from '../../model/attachment.ts'
import { ifbName } from '../../model/names.ts'
import { type AttachmentRecord, describeHolder, sameKey } from '../../model/record.ts'
import { withExcluded } from '../../plan/ipam/range-overlap.ts'
import { type NamesIn, namesIn } from '../../system/files/files.ts'
import { chainedFiles, directoryNameOf, type NetworkFiles, networkFiles } from '../../system/files/state.ts'
import { claim, delegatedLease, type LeaseRequest, ownLease } from '../../system/ipam/ipam.ts'
import { findDevice } from '../../system/kernel/devices.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import type { OpenNetns } from '../../system/kernel/netns.ts'
import { observeHost, observeHostLinks, observePod, observeQueues } from '../../system/kernel/observe.ts'
import type { PlanPlace } from '../../system/kernel/run-plan.ts'
import type { Run } from '../../system/process/runner.ts'
import { noteOpened } from '../../system/store/localnet.ts'
import {
  allNetworks,
  allRecords,
  finish,
  pendingFile,
  readNetwork,
  type StoredRecord,
  writePending,
} from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { reclaimOrphans } from '../recover/collect.ts'
import { healBeforeAdd } from '../recover/recover.ts'
import { isDead, reclaimDead, teardown } from '../teardown/attachments.ts'
import { type Addition, reservePortsOf } from './intent.ts'
import type { ChainedPort, InterfacePort, LeasePort, OrphanLink, PodPort } from './ports.ts'
import { holderElsewhere, holderHere, requireApart } from './range-overlap.ts'
import { lookAtKnown, sharedPort } from './shared-port.ts'

/** An attachment being made. `names`: links, records and addresses, each looked at once. */
export interface Attaching<Conf extends NetConf> extends Addition<Conf> {
  readonly record: AttachmentRecord
  readonly names: NamesIn
}

interface PodPlace {
  readonly netns: OpenNetns
  readonly place: PlanPlace
}

export function leasePort(attaching: Attaching<NetConf>): LeasePort {
  const { files, key, record } = attaching
  return {
    reserveAddresses: async (excluded) => await leaseOf(attaching, excluded),
    writeIntent: (spec, network) => {
      const opened = openedLink(spec)
      if (opened !== undefined) noteOpened(opened)
      writePending(files, { ...record, spec, ...(network && { network }) })
    },
    finish: () => finish(files, key),
  }
}

/** `sharing`: the files of the attachments that share the network: chained ones share other things than ours. */
function podPort(attaching: Attaching<OwnNetConf>, { place }: PodPlace, sharing: NetworkFiles): PodPort {
  const { context, conf, names } = attaching
  const { writeIntent, finish } = leasePort(attaching)
  return {
    ...sharedPort(context, place, sharing),
    writeIntent,
    finish,
    reservePorts: async (spec) => await reservePortsOf(attaching, spec),
    lookAtKnown: () => lookAtKnown(sharing, bridgeOf(conf)),
    networks: () => allNetworks(names),
  }
}

export function interfacePort(attaching: Attaching<InterfaceNetConf>, at: PodPlace): InterfacePort {
  const { context, conf, key, files } = attaching
  return {
    ...podPort(attaching, at, files),
    ...leasePort(attaching),
    lookAtDevice: async (query) => await lookAtDevice(attaching, query),
    lookAtRanges: async (network) => await requireApart(context, conf, { key, network, known: readNetwork(files) }),
    lookAtTables: async (families) => tablesInUse(await observePod(context.run, at.netns.fd, families)),
    delegate: async (type) => await delegatedOf(attaching, type),
    lookAtOrphanLink: async (dev) => await lookAtOrphanLink(context, key, dev),
  }
}

export function chainedPort(attaching: Attaching<ChainedNetConf>, at: PodPlace): ChainedPort {
  const { context, conf, key, files, names } = attaching
  return {
    ...podPort(attaching, at, chainedFiles(files)),
    reservePorts: async (spec) => {
      await healBeforeAdd(context, { files, conf, perPod: 0, names })
      return await reservePortsOf(attaching, spec)
    },
    lookAround: async () => await lookAround({ run: context.run, netnsFd: at.netns.fd }, conf, key.ifName),
    lookAtQueue: async (dev) => (await observeQueues(context.run, [dev])).get(dev),
  }
}

/** Addresses of our own. `excluded`: what other interfaces have of the ranges. */
async function leaseOf(attaching: Attaching<NetConf>, excluded: readonly string[]) {
  const { context, conf, files, names } = attaching
  const perPod = conf.ipam.kind === 'pool' ? conf.ipam.rangeSets.length : 0
  const isHealed = await healBeforeAdd(context, { files, conf, perPod, names })
  const ipam = conf.ipam.kind === 'pool' ? withExcluded(conf.ipam, excluded) : conf.ipam
  return await ownLease(requestOf({ ...attaching, names: isHealed ? namesIn : names }, ipam))
}

/** Addresses of another plugin, which are reserved like our own: our pool knows nothing of them. */
async function delegatedOf(attaching: Attaching<NetConf>, type: string) {
  const { context, call, conf } = attaching
  const lease = await delegatedLease(context.run, conf, { type, path: call.path })
  await claim(requestOf(attaching, conf.ipam), lease.ips)
  return lease
}

function requestOf({ context, conf, files, key, names }: Attaching<NetConf>, ipam: NetConf['ipam']): LeaseRequest {
  const reclaim = async () => {
    await reclaimDead(context, files)
    await reclaimOrphans(context, { network: directoryNameOf(files), isMain: key.role === 'main' })
  }
  const elsewhere = holderElsewhere(context, { conf, files, names })
  const here = holderHere(context, { conf, files, key })
  return { conf: { ...conf, ipam }, files, intentFile: pendingFile(files, key), reclaim, names, elsewhere, here }
}

/** A dead pod gives its device back; what a live one has is refused. Throws CniError 7. */
async function lookAtDevice({ context, key }: Attaching<NetConf>, query: DeviceQuery): Promise<Device> {
  const found = await findDevice(context.run, query)
  if (query.key === 'master') return found
  const has = ({ record }: StoredRecord) =>
    record.spec !== undefined && !sameKey(record.key, key) && hasDevice(record.spec, query, found.link)
  const holder = allRecords().find(has)
  if (holder === undefined) return found
  if (!isDead(holder, context)) throw deviceInUse(query, describeHolder(holder.record))
  await teardown(context, networkFiles(holder.record.key.network), holder.record)
  return await findDevice(context.run, query)
}

async function lookAtOrphanLink({ run }: CallContext, key: AttachmentKey, dev: string): Promise<OrphanLink> {
  if (!linkExists(dev)) return { alias: undefined, links: [] }
  const found = (await observeHost(run, [dev])).links.get(dev)
  // Of a limited pod the ifb stays when its veth goes.
  return { alias: found?.alias, links: [dev, ifbName(key)].filter(linkExists) }
}

// What is around an interface that another plugin made.

/** Pod and host side by side: a process each, and one more for IPv6 rules where sbr is set. `dev`: the interface. */
async function lookAround(
  { run, netnsFd }: { readonly run: Run; readonly netnsFd: number },
  conf: ChainedNetConf,
  dev: string,
): Promise<ChainedSurroundings> {
  const prevResult = conf.prevResult ?? { interfaces: [], ips: [], routes: [] }
  const ips = addressesOf(prevResult, dev)
  const isV6 = ips.some(({ address }) => familyOf(address) === 6)
  const families = conf.sbr === undefined ? [] : isV6 ? ([4, 6] as const) : ([4] as const)
  const asksForWay = conf.portMappings.length > 0 || conf.firewall !== undefined
  const addresses = asksForWay ? ips.map(({ address }) => bareAddress(address)) : []
  const [pod, { host, hostLinks }] = await Promise.all([
    observePod(run, netnsFd, families),
    observeHostLinks(run, { names: hostLinksOf(prevResult), addresses }),
  ])
  return { pod, host, hostLinks }
}
