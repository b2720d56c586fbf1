// SPDX-License-Identifier: Apache-2.0
// `trestle gc NET --valid …`: the verb GC as libcni runs it (libcni/api.go, GCNetworkList): DEL of every attachment in
// its cache that is not valid, then GC of every plugin, by which trestle removes attachments that the cache lacks.

import { messageWithId, toCniError } from '../../cni/errors.ts'
import { atLeast, isSupported } from '../../cni/results.ts'
import { exitCode, type Input, UsageError } from '../command.ts'
import type { NetworkList } from '../network-list.ts'
import { print } from '../output.ts'
import { gcList, type ValidAttachment } from '../plugin-runtime.ts'
import { requireRoot } from '../self.ts'
import { attachedOf, detach } from './attached.ts'
import { type CachedAttachment, cachedAttachments } from './libcni-cache.ts'
import { networkNamed } from './network.ts'
import { explained, openRunners, type Runners, runtimeFor } from './plugin-calls.ts'
import { podOf } from './pod.ts'

export async function collectByList(input: Input): Promise<number> {
  const { words, values } = input
  const [name] = words
  if (name === undefined) throw new UsageError('--valid is about one network: trestle gc NET --valid ID/IFNAME')
  const valid = validIn(String(values['valid']))
  requireRoot('gc', 'it removes attachments')
  const { list } = networkNamed(name)
  const isValid = ({ containerId, ifName }: CachedAttachment) =>
    valid.some((each) => each.containerID === containerId && each.ifname === ifName)
  const all = list.disableGc ? [] : cachedAttachments(name)
  const [kept, removed] = [all.filter(isValid), all.filter((each) => !isValid(each))]
  const isApplied = values['apply'] === true
  if (isApplied && !list.disableGc) {
    const [failure, ...others] = await collect(list, removed, valid, openRunners(input))
    const after = others.map((each) => `also: ${messageWithId(toCniError(each))}`)
    if (failure !== undefined) throw explained(failure, `GC of ${name}`, after)
  }
  const text = [
    ...removed.map((each) => `  ${isApplied ? 'removed' : 'remove '}  ${nameOf(each)}\n`),
    ...kept.map((each) => `  valid    ${nameOf(each)}\n`),
    `network ${name}: ${endOf(list, removed.length, isApplied)}\n`,
  ].join('')
  const keys = (of: readonly CachedAttachment[]) =>
    of.map(({ network, containerId, ifName, netns }) => ({ network, containerId, ifName, netns }))
  const of = { isDisabled: list.disableGc, asksPlugins: hasGc(list) }
  const document = { network: name, applied: isApplied, ...of, kept: keys(kept), removed: keys(removed) }
  const code = isApplied || removed.length === 0 ? exitCode.fine : exitCode.findings
  return print(input, { command: 'gc', document, text, code })
}

/** The attachments of `--valid`. Throws UsageError for an empty list: GC would take the network from every pod. */
function validIn(text: string): readonly ValidAttachment[] {
  return text.split(/[,\n]/).map((each) => {
    const [, containerID, ifname] = /^([a-zA-Z0-9][\w.-]*)\/([^/\s]+)$/.exec(each) ?? []
    if (containerID !== undefined && ifname !== undefined) return { containerID, ifname }
    throw new UsageError(`--valid ${JSON.stringify(each)}: use ID/IFNAME, like cnitool-77383ca0a1715733ca6f/eth0`)
  })
}

/** A failed call does not keep others from theirs. Returns the failures. */
async function collect(
  list: NetworkList,
  removed: readonly CachedAttachment[],
  valid: readonly ValidAttachment[],
  runners: Runners,
): Promise<readonly unknown[]> {
  const failures: unknown[] = []
  const failed = (error: unknown) => failures.push(...(error instanceof AggregateError ? error.errors : [error]))
  for (const each of removed) {
    const { netns, containerId } = each
    const pod = netns.startsWith('/') ? podOf(netns) : { word: containerId, paths: [netns] as const }
    await detach(runners.undo, attachedOf(list, pod, each)).catch(failed)
  }
  if (hasGc(list)) await gcList(runtimeFor(list, runners.run), valid).catch(failed)
  return failures
}

function hasGc({ cniVersion, disableGc }: NetworkList): boolean {
  return !disableGc && isSupported(cniVersion) && atLeast(cniVersion, '1.1.0')
}

function endOf(list: NetworkList, count: number, isApplied: boolean): string {
  if (list.disableGc) return 'nothing is done: the network has disableGC'
  if (!hasGc(list)) return `${count} ${isApplied ? 'removed' : 'to remove (--apply does it)'}; GC came with CNI 1.1.0`
  return isApplied
    ? `${count} removed, with GC of every plugin`
    : `${count} to remove (--apply does it), and by GC of every plugin what else it knows`
}

function nameOf({ containerId, ifName, netns }: CachedAttachment): string {
  return `${containerId}/${ifName}  ${netns}`
}
