// SPDX-License-Identifier: Apache-2.0
// The spec of an attachment without a record, as the kernel shows it.

import { linkNameProblem, unsafeNameProblem } from '../cni/addresses.ts'
import { attachmentDigest, hostLinkName, readAlias } from '../drivers/names.ts'
import { type AttachmentId, emptySpec, type Spec } from '../drivers/spec.ts'
import { lookAtHost, lookAtPod, lookAtTable } from '../kernel/look.ts'
import type { OpenNetns } from '../kernel/netns.ts'
import { linkExists } from '../kernel/proc.ts'
import { limitsOf, specOf } from '../state/recover.ts'
import type { Context } from './context.ts'

/** An attachment that the host shows nothing of: its mode, its device, and CNI_NETNS. */
export interface UnrecordedPod {
  readonly mode: 'macvlan' | 'host-device'
  readonly device?: string
  readonly netns: string
}

type OpenPod = Omit<UnrecordedPod, 'netns'> & { readonly netns: OpenNetns | undefined }

/** The spec that the kernel shows: links by their names, elements by their comments, a device by its alias. */
export async function specWithoutRecord(id: AttachmentId, context: Context, pod?: OpenPod): Promise<Spec> {
  const { machine } = context
  if (pod?.mode === 'macvlan') return { ...emptySpec(id, 'macvlan'), givenElements: [] }
  if (pod?.mode === 'host-device')
    return { ...emptySpec(id, 'host-device'), ...(await deviceByAlias(id, pod, context)), givenElements: [] }
  const host = hostLinkName(id)
  const tables = await Promise.all([lookAtTable(machine, 'inet'), lookAtTable(machine, 'bridge')])
  const digest = ` ${attachmentDigest(id)}`
  const givenElements = tables
    .flatMap((table) => [...(table?.elements.values() ?? [])])
    .filter(({ comment }) => comment.endsWith(digest))
  const link = id.role === 'main' && linkExists(host) ? (await lookAtHost(machine, [host])).links.get(host) : undefined
  if (link !== undefined) return specOf(id, link, readAlias(host, link.alias)?.addresses ?? [], givenElements)
  const spec = { ...emptySpec(id, id.role === 'main' ? ('bridge' as const) : id.role), givenElements }
  return id.role === 'ipam' ? spec : { ...spec, ...limitsOf(id, host) }
}

/** A device of the host in the pod has its name there as alias. */
async function deviceByAlias(
  { ifName }: AttachmentId,
  { device, netns }: OpenPod,
  { machine }: Context,
): Promise<Pick<Spec, 'device'>> {
  const inPod = netns && (await lookAtPod(machine, netns)).pod.links.get(ifName)
  const name = device ?? inPod?.alias
  if (name === undefined || (linkNameProblem(name) ?? unsafeNameProblem(name)) !== undefined) return {}
  return { device: { name, mac: '', mtu: 0, up: false, ...(inPod?.kind ? { kind: inPod.kind } : {}) } }
}
