// SPDX-License-Identifier: Apache-2.0
// Parts of a call that the build cannot run as a whole: a network with a gateway would switch this machine's
// forwarding on, and a usual ADD needs a bridge that is there. Here orders are carried out without such settings.

import { closeSync } from 'node:fs'
import type { Invocation } from '../cni/model/invocation.ts'
import type { NetConf } from '../cni/model/net-conf.ts'
import { doorOf } from '../commands/attach/door.ts'
import { intentFor } from '../commands/attach/intent.ts'
import { carryOut } from '../commands/call/carry-out.ts'
import type { CallContext } from '../commands/call/context.ts'
import { toLanes } from '../compile/batches.ts'
import { readDocuments, readLinks, readRoutes } from '../compile/read-ip.ts'
import { readTable } from '../compile/read-nft.ts'
import { difference } from '../plan/difference/difference.ts'
import type { AttachmentSpec, NetworkSpec } from '../plan/model/attachment.ts'
import type { Op } from '../plan/model/op.ts'
import { teardownOps } from '../plan/modes/attach.ts'
import { buildNetworkSpec, buildSpec } from '../plan/modes/build-spec.ts'
import { forwardingKey } from '../plan/modes/network.ts'
import { expectedOps } from '../plan/order/expected.ts'
import type { AddFacts } from '../plan/order/facts.ts'
import { nextOfAdd } from '../plan/order/next.ts'
import type { Step } from '../plan/order/stage.ts'
import { flowsAfterDel } from '../plan/recovery/orphan-flows.ts'
import { decodeNetwork, encodeNetwork } from '../plan/state/stored-network.ts'
import { decodeRecord, encodeRecord } from '../plan/state/stored-record.ts'
import { networkFiles } from '../system/files/state.ts'
import { deleteFlows } from '../system/kernel/conntrack.ts'
import { linkCommands } from '../system/kernel/execute.ts'
import type { Door } from '../system/kernel/run-plan.ts'
import { prestart } from '../system/process/prestart.ts'
import { inFiles } from '../system/process/runner.ts'

/** A pod network in the short form, with what a pod may ask for. */
export const podNetwork = {
  cniVersion: '1.1.0',
  name: 'warm-up',
  type: 'trestle',
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  firewall: { ingressPolicy: 'same-bridge' },
  bandwidth: { ingressRate: 1e8, ingressBurst: 1e7 },
  runtimeConfig: { portMappings: [{ hostPort: 1, containerPort: 80, protocol: 'udp' }] },
}

const link = {
  ifname: 'warm-up0',
  ifindex: 1,
  address: '0a:58:0a:f0:00:02',
  mtu: 1500,
  flags: ['UP'],
  ifalias: 'warm-up',
  master: 'warm-up1',
  link_index: 2,
  linkinfo: { info_kind: 'veth', info_slave_data: { hairpin: true, isolated: false } },
  addr_info: [{ local: '10.240.0.1', prefixlen: 24 }],
}
const route = { dst: 'default', gateway: '10.240.0.1', dev: 'eth0', protocol: 'static', scope: 'link', table: 'main' }

const linkListing = `${JSON.stringify([link])}\n${JSON.stringify([route])}\n`

/** What `nft -j` answers in the warm-up. */
export const tableListing = JSON.stringify({
  nftables: [
    { chain: { name: 'forward' } },
    { rule: { chain: 'forward', comment: 'none' } },
    { set: { name: 'masq4', elem: [{ prefix: { addr: '10.240.0.0', len: 24 } }, { concat: ['tcp', 1] }] } },
  ],
})

/**
 * A call whose tools are harmless: two ADDs of `conf`, the first of the network and a usual one; then what CHECK and
 * DEL plan.
 */
export async function warmUpOrders(context: CallContext, call: Invocation, conf: NetConf): Promise<void> {
  for (const containerId of ['warm-up-1', 'warm-up-2']) {
    const key = { network: conf.name, containerId, ifName: call.ifName, role: conf.role }
    const addition = { context, call, conf, key, files: networkFiles(conf.name) }
    const netns = context.openNetns(call.netns)
    const record = await intentFor(addition, netns.identity)
    const real = doorOf({ ...addition, record, netns })
    const door: Door = async (run) => {
      const learnt = await real(run)
      // As if the bridge were there: the second ADD finds the network as it is to be.
      return learnt?.known ? { known: { ...learnt.known, hasBridge: true, forwarding: [4, 6] } } : learnt
    }
    const facts: AddFacts = { key, conf, netns: call.netns, mtu: 1500, machineId: '', learnt: {}, runs: [] }
    const prestarted = prestart(inFiles(context.run), linkCommands(netns.fd))
    const place = { run: prestarted.run, netnsFd: netns.fd, prestarted }
    await carryOut(context, { place, door, next: (now: AddFacts) => withoutFiles(nextOfAdd(now)) }, facts)
    await prestarted.discard()
    closeSync(netns.fd)
  }
  await warmUpComparing(context, conf)
}

/** The build must not change a setting of this machine. */
function withoutFiles(step: Step): Step {
  if (!('stages' in step)) return step
  const isFile = ({ kind }: Op) => kind === 'forwarding.on' || kind === 'sysctl.write'
  const stages = step.stages.map(({ run, ...stage }) => ({
    ...stage,
    run: run.kind === 'batch' ? { ...run, ops: run.ops.filter((op) => !isFile(op)) } : run,
  }))
  return { ...step, stages }
}

async function warmUpComparing(context: CallContext, conf: NetConf): Promise<void> {
  const key = { network: conf.name, containerId: 'warm-up', ifName: 'eth0', role: 'main' } as const
  const ips = [
    { address: '10.240.0.2/24', gateway: '10.240.0.1' },
    { address: 'fd00:240::2/64', gateway: 'fd00:240::1' },
  ]
  const spec = buildSpec({ key, conf, lease: { ips, routes: [] }, mtu: 1500 })
  const network = buildNetworkSpec(conf, spec.ips, { mtu: 1500, machineId: '' })
  warmUpRecord(spec, network)
  const ops = expectedOps(spec, network, { all: [network] })
  toLanes(ops)
  toLanes(teardownOps(spec, 1))
  const documents = readDocuments(linkListing)
  const seen = { links: readLinks(documents), routes: readRoutes(documents) }
  const sysctls = new Map([[forwardingKey(4), '0']])
  difference(ops, { host: seen, pod: seen, sysctls, table: readTable(tableListing) })
  await deleteFlows(context.run, flowsAfterDel(spec.hostPorts?.ports ?? []))
}

/** A record is written and read; with all that a pod may have, and as one cut short. */
function warmUpRecord(spec: AttachmentSpec, network: NetworkSpec): void {
  const writer = { pid: 1, startTime: '', bootId: '', pidNamespace: '' }
  const tuning = { sysctl: { 'net/ipv4/ip_unprivileged_port_start': '0' }, promisc: false }
  const ids = { key: spec.key, writer, netns: { path: '', inode: 0 }, createdAt: '', configDigest: '' }
  decodeRecord(encodeRecord({ ...ids, spec: { ...spec, tuning }, network }))
  decodeNetwork(encodeNetwork(network))
  decodeRecord('{}')
}
