// SPDX-License-Identifier: Apache-2.0
// `trestle gc NET --valid …`: the verb GC as libcni runs it (libcni/api.go, GCNetworkList): DEL of every attachment in
// its cache that is not valid, then GC of every plugin, by which trestle removes attachments that the cache lacks.

import { messageWithId, toCniError } from '../../cni/errors.ts'
import { atLeast, isSupported } from '../../cni/results.ts'
import { readAlias } from '../../drivers/names.ts'
import { lookAtHost } from '../../kernel/look.ts'
import { recordsOf } from '../../state/records.ts'
import { openRemovingContext } from '../../verbs/context.ts'
import { exitCode, type Input, UsageError } from '../command.ts'
import type { NetworkList } from '../network-list.ts'
import { print } from '../output.ts'
import { isOwnType } from '../own-type.ts'
import { gcList, type ValidAttachment } from '../plugin-runtime.ts'
import { requireRoot } from '../self.ts'
import { attachedOf, detach } from './attached.ts'
import { type CachedAttachment, cachedAttachments } from './libcni-cache.ts'
import { networkNamed } from './network.ts'
import { openRunners, printFailure, type Runners, runtimeFor } from './plugin-calls.ts'
import { podOf } from './pod.ts'

/** An attachment in libcni's cache, or one that trestle alone knows; `netns` is empty where nothing tells it. */
type Known = Pick<CachedAttachment, 'network' | 'containerId' | 'ifName' | 'netns'>

interface Judged {
  readonly kept: readonly Known[]
  readonly removed: readonly Known[]
}

export async function collectByList(input: Input): Promise<number> {
  const { words, values } = input
  const [name] = words
  if (name === undefined) throw new UsageError('--valid is about one network: trestle gc NET --valid ID/IFNAME')
  const valid = validIn(String(values['valid']))
  requireRoot('gc', 'it removes attachments')
  const { list } = networkNamed(name)
  const isValid = ({ containerId, ifName }: Known) =>
    valid.some((each) => each.containerID === containerId && each.ifname === ifName)
  const cached = list.disableGc ? [] : cachedAttachments(name)
  const all = distinct([...cached, ...(await knownToTrestle(list))])
  const [kept, removed] = [all.filter(isValid), all.filter((each) => !isValid(each))]
  const isApplied = values['apply'] === true
  const work = { valid, removed: cached.filter((each) => !isValid(each)) }
  const [failure, ...others] = isApplied && !list.disableGc ? await collect(list, work, openRunners(input)) : []
  if (failure === undefined) return printJudged(input, list, { kept, removed })
  const after = others.map((each) => `also: ${messageWithId(toCniError(each))}`)
  return printFailure(input, failure, { command: 'gc', on: `GC of ${name}`, after })
}

/** The attachments of `--valid`. Throws UsageError for an empty list: GC would take the network from every pod. */
function validIn(text: string): readonly ValidAttachment[] {
  return text.split(',').map((each) => {
    const [, containerID, ifname] = /^([a-zA-Z0-9][\w.-]*)\/([^/\s]+)$/.exec(each) ?? []
    if (containerID !== undefined && ifname !== undefined) return { containerID, ifname }
    throw new UsageError(`--valid ${JSON.stringify(each)}: use ID/IFNAME, like cnitool-77383ca0a1715733ca6f/eth0`)
  })
}

/** The attachments that GC of a plugin of trestle judges: its records, and links by their alias. */
async function knownToTrestle(list: NetworkList): Promise<readonly Known[]> {
  if (!hasGc(list) || !list.plugins.some(({ type }) => isOwnType(type))) return []
  const recorded = recordsOf(list.name).map(({ id, netns }) => ({ ...id, netns: netns.path }))
  const { links } = await lookAtHost(openRemovingContext().machine, 'all')
  const ids = [...links.values()].flatMap(({ name, alias }) => readAlias(name, alias)?.id ?? [])
  return [...recorded, ...ids.filter(({ network }) => network === list.name).map((id) => ({ ...id, netns: '' }))]
}

/** The first of each: a list of several plugins of trestle has a record of each. */
function distinct(all: readonly Known[]): readonly Known[] {
  const idsOf = ({ containerId, ifName }: Known) => `${containerId}/${ifName}`
  return [...new Map(all.toReversed().map((each) => [idsOf(each), each])).values()].toReversed()
}

interface Work {
  readonly valid: readonly ValidAttachment[]
  readonly removed: readonly CachedAttachment[]
}

/** A failed call does not keep others from theirs. Returns the failures. */
async function collect(list: NetworkList, { valid, removed }: Work, runners: Runners): Promise<readonly unknown[]> {
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

function printJudged(input: Input, list: NetworkList, { kept, removed }: Judged): number {
  const isApplied = input.values['apply'] === true
  const text = [
    ...removed.map((each) => `  ${isApplied ? 'removed' : 'remove '}  ${nameOf(each)}\n`),
    ...kept.map((each) => `  valid    ${nameOf(each)}\n`),
    `network ${list.name}: ${endOf(list, removed.length, isApplied)}\n`,
  ].join('')
  const of = { isDisabled: list.disableGc, asksPlugins: hasGc(list) }
  const document = { network: list.name, applied: isApplied, ...of, kept: kept.map(keyOf), removed: removed.map(keyOf) }
  const code = isApplied || removed.length === 0 ? exitCode.fine : exitCode.findings
  return print(input, { command: 'gc', document, text, code })
}

function endOf(list: NetworkList, count: number, isApplied: boolean): string {
  if (list.disableGc) return 'nothing is done: the network has disableGC'
  const asked = hasGc(list) ? 'with GC of every plugin' : 'without GC of plugins, which came with CNI 1.1.0'
  return isApplied ? `${count} removed, ${asked}` : `${count} to remove, ${asked} (--apply does it)`
}

function keyOf({ network, containerId, ifName, netns }: Known) {
  return { network, containerId, ifName, netns }
}

function nameOf({ containerId, ifName, netns }: Known): string {
  return `${containerId}/${ifName}  ${netns || 'no record tells its namespace'}`
}
