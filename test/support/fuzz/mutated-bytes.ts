// SPDX-License-Identifier: Apache-2.0
// Calls with a few bytes changed: flipped, cut, repeated, taken from another call, or made no text at all.

import type { RawCall } from './corpus.ts'
import { seedCalls } from './seed-calls.ts'

/** From 0 up to 1. */
export type Random = () => number

const snippets = [
  ...[
    '\0',
    '\xff\xfe',
    '\xc3',
    '\xed\xa0\x80',
    '"',
    '\\',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '\n',
    '\r',
    '#',
    '%',
    '-',
    '/',
    '..',
  ],
  ...[
    'null',
    'true',
    '-1',
    '1e999',
    '4294967296',
    '{"a":1}',
    '"__proto__":{"x":1},',
    '\\u0000',
    '\\ud800',
    "'",
    '$(id)',
    ' ',
    '\t',
  ],
].map((text) => Buffer.from(text, 'latin1'))

/** Nothing of the machine's own: what a call may enter is the pod of the test, or refused. */
const netnsValues = [
  '',
  '/proc/self/ns/net',
  '/dev/null',
  '/run/netns/none',
  'x',
  '/run/netns/../../proc/self/ns/net',
  '/proc/self/ns/mnt',
]
const nameValues = [
  '',
  '-x',
  'a b',
  'a\nb',
  '%d',
  '../x',
  'é',
  'a#b',
  'x'.repeat(70_000),
  'eth1',
  '"',
  'all',
  'a*',
  '{}',
]
const argsValues = [
  '',
  'IP=10.240.0.9',
  'MAC=02:00:00:00:00:09',
  'A=B',
  'IgnoreUnknown=1;A=B',
  ';;=',
  'IP=x',
  'K8S_POD_NAME=\x1b[31m',
  `A=${'b'.repeat(70_000)}`,
]
const verbs = ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION', 'add', '']
const hostile: Readonly<Record<string, readonly string[]>> = {
  CNI_COMMAND: verbs,
  CNI_CONTAINERID: nameValues,
  CNI_IFNAME: nameValues,
  CNI_NETNS: netnsValues,
  CNI_ARGS: argsValues,
  CNI_PATH: ['', '/none', ':', 'x', '/dev/null'],
}

/** The calls to start from. Those of the corpus besides. */
export function rawSeeds(corpus: readonly RawCall[]): readonly RawCall[] {
  const calls = seedCalls().map(({ name, env, conf }) => ({
    name,
    env: { ...env, CNI_PATH: '/none' },
    stdin: Buffer.from(JSON.stringify(conf)),
  }))
  return [...calls, ...corpus]
}

/** A call made of one of `seeds`. Its namespace is still the seed's: the test puts its own pod there. */
export function mutatedBytes(seeds: readonly RawCall[], random: Random): RawCall {
  const seed = pick(seeds, random)
  let { stdin } = seed
  for (let left = 1 + Math.floor(random() * 2); left > 0; left--) {
    stdin = pick(changes, random)(stdin, random, pick(seeds, random).stdin)
  }
  return { name: seed.name, env: random() < 0.25 ? changedEnv(seed.env, random) : seed.env, stdin }
}

function changedEnv(env: RawCall['env'], random: Random): RawCall['env'] {
  const variable = pick(Object.keys(hostile), random)
  return { ...env, [variable]: pick(hostile[variable] ?? [''], random) }
}

type ByteChange = (bytes: Buffer, random: Random, other: Buffer) => Buffer

/** Mostly still JSON: the change that gets furthest. */
function otherScalar(bytes: Buffer, random: Random, other: Buffer): Buffer {
  const [from, to] = scalarAt(other, random)
  const put = random() < 0.3 ? pick(snippets, random) : other.subarray(from, to)
  return splice(bytes, scalarAt(bytes, random), put)
}

const changes: readonly ByteChange[] = [
  (bytes, random) => {
    const copy = Buffer.from(bytes)
    const at = Math.floor(random() * copy.length)
    if (copy.length > 0) copy[at] = (copy[at] ?? 0) ^ (1 << Math.floor(random() * 8))
    return copy
  },
  (bytes, random) => splice(bytes, range(bytes, random), Buffer.alloc(0)),
  (bytes, random) => bytes.subarray(0, Math.floor(random() * bytes.length)),
  (bytes, random) => {
    const [from, to] = range(bytes, random)
    return splice(bytes, [to, to], bytes.subarray(from, to))
  },
  (bytes, random, other) => splice(bytes, range(bytes, random), other.subarray(...range(other, random))),
  (bytes, random) => {
    const [at] = range(bytes, random)
    return splice(bytes, [at, at], pick(snippets, random))
  },
  ...Array.from({ length: 14 }, () => otherScalar),
]

/** Up to 40 bytes somewhere. */
function range(bytes: Buffer, random: Random): [number, number] {
  const from = Math.floor(random() * bytes.length)
  return [from, Math.min(bytes.length, from + Math.floor(random() * 40))]
}

/** A number or word, so that what is put there may be read as a value. */
function scalarAt(bytes: Buffer, random: Random): [number, number] {
  const found = [...bytes.toString('latin1').matchAll(/"[^"]*"|\d+|true|false/g)]
  const one = found[Math.floor(random() * found.length)]
  return one === undefined ? [0, 0] : [one.index, one.index + one[0].length]
}

function splice(bytes: Buffer, [from, to]: readonly [number, number], put: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, from), put, bytes.subarray(to)])
}

function pick<T>(list: readonly T[], random: Random): T {
  return list[Math.floor(random() * list.length)] as T
}
