// SPDX-License-Identifier: Apache-2.0
// Edits of a configuration as an operator makes them, chosen by a seed.

import { randomFrom } from './damage/damage.ts'

/** A configuration as far as it is edited. */
export interface Configuration {
  readonly name: string
  readonly mode: 'bridge' | 'ptp'
  readonly bridge: string
  readonly ranges: readonly string[]
  readonly removeWhenEmpty: boolean
}

export type EditKind = keyof typeof edits

/** What docs/configure.md allows under live pods, whatever they have. */
export const neverRefused: readonly EditKind[] = [
  'a whole move',
  'family added',
  'families swapped',
  'name',
  'removeWhenEmpty',
]

type Edit = (now: Configuration, editing: Editing) => Configuration

const isV6 = (range: string) => range.includes(':')

/** The prefix with another length around or in it, its first address aligned. */
function resized(range: string, editing: Editing): string {
  if (isV6(range)) return range.replace(/\/\d+$/, `/${editing.random.pick([63, 64, 65, 80])}`)
  const length = editing.random.pick([23, 24, 25])
  const [a, b, c = '0'] = range.split('.')
  return `${a}.${b}.${length === 23 ? Number(c) & ~1 : c}.0/${length}`
}

const edits = {
  range: (now, editing) => ({ ...now, ranges: now.ranges.map((range) => editing.fresh(isV6(range))) }),
  'a whole move': (now, editing) => ({
    ...now,
    ranges: now.ranges.map((range) => editing.fresh(isV6(range))),
    bridge: editing.freshBridge(),
  }),
  'one of the ranges': (now, editing) => {
    const moved = editing.random.pick(now.ranges)
    return { ...now, ranges: now.ranges.map((range) => (range === moved ? editing.fresh(isV6(range)) : range)) }
  },
  'size of the range': (now, editing) => ({ ...now, ranges: now.ranges.map((range) => resized(range, editing)) }),
  'an earlier range': (now, editing) => ({ ...now, ranges: now.ranges.map((range) => editing.earlier(range)) }),
  'an earlier range, another bridge': (now, editing) => ({
    ...now,
    ranges: now.ranges.map((range) => editing.earlier(range)),
    bridge: editing.freshBridge(),
  }),
  'the range of the node': (now) => ({
    ...now,
    ranges: now.ranges.map((range) => (isV6(range) ? '2001:db8:5::/64' : '192.0.2.0/24')),
  }),
  bridge: (now, editing) => ({ ...now, bridge: editing.random.pick(['cni0', 'br1', 'br2', editing.freshBridge()]) }),
  mode: (now) => ({ ...now, mode: now.mode === 'ptp' ? 'bridge' : 'ptp' }),
  'mode and range': (now, editing) => ({
    ...now,
    mode: now.mode === 'ptp' ? 'bridge' : 'ptp',
    bridge: editing.freshBridge(),
    ranges: now.ranges.map((range) => editing.fresh(isV6(range))),
  }),
  name: (now, editing) => ({ ...now, name: editing.freshName() }),
  'family added': (now, editing) =>
    now.ranges.length > 1 ? now : { ...now, ranges: [...now.ranges, editing.fresh(!isV6(now.ranges[0] ?? ''))] },
  'family removed': (now, editing) => ({ ...now, ranges: [editing.random.pick(now.ranges)] }),
  'families swapped': (now, editing) => ({
    ...now,
    ranges: now.ranges.length > 1 ? now.ranges.toReversed() : now.ranges.map((range) => editing.fresh(!isV6(range))),
  }),
  removeWhenEmpty: (now) => ({ ...now, removeWhenEmpty: !now.removeWhenEmpty }),
} as const satisfies Record<string, Edit>

/** Two configurations of a node that are edited in turn. */
export class Editing {
  readonly #next: () => number
  readonly #used: string[] = []
  readonly #now: Configuration[]
  #fresh = 0

  constructor(seed: number) {
    this.#next = randomFrom(seed)
    const mode = this.random.pick(['bridge', 'ptp'] as const)
    const one = (name: string, bridge: string): Configuration => {
      return { name, mode, bridge, ranges: [this.fresh(false)], removeWhenEmpty: false }
    }
    this.#now = [one('net', 'cni0'), one('other', 'br-other')]
  }

  /** Choices by the seed. */
  readonly random = {
    pick: <T>(from: readonly T[]): T => from[Math.floor(this.#next() * from.length)] as T,
  }

  configuration(of: number): Configuration {
    return this.#now[of] as Configuration
  }

  restore(of: number, before: Configuration): void {
    this.#now[of] = before
  }

  /** Edits a configuration; returns what was done. */
  edit(of: number): EditKind {
    const kind = this.random.pick(Object.keys(edits) as EditKind[])
    const edit: Edit = edits[kind]
    this.#now[of] = edit(this.configuration(of), this)
    return kind
  }

  /** As a runtime sends it. */
  asJson(of: number): object {
    const { name, mode, bridge, ranges, removeWhenEmpty } = this.configuration(of)
    return { cniVersion: '1.1.0', name, type: 'trestle', mode, bridge, podcidr: ranges, removeWhenEmpty }
  }

  /** A range that nobody had. */
  fresh(v6: boolean): string {
    this.#fresh += 2
    const range = v6 ? `fd00:${this.#fresh.toString(16)}::/64` : `10.${this.#fresh}.0.0/24`
    this.#used.push(range)
    return range
  }

  /** A range of the same family that one of the configurations had. */
  earlier(range: string): string {
    return this.random.pick(this.#used.filter((each) => isV6(each) === isV6(range)))
  }

  freshBridge(): string {
    this.#fresh += 1
    return `br-${this.#fresh}`
  }

  freshName(): string {
    this.#fresh += 1
    return `net${this.#fresh}`
  }
}
