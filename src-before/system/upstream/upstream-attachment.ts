// SPDX-License-Identifier: Apache-2.0
// What the upstream plugins keep for one attachment, found by their files, and taken away: a node that
// was switched to trestle sends us the DEL of pods which they made (docs/design.md, "DEL").

import { rmSync } from 'node:fs'
import { bareAddress } from '../../cni/address.ts'
import { orElse } from '../../cni/error.ts'
import { readPrevResult } from '../../cni/result-shapes.ts'
import type { DelConf } from '../../config/net-conf.ts'
import type { AttachmentKey } from '../../model/attachment.ts'
import { hostLinkName } from '../../model/names.ts'
import { type CachedAttachment, cachedAddresses, endsOf, isPartOurs } from '../../plan/upstream/libcni-cache.ts'
import { isUpstreamLinkName, type UpstreamOwner, upstreamNames } from '../../plan/upstream/upstream-rules.ts'
import { podNetns, readDocuments, readLinks } from '../../tools/ip.ts'
import { networkDirectories } from '../files/state.ts'
import { linkExists } from '../kernel/kernel-files.ts'
import { closeNetns, type OpenNetns } from '../kernel/netns.ts'
import { observeHost } from '../kernel/observe.ts'
import type { Run } from '../process/runner.ts'
import { holderOf } from '../store/addresses.ts'
import { addressesHeld, isLeasedElsewhere, releaseUpstreamAddresses } from './host-local-leases.ts'
import { cachedAttachment } from './read-libcni-cache.ts'
import { removeUpstreamRules } from './remove-rules.ts'

/** Where the tuning plugin keeps what it changed. */
const tuningDirectory = '/run/cni/tuning'

/** What is known of an attachment of the upstream chain. `host`, `pod`: the ends of its pair, by name and MAC. */
interface UpstreamAttachment {
  readonly key: AttachmentKey
  readonly dataDir: string
  readonly addresses: readonly string[]
  readonly host?: LinkIdentity
  readonly pod?: LinkIdentity
}

interface LinkIdentity {
  readonly name: string
  readonly mac?: string
}

/** Opens the pod's namespace; throws when there is none. */
type OpenPod = () => OpenNetns

/**
 * The attachment as the upstream chain made it; undefined when none of its files speaks of it. Looks at
 * files only: the usual second DEL ends here, without a process.
 */
export function findUpstream(key: AttachmentKey, conf: DelConf, dataDir: string): UpstreamAttachment | undefined {
  const held = addressesHeld(dataDir, key.network, key)
  const cached = cachedAttachment(key)
  // In a chain that we are part of, the other plugins get a DEL of their own.
  if (cached !== undefined && isPartOurs(cached, conf)) return undefined
  const known = cached ?? previousOf(key, conf)
  const ends = known === undefined ? { host: undefined, pod: undefined } : endsOf(known)
  const isTheirs = ends.host !== undefined && isUpstreamLinkName(ends.host.name) && ends.host.name !== hostLinkName(key)
  if (held.length === 0 && !isTheirs) return undefined
  return {
    key,
    dataDir,
    addresses: [...new Set([...held, ...(known === undefined ? [] : cachedAddresses(known))])],
    ...(isTheirs && ends.host !== undefined ? { host: ends.host } : {}),
    ...(ends.pod === undefined ? {} : { pod: ends.pod }),
  }
}

/**
 * Takes away everything that the upstream plugins keep for the attachment. Returns what failed; the
 * reservations stay until all else is gone, so that nobody gets an address which rules still speak of.
 */
