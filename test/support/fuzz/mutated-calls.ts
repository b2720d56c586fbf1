// SPDX-License-Identifier: Apache-2.0
// Calls that are nearly right: a real one with a few changes to its configuration and environment, as fast-check
// arbitraries. Most changes are hostile, some are plausible, so that many of the calls get past the edge.

import fc from 'fast-check'
import type { KeyShape } from '../../../src-before/cni/json.ts'
import { configKeys } from '../../../src-before/config/schema.ts'
import { hostileWords, nested, numbers, odd, plausibleWords } from './fuzz-words.ts'
import { changed, type Entry, type Tree, textOf, treeOf, valuesOf } from './json-tree.ts'
import { type SeedCall, seedCalls } from './seed-calls.ts'

/** A call as the edge gets it. */
export interface FuzzCall {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: string
}

const quoted = (words: readonly string[]) => fc.constantFrom(...words.map((word) => JSON.stringify(word)))

/** The text of one JSON value, or of something that is none. */
const value: fc.Arbitrary<Tree> = fc
  .oneof(
    { weight: 9, arbitrary: quoted(plausibleWords) },
    { weight: 5, arbitrary: quoted(hostileWords) },
    { weight: 4, arbitrary: fc.constantFrom(...numbers) },
    { weight: 4, arbitrary: fc.constantFrom(...odd) },
    { weight: 1, arbitrary: fc.constantFrom(...nested) },
    { weight: 2, arbitrary: fc.json({ maxDepth: 3 }) },
    { weight: 2, arbitrary: fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)) },
  )
  .map((text) => ({ kind: 'scalar', text }))

function keysOf(shape: KeyShape | undefined): readonly string[] {
  const below = [...(shape?.keys?.values() ?? [])].flatMap(({ name, shape: child }) => [name, ...keysOf(child)])
  return [...below, ...(shape?.items === undefined ? [] : keysOf(shape.items))]
}

const knownKeys = [
  ...new Set([
    ...keysOf(configKeys),
    'name',
    'cniVersion',
    'prevResult',
    'interfaces',
    'sandbox',
    'ip4',
    'src',
    'others',
  ]),
]

const key = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...knownKeys) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'length', ''),
  },
  { weight: 1, arbitrary: fc.string() },
)

const spellings: readonly ((text: string) => string)[] = [
  (text) => text.toUpperCase(),
  (text) => text.slice(0, 1).toUpperCase() + text.slice(1),
  (text) => text.toLowerCase(),
  (text) => `${text}\u0000`,
  (text) => text.replace('I', '\u0130').replace('k', '\u212a'),
]

const kinds = [
  'replace',
  'replace',
  'replace',
  'remove',
  'rename',
  'respell',
  'twice',
  'add',
  'add',
  'wrap',
  'splice',
  'many',
] as const

const mutation = fc.record({
  at: fc.nat(2 ** 20),
  from: fc.nat(2 ** 20),
  kind: fc.constantFrom(...kinds),
  value,
  key,
  spelling: fc.constantFrom(...spellings),
})

type Mutation = typeof mutation extends fc.Arbitrary<infer T> ? T : never

function mutate(tree: Tree, { at, from, kind, value: given, key: name, spelling }: Mutation): Tree {
  const all = valuesOf(tree)
  const target = all[at % Math.max(1, all.length)]
  if (target === undefined) return given
  const other = all[from % all.length] ?? given
  const changes: Readonly<Record<(typeof kinds)[number], () => readonly (Tree | Entry)[]>> = {
    replace: () => [given],
    remove: () => [],
    rename: () => [[name, target]],
    respell: () => [target],
    twice: () => [target, given],
    add: () => [target, [name, given]],
    wrap: () => [at % 2 === 0 ? { kind: 'list', items: [target] } : { kind: 'object', entries: [[name, target]] }],
    splice: () => [other],
    many: () => Array.from({ length: textOf(target).length > 200 ? 2 : from % 40 }, () => target),
  }
  return changed(tree, target, (_, old) => {
    if (old !== undefined && kind === 'respell') return [[spelling(old), target]]
    return changes[kind]()
  })
}

const variables = ['CNI_COMMAND', 'CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_ARGS', 'CNI_PATH'] as const
const argWords = [
  'IP=10.9.0.15',
  'IP=10.250.0.9/24',
  'MAC=02:00:00:00:00:07',
  'GATEWAY=10.250.0.1',
  'IgnoreUnknown=1',
  'X=Y',
  'K8S_POD_NAME=a;;=',
  '',
]
const envValue = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...hostileWords) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      undefined,
      'ADD',
      'CHECK',
      'DEL',
      'GC',
      'STATUS',
      'VERSION',
      'eth1',
      'a.b',
      'e:0',
      '/proc/self/ns/net',
    ),
  },
  { weight: 2, arbitrary: fc.subarray(argWords).map((words) => words.join(';')) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
)
const envChange = fc.tuple(fc.constantFrom(...variables), envValue)

/** A real call with up to `most` changes to its configuration and now and then one to its environment. */
export function mutatedCalls(most: number): fc.Arbitrary<FuzzCall> {
  const seeds = seedCalls().map((seed) => ({ ...seed, tree: treeOf(seed.conf) }))
  const adds = seeds.filter(({ env }) => env['CNI_COMMAND'] === 'ADD')
  const changes = fc.array(mutation, { maxLength: most, size: 'max' })
  const envChanges = fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: envChange })
  return fc
    .tuple(fc.constantFrom(...seeds, ...adds, ...adds, ...adds), changes, envChanges)
    .map(([seed, mutations, envs]) => ({
      env: envs === undefined ? seed.env : { ...seed.env, [envs[0]]: envs[1] },
      stdin: textOf(mutations.reduce(mutate, seed.tree)),
    }))
}

/** The same calls unchanged. */
export function plainCalls(): readonly (FuzzCall & Pick<SeedCall, 'name'>)[] {
  return seedCalls().map(({ name, env, conf }) => ({ name, env, stdin: JSON.stringify(conf) }))
}
