// SPDX-License-Identifier: Apache-2.0
// Damages of a node that are told apart by what is known afterwards: of files, of whole directories, of the kernel.
// Any two of them may come together.

import { lstatSync, rmSync } from 'node:fs'
import { relative } from '../state-layout.ts'
import { damages } from './damage.ts'
import { others, type Worn } from './worn-state.ts'

/** A damage by its name. `ends`: the pod that is over with it, so that what it had may be given to others. */
export interface NodeDamage {
  readonly name: string
  readonly spoil: (worn: Worn) => void
  readonly ends?: 'p'
}

/** Files that something else follows from, and ways that differ in what is known afterwards. */
const worth = [
  'a finished record',
  'a chained record',
  'a killed call',
  'a reserved address',
  'a reserved port',
  'the shared part',
  'the chained shared part',
] as const
const ways = ['removed', 'noise', "another attachment's", 'a directory'] as const

const worn = relative.network('worn')

const ofFiles = worth.flatMap((kind) =>
  ways.map(
    (how): NodeDamage => ({
      name: `${kind}: ${how}`,
      spoil: ({ host, path }) => {
        // It may have gone with the other damage.
        if (lstatSync(path(kind), { throwIfNoEntry: false })?.isFile() !== true) return
        const other = `${host.stateDir}/${others[kind] ?? worn.finished('q')}`
        if (how !== "another attachment's" || lstatSync(other, { throwIfNoEntry: false }) !== undefined)
          damages[how]?.({ file: path(kind), other, outside: '/etc/hostname' })
      },
    }),
  ),
)

const directories = {
  'every network': relative.networks,
  'the state of the network': worn.directory,
  'every finished record': worn.directoryOf('attachments'),
  'every pending record': worn.directoryOf('pending'),
  'every reserved address': worn.directoryOf('addresses'),
  'every reserved port': relative.ports,
}

const ofDirectories = Object.entries(directories).map(
  ([what, path]): NodeDamage => ({
    name: `${what}: removed`,
    spoil: ({ host }) => rmSync(`${host.stateDir}/${path}`, { recursive: true, force: true }),
  }),
)

const inKernel: readonly NodeDamage[] = [
  {
    name: 'the rules: deleted',
    spoil: ({ host }) => host.run('nft', ['delete', 'table', 'inet', 'trestle']),
  },
  {
    name: 'the bridge: deleted',
    spoil: ({ host }) => host.run('ip', ['link', 'del', 'cni0']),
  },
  {
    name: 'the alias of a link: gone',
    spoil: ({ host, p }) => host.run('ip', ['link', 'set', 'dev', p.hostLink, 'alias', '']),
  },
  {
    name: 'a pod: gone',
    spoil: ({ host, p }) => host.removePod(p.netns),
    ends: 'p',
  },
]

/** Everything that a node may have suffered, one thing each. */
export const nodeDamages: readonly NodeDamage[] = [...ofFiles, ...ofDirectories, ...inKernel]

/** Each two of a list. */
export function pairsOf<T>(list: readonly T[]): readonly (readonly [T, T])[] {
  return list.flatMap((first, at) => list.slice(at + 1).map((second) => [first, second] as const))
}