export async function removeUpstream(
  run: Run,
  found: UpstreamAttachment,
  openPod?: OpenPod,
): Promise<readonly Error[]> {
  const { key, addresses, dataDir } = found
  const accepts = addresses.filter((address) => !isHeldByOther(found, address))
  const owner: UpstreamOwner = { ...key, addresses, accepts }
  const results = await Promise.allSettled([removeLinks(run, found, openPod), removeUpstreamRules(run, [owner])])
  const failures = results.flatMap((result): readonly Error[] =>
    result.status === 'rejected' ? [result.reason] : (result.value ?? []),
  )
  if (failures.length === 0) forgetUpstream(key, dataDir)
  return failures
}

/** Removes the reservations and the tuning plugin's backup: there is nothing left to restore. */
export function forgetUpstream(key: Pick<AttachmentKey, 'network' | 'containerId' | 'ifName'>, dataDir: string): void {
  rmSync(`${tuningDirectory}/${key.containerId}_${key.ifName}.json`, { force: true })
  releaseUpstreamAddresses(dataDir, key.network, key)
}

/** prevResult as DEL has it, where libcni's cache is elsewhere; the host link it names must exist. */
function previousOf(key: AttachmentKey, conf: DelConf): Pick<CachedAttachment, 'result' | 'ifName'> | undefined {
  try {
    const { prevResult } = JSON.parse(conf.stdin) as { prevResult?: unknown }
    if (prevResult === undefined) return undefined
    const previous = { result: readPrevResult(prevResult, conf.cniVersion), ifName: key.ifName }
    const { host } = endsOf(previous)
    return host !== undefined && linkExists(host.name) ? previous : undefined
  } catch {
    return undefined
  }
}

function isHeldByOther({ key, dataDir }: UpstreamAttachment, address: string): boolean {
  const isOurs = networkDirectories().some((files) => {
    const holder = holderOf(files, address)
    return holder !== undefined && holder.key.containerId !== key.containerId
  })
  return isOurs || isLeasedElsewhere(dataDir, address, key.containerId)
}

async function removeLinks(run: Run, found: UpstreamAttachment, openPod: OpenPod | undefined): Promise<undefined> {
  const { ifb } = upstreamNames(found.key)
  if (linkExists(ifb)) await deleteLink(run, ifb)
  await removeInPod(run, found, openPod)
  // Gone with its peer, unless the namespace cannot be entered any more and something keeps it alive.
  const { host } = found
  if (host?.mac === undefined || !linkExists(host.name)) return undefined
  const link = (await observeHost(run, [host.name])).links.get(host.name)
  if (link?.kind === 'veth' && link.mac === host.mac.toLowerCase()) await deleteLink(run, host.name)
  return undefined
}

/** The pod's end goes, and its peer with it, when it is a veth with the attachment's MAC or one of its addresses. */
async function removeInPod(run: Run, found: UpstreamAttachment, openPod: OpenPod | undefined): Promise<void> {
  // Gone, or not a namespace that may be entered: DEL goes on without it.
  const netns = orElse(() => openPod?.(), undefined)
  if (netns === undefined) return
  try {
    const { ifName } = found.key
    const inPod = (args: readonly string[]) =>
      run({ file: 'nsenter', args: [`--net=${podNetns}`, '--', 'ip', ...args], netnsFd: netns.fd })
    const shown = await inPod(['-j', '-d', 'addr', 'show', 'dev', ifName])
    const link = readLinks(readDocuments(shown.stdout)).get(ifName)
    const bare = link?.addresses.map((cidr) => bareAddress(cidr)) ?? []
    const isItsMac = found.pod?.mac !== undefined && found.pod.mac.toLowerCase() === link?.mac
    const isIts = isItsMac || bare.some((address) => found.addresses.includes(address))
    if (link?.kind === 'veth' && isIts) await inPod(['link', 'del', 'dev', ifName])
  } finally {
    closeNetns(netns)
  }
}

async function deleteLink(run: Run, name: string): Promise<void> {
  const output = await run({ file: 'ip', args: ['link', 'del', 'dev', name] })
  if (output.code !== 0 && linkExists(name)) throw new Error(`could not remove ${name}: ${output.stderr.trim()}`)
}
