// SPDX-License-Identifier: Apache-2.0
// Parts of a call that the build cannot run as a whole: a network with a gateway would switch this machine's
// forwarding on, and a usual ADD needs a bridge that is there. They run here one by one, on made-up data.

import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NetConf } from '../cni/model/net-conf.ts'
import { sayRules } from '../commands/attach/say-rules.ts'
import type { CallContext } from '../commands/call/context.ts'
import { toLanes } from '../compile/batches.ts'
import { readDocuments, readLinks, readRoutes } from '../compile/read-ip.ts'
import { readTable } from '../compile/read-nft.ts'
import { difference } from '../plan/difference/difference.ts'
import type { AttachmentSpec, NetworkSpec } from '../plan/model/attachment.ts'
import type { Op } from '../plan/model/op.ts'
import { afterRuleOps, detachOps, hostOps, podOps, queueingOps } from '../plan/modes/attach.ts'
import { forwardingKey } from '../plan/modes/network.ts'
import { attachmentSpec, mergeNetworks, networkSpec } from '../plan/modes/resolve.ts'
import { bridgeOps, ruleOps, steadyBridgeOps, steadyRuleOps } from '../plan/modes/shared.ts'
import { flowsAfterDel } from '../plan/recovery/stale-flows.ts'
import { decodeNetwork, encodeNetwork } from '../plan/state/stored-network.ts'
import { decodeRecord, encodeRecord } from '../plan/state/stored-record.ts'
import { deleteEarlierFlows, deleteFlows } from '../system/kernel/conntrack.ts'
import { writeAll } from '../system/process/output.ts'
import { readStdin } from '../system/process/stdin.ts'

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

/** Plans `conf` as ADD, CHECK and DEL do, and says rules and flows with the context's harmless tools. */
export async function warmUpPlan(context: CallContext, conf: NetConf): Promise<void> {
  const key = { network: conf.name, containerId: 'warm-up', ifName: 'eth0', role: 'main' } as const
  const ips = [
    { address: '10.240.0.2/24', gateway: '10.240.0.1' },
    { address: 'fd00:240::2/64', gateway: 'fd00:240::1' },
  ]
  const spec = attachmentSpec({ key, conf, lease: { ips, routes: [] }, mtu: 1500 })
  const wanted = networkSpec(conf, spec.ips, { mtu: 1500, machineId: '' })
  const network = mergeNetworks(wanted, wanted, true)
  warmUpRecord(spec, network)
  const source = { networks: [network], attachments: [spec] }
  const links = [...bridgeOps(network, [spec]), ...hostOps(spec), ...queueingOps(spec), ...afterRuleOps(spec)]
  const ops: readonly Op[] = [...links, ...podOps(spec), ...ruleOps(source), ...steadyRuleOps(source)]
  toLanes([...steadyBridgeOps(network), ...ops])
  toLanes(detachOps(spec, 1))
  const documents = readDocuments(linkListing)
  const seen = { links: readLinks(documents), routes: readRoutes(documents) }
  const sysctls = new Map([[forwardingKey(4), '0']])
  difference(ops, { host: seen, pod: seen, sysctls, table: readTable(tableListing) })
  await sayRules(context, spec)
  const ports = spec.hostPorts?.ports ?? []
  await deleteEarlierFlows(context.run, ports)
  await deleteFlows(context.run, flowsAfterDel(ports))
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

/** Reads a file as if it were standard input, and writes to where nobody reads. */
export async function warmUpEdge(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'trestle-warm-up-'))
  try {
    writeFileSync(join(directory, 'stdin'), '{}')
    await readStdin({ endsAtMs: performance.now() + 1000 }, openSync(join(directory, 'stdin'), 'r'))
    writeAll(openSync('/dev/null', 'w'), '{}\n')
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
