// SPDX-License-Identifier: Apache-2.0
// Operations to the arguments of one `tc` command each (tc(8), tc-tbf(8)).

import type { ObservedQueue } from '../model/observed.ts'
import type { Op } from '../model/op.ts'

export type TcOp = Extract<Op, { kind: 'filter.redirect' | `qdisc.${string}` }>

/** The words after `tc` for one operation; one line of a batch. */
export function tcWords(op: TcOp): readonly string[] {
  switch (op.kind) {
    case 'qdisc.tbf': {
      const size = ['rate', `${op.rateBits}bit`, 'burst', `${op.burstBytes}b`, 'limit', `${op.limitBytes}b`]
      return ['qdisc', 'replace', 'dev', op.dev, 'root', 'handle', '1:', 'tbf', ...size]
    }
    case 'qdisc.ingress':
      return ['qdisc', 'replace', 'dev', op.dev, 'ingress']
    case 'qdisc.del':
      return ['qdisc', 'del', 'dev', op.dev, op.at]
    case 'filter.redirect':
      // u32 with a match on nothing: kernels without cls_matchall have it, and so has upstream.
      return [
        ...['filter', 'replace', 'dev', op.dev, 'parent', 'ffff:', 'protocol', 'all', 'prio', '1'],
        ...['handle', '800::800', 'u32', 'match', 'u32', '0', '0'],
        ...['action', 'mirred', 'egress', 'redirect', 'dev', op.to],
      ]
    default:
      return op satisfies never
  }
}

// What `tc -j` prints for one link's qdiscs and ingress filters, to observed queueing.

export interface TcEntry {
  readonly kind?: string
  readonly dev?: string
  readonly root?: boolean
  readonly handle?: string
  readonly options?: {
    readonly rate?: number
    readonly burst?: number
    readonly actions?: readonly { readonly to_dev?: string }[]
  }
}

/** What `tc -j -batch` answers: a list of entries for each query about a link that is there, in order. */
export function readAnswers(stdout: string): readonly (readonly TcEntry[])[] {
  return stdout
    .split(/\n(?=\[)/)
    .filter((answer) => answer.startsWith('['))
    .map(readAnswer)
}

/**
 * Some kinds print words instead of JSON, over several lines too: u32 before iproute2 5.18 (tc/f_u32.c), and qfq and
 * others have no JSON at all in 6.1 (tc/q_qfq.c). Of such an entry is told what stands before and behind the words.
 */
function readAnswer(answer: string): readonly TcEntry[] {
  try {
    return JSON.parse(answer) as TcEntry[]
  } catch {
    return answer
      .slice(1)
      .split(/(?=\{"(?:kind|protocol)":)/)
      .map(readEntry)
  }
}

function readEntry(text: string): TcEntry {
  try {
    return JSON.parse(text.trim().replace(/[,\]]$/, '')) as TcEntry
  } catch {
    const word = (name: 'kind' | 'handle' | 'dev' | 'to_dev') => {
      const value = new RegExp(`"${name}":"([^"\\\\]*)"`).exec(text)?.[1]
      return value === undefined ? {} : { [name]: value }
    }
    const options = { actions: [word('to_dev')] }
    return { ...word('kind'), ...word('handle'), ...word('dev'), root: text.includes('"root":true'), options }
  }
}

/** The queueing of a link from the entries of `tc -j qdisc show dev X` and `tc -j filter show dev X parent ffff:`. */
export function readQueue(all: readonly TcEntry[]): ObservedQueue {
  const bucket = all.find((entry) => entry.kind === 'tbf' && entry.root === true)?.options
  // Handle 0 is what the kernel gives a link by itself.
  const root = all.find((entry) => entry.root === true && entry.handle !== '0:')?.kind
  const redirectTo = all
    .flatMap((entry) => entry.options?.actions ?? [])
    .find((action) => action.to_dev !== undefined)?.to_dev
  return {
    // tc prints bytes per second.
    ...(bucket?.rate === undefined ? {} : { rateBits: bucket.rate * 8 }),
    ...(bucket?.burst === undefined ? {} : { burstBytes: bucket.burst }),
    ...(root === undefined ? {} : { root }),
    hasIngress: all.some((entry) => entry.kind === 'ingress' || entry.kind === 'clsact'),
    ...(redirectTo === undefined ? {} : { redirectTo }),
  }
}

// VLANs of bridge ports to the arguments of one `bridge` command each (bridge(8)).

export type VlanOp = Extract<Op, { kind: 'vlan.add' | 'vlan.del' }>

/** The words after `bridge` for one operation; one line of a batch. */
export function bridgeWords(op: VlanOp): readonly string[] {
  const vlan = ['vlan', op.kind === 'vlan.add' ? 'add' : 'del', 'dev', op.dev, 'vid', `${op.vid}`]
  return op.kind === 'vlan.add' && !op.tagged ? [...vlan, 'pvid', 'untagged'] : vlan
}

/** VLAN ids by port from `bridge -j vlan show`; a range is `vlan` to `vlanEnd`. */
export function readVlans(stdout: string): ReadonlyMap<string, readonly number[]> {
  const ports = JSON.parse(stdout || '[]') as readonly {
    ifname: string
    vlans: readonly { vlan: number; vlanEnd?: number }[]
  }[]
  return new Map(
    ports.map((port) => [port.ifname, port.vlans.flatMap(({ vlan, vlanEnd = vlan }) => idsFrom(vlan, vlanEnd))]),
  )
}

/** The MACs that bridges have seen behind each port, from `bridge -j fdb show dynamic`. */
export function readLearned(stdout: string): ReadonlyMap<string, readonly string[]> {
  const entries = JSON.parse(stdout || '[]') as readonly { ifname: string; mac: string }[]
  return new Map(
    [...Map.groupBy(entries, ({ ifname }) => ifname)].map(([name, all]) => [name, all.map(({ mac }) => mac)]),
  )
}

function idsFrom(first: number, last: number): readonly number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at)
}
