// SPDX-License-Identifier: Apache-2.0
// Host ports behind the operator's conditions (portmap.conditionsV4, conditionsV6). A host port has one
// owner on the node, so one element sends the packets of that port through a chain with the owner's
// conditions; only what passes them is looked up in the maps. The chain's name is the hash of its
// conditions: no network's conditions ever apply to another's ports, and no chain is ever changed under
// a pod that uses it.

import { sha256 } from '../../src/drivers/names.ts'
import {
  type Family,
  formatAddress,
  formatCidr,
  isOverlap,
  linkNameProblem,
  networkOf,
  parseAddress,
  parseCidr,
  unsafeNameProblem,
} from '../cni/address.ts'
import { configError, type KeyPath } from '../cni/error.ts'
import type { HostPort, HostPortSpec } from '../model/attachment.ts'
import type { Element, Op } from '../model/op.ts'
import { ruleComment } from '../model/tables.ts'

/** The chains that the pod's ports go through, said anew with each pod: a chain of this name has one content. */
export function conditionOps(spec: HostPortSpec): readonly Op[] {
  return ([4, 6] as const).flatMap((family): readonly Op[] => {
    const chain = chainOf(spec, family)
    if (chain === undefined || !spec.ports.some((port) => port.family === family)) return []
    const conditions = conditionsOf(spec, family)
    const why = `set up the conditions of host ports, IPv${family}`
    return [{ in: 'host', kind: 'nft.chain', chain, conditions, comment: ruleComment(chain), why }]
  })
}

export function conditionChains(spec: HostPortSpec | undefined): readonly string[] {
  return spec === undefined ? [] : conditionOps(spec).flatMap((op) => (op.kind === 'nft.chain' ? [op.chain] : []))
}

export function chainRemovals(chains: readonly string[]): readonly Op[] {
  return chains.map((chain) => ({
    in: 'host',
    kind: 'nft.chain.del',
    chain,
    why: `remove the conditions of host ports, nft chain ${chain}`,
  }))
}

export function chainsBehind(elements: readonly Element[]): readonly string[] {
  const chains = elements.flatMap(({ value: [chain = ''] = [] }) =>
    /^cond[46]_[0-9a-f]{16}$/.test(chain) ? chain : [],
  )
  return [...new Set(chains)]
}

/** What sends packets to the pod's ports through their conditions. */
export function conditionalPortElements(spec: HostPortSpec): readonly Element[] {
  return spec.ports.flatMap((port): readonly Element[] => {
    const chain = chainOf(spec, port.family)
    const set = port.hostIp === undefined ? 'anygates' : 'gates'
    return chain === undefined ? [] : [{ set: `${set}${port.family}`, key: portKey(port), value: [chain] }]
  })
}

/** What a packet to the host port has: its address where the port is on one, protocol and port. */
export function portKey({ hostIp, protocol, hostPort }: HostPort): readonly string[] {
  return [...(hostIp === undefined ? [] : [hostIp]), protocol, String(hostPort)]
}

function conditionsOf(spec: HostPortSpec, family: 4 | 6): readonly string[] {
  return (family === 4 ? spec.conditionsV4 : spec.conditionsV6) ?? []
}

/** `cond4_` and 16 hex digits, or undefined where the family has no conditions. */
function chainOf(spec: HostPortSpec, family: 4 | 6): string | undefined {
  const conditions = conditionsOf(spec, family)
  if (conditions.length === 0) return undefined
  return `cond${family}_${sha256(conditions.join(' ')).toString('hex').slice(0, 16)}`
}

// portmap.conditionsV4 and V6: nft matches of the operator, read by a grammar of their own and written
// anew, never pasted into a rule. What is not in the grammar is refused.
//
//   ip|ip6 saddr|daddr [!=] CIDR     iifname|oifname [!=] "NAME"     meta mark [!=] N     ct state [!=] STATE
//
// Each takes a list in braces too, `ct state` also one without.

const hint =
  'use matches like ip saddr != 10.0.0.0/8, iifname "eth0", meta mark 0x10, ct state new, or lists of values in { }'

/** Every two prefixes of a list are compared. */
const LONGEST_TEXT = 8192

interface Reader {
  readonly tokens: string[]
  readonly family: Family
  readonly path: KeyPath
}

/** A value in nft's words, or undefined when the token is none. */
type Value = (token: string, reader: Reader) => string | undefined

