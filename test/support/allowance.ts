// SPDX-License-Identifier: Apache-2.0
// What an attachment may leave behind: the objects that a network or the machine shares, by name.
// Everything else that is in a snapshot afterwards and was not before is a leak.

import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import { type Host, type Snapshot, snapshot } from './host.ts'
import { commentsOf, type TableFamily } from './rules.ts'
import { patterns, sharedRegex, stateFiles } from './state-layout.ts'

/** Tests name their bridges like this; a bridge, its addresses and its routes stay for the next pod. */
const bridge = '(?:cni0|br-[a-z0-9]+)'

/** Sets whose elements are per network, not per pod. */
const networkSets = /^(?:masq|keep|hairpin|acceptnet|acceptnew)[46]$/

/** Elements that name bridges and nothing else, in sets of interfaces: they go with the bridge. */
const onlyBridges = new RegExp(`elements = \\{(?:[\\s.,]*"${bridge}")+\\s*\\}`)

/** A line of the state in a snapshot: a path, and whether it is a file or a directory. */
const state = (path: string, type: 'd' | 'f') => new RegExp(`^${path} ${type}$`)

interface Shared {
  readonly what: string
  readonly line: RegExp
}

const shared: Readonly<Record<Exclude<keyof Snapshot, 'rules'>, readonly Shared[]>> = {
  links: [{ what: 'the bridge', line: new RegExp(`^${bridge}: `) }],
  routes: [{ what: 'the gateway address and its routes', line: new RegExp(` dev ${bridge} `) }],
  state: [
    { what: 'the directories of networks', line: state(patterns.networks, 'd') },
    { what: 'where foreign firewalls let pods through', line: state(patterns.accept, 'f') },
    { what: 'what the network shares', line: state(patterns.shared, 'f') },
    { what: 'where the round robin is', line: state(patterns.last, 'f') },
    { what: 'the directory of host ports', line: state(patterns.ports, 'd') },
    { what: 'the mark of a state that is whole', line: state(patterns.mark, 'f') },
    { what: 'empty directories', line: state(patterns.parts, 'd') },
  ],
  sysctls: [{ what: 'forwarding', line: /^net\.(ipv4\.ip_forward|ipv6\.conf\.all\.forwarding) = [01]$/ }],
}

/** What networks may have in our tables: as a part of an element, an address, a subnet or a bridge. */
export type Known = ReadonlySet<string>

/** What the networks in state are of, the bridges that stay with their subnets, and what `before` had. */
export function knownOf(host: Host, before?: Snapshot): Known {
  const files = host.run('find', [stateFiles(host).networks, '-regex', sharedRegex]).stdout
  const said = linesOf(files).flatMap((file) => wordsOf(readFileSync(file, 'utf8')))
  const routes = ['-4', '-6'].flatMap((family) => linesOf(host.run('ip', [family, 'route', 'show']).stdout))
  const subnets = routes.filter((route) => bridgeRoute.test(route)).map((route) => route.replace(/ .*/, ''))
  const had = networkElements(before?.rules ?? '').flatMap(partsOf)
  return new Set([...said, ...subnets, ...had])
}

const bridgeRoute = new RegExp(` dev ${bridge} `)

function linesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line !== '')
}

/** The strings of a JSON text. */
export function wordsOf(json: string): readonly string[] {
  return [...json.matchAll(/"([^"]*)"/g)].map(([, word = '']) => word)
}

/** A snapshot without what may stay. */
export function withoutShared(taken: Snapshot, known: Known): Snapshot {
  const [links, routes, sysctls, state] = (['links', 'routes', 'sysctls', 'state'] as const).map((part) =>
    strip(part, taken[part]),
  )
  return { links, routes, sysctls, state, rules: withoutSharedRules(taken.rules, known) } as Snapshot
}

/** Fails when the host has anything that it had not in `before`, and that is not shared. */
export function expectNothingLeft(host: Host, before: Snapshot): void {
  const known = knownOf(host, before)
  expect(withoutShared(snapshot(host), known)).toEqual(withoutShared(before, known))
}

/** Fails when anything at all has changed, shared objects included. */
export function expectUntouched(host: Host, before: Snapshot): void {
  expect(snapshot(host)).toEqual(before)
}

function strip(part: keyof typeof shared, text: string): string {
  const lines = text.split('\n').filter((line) => !shared[part].some((each) => each.line.test(line)))
  return lines.join('\n')
}

/**
 * Our tables may stay with their sets, chains and rules, each once, and with the elements of networks that there are.
 * Elements of pods may not, nor chains and rules that are not the table's own.
 */
export function withoutSharedRules(text: string, known: Known): string {
  return text.replace(ourTables, (whole, family: TableFamily) => {
    const table = whole.replace(networkComment, '')
    const sets = [...table.matchAll(setsOfTable)].filter(([, name = '', body = '']) => {
      if (networkSets.test(name))
        return elementsOf(body).some((element) => !partsOf(element).every((part) => known.has(part)))
      return body.includes('elements = ') && !onlyBridges.test(body)
    })
    const chains = [...table.matchAll(chainsOfTable)].filter(
      ([, name = '', body = '']) => !isOwnChain(body, commentsOf(family, name)),
    )
    return [...sets, ...chains].map(([whole]) => whole).join('')
  })
}

/** An element's comment that names a network alone: one of an attachment names that, too. */
const networkComment = / comment "(?:[0-9a-f]{16}|cluster)"/g

const ourTables = /^table (inet|bridge) trestle \{\n[\s\S]*?^\}\n/gm
const setsOfTable = /^\t(?:set|map) (\S+) \{\n([\s\S]*?)^\t\}\n/gm
const chainsOfTable = /^\tchain (\S+) \{\n([\s\S]*?)^\t\}\n/gm

/** A chain of ours, with no rule that is not, and none twice. `comments`: of its rules, where it is ours. */
function isOwnChain(body: string, comments: readonly string[] | undefined): boolean {
  if (comments === undefined) return false
  const rules = body.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('\t\ttype '))
  const said = rules.map((line) => / comment "([^"]*)"$/.exec(line)?.[1] ?? line)
  return said.every((comment, at) => comments.includes(comment) && said.indexOf(comment) === at)
}

function networkElements(rules: string): readonly string[] {
  return [...rules.matchAll(ourTables)].flatMap(([table]) =>
    [...table.replace(networkComment, '').matchAll(setsOfTable)].flatMap(([, name = '', body = '']) =>
      networkSets.test(name) ? elementsOf(body) : [],
    ),
  )
}

function elementsOf(body: string): readonly string[] {
  const [, list = ''] = /elements = \{([\s\S]*?)\}/.exec(body) ?? []
  return list
    .split(',')
    .map((element) => element.trim())
    .filter((element) => element !== '')
}

/** `10.1.0.0/24 . "cni0"` as its parts. */
function partsOf(element: string): readonly string[] {
  return element.split(' . ').map((part) => part.replace(/^"|"$/g, ''))
}
