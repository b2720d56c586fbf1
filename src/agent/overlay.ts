// SPDX-License-Identifier: Apache-2.0
// What the cluster needs on the node beside routes: the overlay's device, and the ranges and addresses of other nodes in
// the rules. The device is one VXLAN-GPE link that takes each packet's destination from its route: it has no neighbours,
// no forwarding database and no MAC addresses that could be stale.

import { CniError, Code, oneLine } from '../cni/errors.ts'
import { type Cluster, clusterElements, readCluster } from '../features/network-elements.ts'
import { batchLine } from '../kernel/batch.ts'
import { elementKey } from '../kernel/nft-table.ts'
import { elementOps } from '../kernel/operation.ts'
import { stepsToAdd } from '../process/order.ts'
import type { Run } from '../process/runner.ts'
import { readableText, writeText } from '../state/files.ts'
import { clusterFile, machineLockFile } from '../state/layout.ts'
import { withLock } from '../state/lock.ts'
import type { Context } from '../verbs/context.ts'
import { restoreNetworks } from '../verbs/restore.ts'
import type { ClusterDecision } from './cluster.ts'
import type { Range } from './node-ranges.ts'
import { type OverlayDevice, overlayLink } from './routes.ts'
import type { OverlaySettings } from './settings.ts'

/** Lines of `ip -batch` that make the device as it is to be; none where it is. */
export function deviceChanges(
  device: OverlayDevice | undefined,
  { when, port }: OverlaySettings,
  { own, overlayMtu: mtu }: Pick<ClusterDecision, 'own' | 'overlayMtu'>,
): readonly (readonly string[])[] {
  if (when === 'never') return device === undefined ? [] : [['link', 'del', overlayLink]]
  const isOther = device !== undefined && (!device.isGpe || device.port !== port)
  const isNew = device === undefined || isOther
  // An address of the own range, never given out: strict rp_filter drops what comes from the node to pods without it.
  const wanted = own.map(sourceOf)
  const there = isNew ? [] : device.addresses
  const add = ['link', 'add', overlayLink, 'type', 'vxlan', 'external', 'gpe', 'dstport', `${port}`]
  return [
    ...(isOther ? [['link', 'del', overlayLink]] : []),
    // Packets over IPv6 have no checksum of their own: those inside have.
    ...(isNew ? [[...add, 'nolearning', 'udpcsum', 'udp6zerocsumtx', 'udp6zerocsumrx']] : []),
    ...(isNew || !device.isUp || device.mtu !== mtu ? [['link', 'set', overlayLink, 'mtu', `${mtu}`, 'up']] : []),
    // One of a former range is another node's by now.
    ...there.filter((each) => !wanted.includes(each)).map((each) => ['addr', 'del', each, 'dev', overlayLink]),
    ...wanted
      .filter((each) => !there.includes(each))
      .map((each) => ['addr', 'replace', each, 'dev', overlayLink, ...(each.includes(':') ? ['nodad'] : [])]),
  ]
}

/** The first address of a range, which is no pod's: the network's own. */
function sourceOf({ text, family }: Range): string {
  return `${text.slice(0, text.indexOf('/'))}/${family === 6 ? 128 : 32}`
}

/** Throws CniError 100 with what the kernel says. */
export async function changeDevice(run: Run, lines: readonly (readonly string[])[]): Promise<void> {
  if (lines.length === 0) return
  const { code, stderr } = await run({ file: 'ip', args: ['-batch', '-'], stdin: lines.map(batchLine).join('') })
  if (code === 0) return
  throw new CniError(Code.commandFailed, 'overlay-fails', `cannot make ${overlayLink}: ${oneLine(stderr)}`, {
    details: 'the overlay needs the kernel module vxlan and iproute2 with "gpe"; --overlay never does without',
  })
}

/**
 * What the rules have to know: ranges and addresses of the cluster, and the port of the overlay. `earlier`: further ranges of
 * pods here; `kept`: of other nodes.
 */
export function clusterOf(
  { own, peers }: Pick<ClusterDecision, 'own' | 'peers'>,
  { earlier, kept }: { readonly earlier: readonly Range[]; readonly kept: readonly Range[] },
  overlay: OverlaySettings,
): Cluster {
  const addresses = peers.flatMap((peer) => peer.addresses.map(({ text }) => text))
  return {
    pods: [...own, ...earlier].map(({ text }) => text),
    peers: [...new Set([...peers.flatMap(({ ranges }) => ranges), ...kept].map(({ text }) => text))].sort(),
    addresses: [...new Set(addresses)].sort(),
    ...(overlay.when === 'never' ? {} : { overlay: { port: overlay.port, link: overlayLink } }),
  }
}

/**
 * Changes the elements of the rules that are there, and writes the cluster down for every later set-up. False where it is as
 * it was.
 */
export async function setCluster(cluster: Cluster, open: () => Context): Promise<boolean> {
  const before = readCluster(readableText(clusterFile()) ?? '')
  if (JSON.stringify(before) === JSON.stringify(cluster)) return false
  const context = open()
  const lock = { file: machineLockFile(), purpose: 'set the ranges of the cluster', deadline: context.deadline }
  const isDone = await withLock(lock, async () => {
    const [was, now] = [before === undefined ? [] : clusterElements(before), clusterElements(cluster)]
    const [wasKeys, nowKeys] = [new Set(was.map(elementKey)), new Set(now.map(elementKey))]
    const gone = was.filter((element) => !nowKeys.has(elementKey(element)))
    const come = now.filter((element) => !wasKeys.has(elementKey(element)))
    const ops = [...elementOps(gone, 'element.delete'), ...elementOps(come)]
    const { failed } = await context.machine.run(stepsToAdd(ops), {})
    // Last: an agent that was killed before makes the same changes again.
    writeText(clusterFile(), JSON.stringify(cluster))
    return failed === undefined
  })
  // Without rules there is nothing to change; with others than were expected all of them are set up again.
  if (!isDone) await restoreNetworks(open())
  return true
}
