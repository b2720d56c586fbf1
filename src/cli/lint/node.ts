// SPDX-License-Identifier: Apache-2.0
// Subnets of the node's interfaces that conflict with a configuration. Examined by root where the plugins are
// installed; a configuration for another machine is not compared.

import { isObject, lookUp } from '../../cni/json.ts'
import { openContext } from '../../commands/call/context.ts'
import type { OwnNetConf } from '../../config/net-conf.ts'
import { gatewaySide } from '../../drivers/specs.ts'
import { defaultMarkBit, trustedZone } from '../../features/firewall.ts'
import type { ObservedNamespace } from '../../model/observed.ts'
import { describeOverlap, linkOverlaps } from '../../plan/ipam/range-overlap.ts'
import { isFirewalldRunning } from '../../system/firewalls/host-accept.ts'
import { earlierDrops } from '../../system/firewalls/mark-accept.ts'
import { readDocuments, readLinks } from '../../tools/ip.ts'
import { printed } from '../node/ask-runtime.ts'
import type { Finding } from '../shell/findings.ts'
import type { FileLint } from './file.ts'
import { type Found, findingIn } from './finding.ts'
import type { PluginEntry } from './list.ts'
import { subnetsOf } from './semantics.ts'

/** The links of the node, read once; undefined if they cannot be seen, or for other users than root. */
export function openNode(): () => ObservedNamespace | undefined {
  let seen: ObservedNamespace | undefined | 'not yet' = 'not yet'
  return () => {
    if (seen === 'not yet') seen = process.geteuid?.() === 0 ? hostLinks() : undefined
    return seen
  }
}

function hostLinks(): ObservedNamespace | undefined {
  const text = printed('ip', ['-j', '-d', 'addr', 'show'])
  return text === undefined ? undefined : { links: readLinks(readDocuments(text)), routes: new Map() }
}

/** Ranges of the file that an ADD refuses on this node (110); ranges from a runtime are unknown. */
export function rangesInUse(
  entry: PluginEntry,
  conf: OwnNetConf,
  host: ObservedNamespace | undefined,
): readonly Found[] {
  if (host === undefined || !('isGateway' in conf) || conf.allowOverlap || conf.ipam.kind !== 'pool') return []
  const written = subnetsOf(entry)
  const found = linkOverlaps(gatewaySide(conf, []), host)
  const key = entry.conf['ipam'] === undefined ? 'podcidr' : 'ipam'
  return found
    .filter(({ range }) => written.includes(range))
    .map((overlap) => ({ id: 'range-in-use', message: describeOverlap(overlap), steps: [...entry.steps, key] }))
}

// Conflicts of other firewalls with the networks of the files: drops before trestle's accept, and firewalld's zone.
// Examined by root only, without a change.

type Fields = Readonly<Record<string, unknown>>

interface Accepting {
  readonly file: string
  readonly firewall: Fields
}

/** None if no file asks for an accept. `isOwn`: of a plugin's `type`. */
export async function nodeFindings(
  lints: readonly FileLint[],
  isOwn: (type: string) => boolean,
): Promise<readonly Finding[]> {
  const accepting = lints.flatMap((lint) => acceptingIn(lint, isOwn))
  const [first] = accepting
  if (first === undefined || process.geteuid?.() !== 0) return []
  const { run } = openContext(new AbortController().signal)
  try {
    const isRunning = await isFirewalldRunning(run)
    const ofZone = accepting.filter(({ firewall }) => isRunning && (lookUp(firewall, 'firewalldZone') ?? '') === '')
    const bits = accepting.map(({ firewall }) => lookUp(firewall, 'acceptMarkBit'))
    const bit = Math.min(...bits.filter((each) => typeof each === 'number'))
    const drops = await earlierDrops(run, 2 ** (Number.isFinite(bit) ? bit : defaultMarkBit))
    return [
      ...ofZone.map(({ file }) => {
        const message = `firewalld runs: pods go into its zone ${trustedZone}, and reach every port of the node`
        return findingIn(file, { id: 'zone-opens-node', message })
      }),
      ...drops.map((drop) =>
        findingIn(first.file, { id: 'drop-before-accept', message: `drops before trestle's accept: ${drop}` }),
      ),
    ]
  } catch {
    return []
  }
}

function acceptingIn({ file, list }: FileLint, isOwn: (type: string) => boolean): readonly Accepting[] {
  return (list?.plugins ?? []).flatMap(({ conf }) => {
    const firewall = lookUp(conf, 'firewall')
    const isOn = isObject(firewall) && lookUp(firewall, 'hostAccept') !== 'off'
    return isOn && isOwn(String(lookUp(conf, 'type'))) ? [{ file, firewall }] : []
  })
}