/**
 * Conditions as nft matches in one spelling, in their order; empty when there are none. `tokens` are
 * joined with spaces first, as the upstream portmap does. Throws CniError invalidConfig naming the
 * token that is not understood.
 */
export function readConditions(
  tokens: readonly string[] | undefined,
  family: Family,
  path: KeyPath,
): readonly string[] {
  const text = (tokens ?? []).join(' ')
  if (text.length > LONGEST_TEXT) {
    const more = { id: 'invalid-value', hint: `use at most ${LONGEST_TEXT}` } as const
    throw configError(path, `${text.length} characters`, more)
  }
  const reader = { tokens: text.match(/"[^"]*"|!=|==|[{},]|[^\s{},"]+|"/g) ?? [], family, path }
  const matches: string[] = []
  while (reader.tokens.length > 0) matches.push(readMatch(reader))
  return matches
}

function readMatch(reader: Reader): string {
  const [first, second] = [reader.tokens.shift() ?? '', reader.tokens[0] ?? '']
  if (first === 'iifname' || first === 'oifname') return `${first}${readValues(reader, linkName)}`
  const both = `${first} ${second}`
  if (
    both === `${reader.family === 4 ? 'ip' : 'ip6'} saddr` ||
    both === `${reader.family === 4 ? 'ip' : 'ip6'} daddr`
  ) {
    reader.tokens.shift()
    return `${both}${readValues(reader, cidr)}`
  }
  if (both === 'meta mark' || both === 'ct state') {
    reader.tokens.shift()
    return `${both}${readValues(reader, both === 'ct state' ? state : mark)}`
  }
  throw refused(reader, first)
}

/** `[!=] value`, `[!=] { value, … }`; of states also `value,value`. */
function readValues(reader: Reader, value: Value): string {
  const { tokens } = reader
  const operator = tokens[0] === '!=' || tokens[0] === '==' ? tokens.shift() : undefined
  const isList = tokens[0] === '{'
  if (isList) tokens.shift()
  const found = [readValue(reader, value)]
  while (tokens[0] === ',' && (isList || value === state)) {
    tokens.shift()
    found.push(readValue(reader, value))
  }
  if (isList && tokens.shift() !== '}') throw refused(reader, 'a list without its }')
  if (value === cidr) requireApart(reader, found)
  const right = found.length === 1 ? found[0] : `{ ${found.join(', ')} }`
  return `${operator === '!=' ? ' !=' : ''} ${right}`
}

function readValue(reader: Reader, value: Value): string {
  const token = reader.tokens.shift() ?? 'the end'
  const found = value(token, reader)
  if (found === undefined) throw refused(reader, token)
  return found
}

const cidr: Value = (token, { family }) => {
  const address = parseAddress(token)
  if (address?.family === family) return formatAddress(address)
  const prefix = parseCidr(token)
  return prefix?.family === family ? formatCidr(networkOf(prefix)) : undefined
}

const linkName: Value = (token) => {
  const name = token.startsWith('"') ? token.slice(1, -1) : token
  const isName = linkNameProblem(name) === undefined && unsafeNameProblem(name) === undefined
  // A star at the end is a pattern to nft, a leading @ a set.
  return isName && /^[\w.][\w.@+-]*$/.test(name) ? `"${name}"` : undefined
}

const mark: Value = (token) => {
  const value = /^(0x[0-9a-f]{1,8}|\d{1,10})$/i.test(token) ? Number(token) : Number.NaN
  return value <= 0xffff_ffff ? `0x${value.toString(16)}` : undefined
}

const state: Value = (token) => {
  return ['new', 'established', 'related', 'invalid', 'untracked'].includes(token) ? token : undefined
}

/** Some versions of nft refuse overlapping prefixes in a list; the wider one says it all. */
function requireApart(reader: Reader, texts: readonly string[]): void {
  const at = texts.findIndex((each, index) => texts.slice(index + 1).some((other) => isOverlap(each, other)))
  if (at < 0) return
  const more = { id: 'invalid-value', hint: 'leave one of them out' } as const
  throw configError(reader.path, `${texts[at]} overlaps another entry of its list`, more)
}

function refused(reader: Reader, token: string) {
  return configError(reader.path, `${token} is not understood`, { id: 'invalid-value', hint })
}
