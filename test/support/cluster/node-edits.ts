// SPDX-License-Identifier: Apache-2.0
// Edits of a node's own Node object, as a cluster makes them: generated, and the same for the same seed.

import { nodeObject } from './cluster.ts'

/** What there is to edit. `earlier`: every list of ranges that this Node has had, the newest last. */
export interface EditedNode {
  readonly cidrs: readonly string[]
  readonly addresses: readonly string[]
  readonly registered: number
  readonly mode: 'bridge' | 'ptp'
  readonly earlier: readonly (readonly string[])[]
  /** Ranges given out so far: each is another one. */
  readonly given: number
}

export const firstNode = (mode: EditedNode['mode']): EditedNode => ({
  ...{ cidrs: [range4(1), range6(1)], addresses: own, registered: 1, mode, earlier: [], given: 1 },
})

const own = ['192.0.2.11', '2001:db8::11']
const range4 = (n: number) => `10.${200 + (n >> 6)}.${4 * (n & 63)}.0/24`
const range6 = (n: number) => `fd00:10:244:${(4 * n).toString(16)}::/64`
const isSix = (cidr: string) => cidr.includes(':')

/** The edits by name; undefined where there is nothing to edit. */
export const edits: Readonly<Record<string, (node: EditedNode) => Partial<EditedNode> | undefined>> = {
  'whole move': ({ cidrs, given }) => ({
    cidrs: cidrs.map((cidr) => (isSix(cidr) ? range6(given + 1) : range4(given + 1))),
    given: given + 1,
  }),
  'IPv4 moved, IPv6 kept': moved(4),
  'IPv6 moved, IPv4 kept': moved(6),
  'a family less': ({ cidrs, registered }) =>
    cidrs.length === 2 ? { cidrs: [cidrs[registered % 2] ?? ''] } : undefined,
  // What the Node has had beside this range: pods may have addresses of it.
  'a family added': ({ cidrs, earlier, given }) => {
    const [one = '', other] = cidrs
    if (other !== undefined) return undefined
    const known = earlier.findLast((each) => each.includes(one) && each.length === 2)?.find((each) => each !== one)
    return { cidrs: [one, known ?? (isSix(one) ? range4(given + 1) : range6(given + 1))], given: given + 1 }
  },
  'families swapped': ({ cidrs }) => (cidrs.length === 2 ? { cidrs: cidrs.toReversed() } : undefined),
  'earlier ranges again': ({ earlier, registered }) => {
    const cidrs = earlier[registered % Math.max(1, earlier.length)]
    return cidrs === undefined ? undefined : { cidrs }
  },
  'a smaller mask': masked(1),
  'a larger mask': masked(-1),
  'the upper half': ({ cidrs }) => ({ cidrs: cidrs.map((cidr) => (isSix(cidr) ? cidr : upperHalf(cidr))) }),
  'its bridge among its addresses': ({ cidrs }) => ({
    addresses: [
      ...own,
      ...cidrs.map((cidr) => cidr.replace(/(0|::)\/\d+$/, (end) => (end.startsWith(':') ? '::1' : '1'))),
    ],
  }),
  "another node's addresses": () => ({ addresses: [...own, '10.246.2.9', '192.0.2.12', '2001:db8::12'] }),
  'another uid': () => ({}),
  'another mode': ({ mode }) => ({ mode: mode === 'ptp' ? 'bridge' : 'ptp' }),
}

/** Those that are never refused where the node was ready before. */
export const harmless = [
  'whole move',
  'IPv6 moved, IPv4 kept',
  'a family less',
  'a family added',
  'families swapped',
  'its bridge among its addresses',
  "another node's addresses",
  'another uid',
  'another mode',
]

/** The node after an edit: registered again. */
export function edited(node: EditedNode, change: Partial<EditedNode>): EditedNode {
  return { ...node, addresses: own, registered: node.registered + 1, earlier: [...node.earlier, node.cidrs], ...change }
}

/** The cluster that the node is in: one other node has a range, and an address, of the node's earlier ones. */
export function clusterOf({ cidrs, addresses, registered }: EditedNode): readonly object[] {
  const created = `2026-01-01T00:00:${String(registered % 60).padStart(2, '0')}Z`
  const self = nodeObject('self', { cidrs, addresses, created })
  return [
    { ...self, metadata: { ...self.metadata, uid: `uid-${registered}` } },
    nodeObject('elder', {
      cidrs: ['10.246.2.0/24'],
      addresses: ['192.0.2.12', '10.200.4.1'],
      created: '2020-01-01T00:00:00Z',
    }),
  ]
}

function moved(family: 4 | 6) {
  return ({ cidrs, given }: EditedNode): Partial<EditedNode> | undefined => {
    if (cidrs.length < 2) return undefined
    const change = (cidr: string) => (isSix(cidr) ? range6(given + 1) : range4(given + 1))
    return { cidrs: cidrs.map((cidr) => (isSix(cidr) === (family === 6) ? change(cidr) : cidr)), given: given + 1 }
  }
}

/** Ranges begin at every fourth /24 and /64, so that a mask of two bits less begins there, too. */
function masked(bits: number) {
  return ({ cidrs }: EditedNode): Partial<EditedNode> | undefined => {
    const changed = cidrs.map((cidr) => {
      const [base = '', length = ''] = cidr.split('/')
      const [now, usual] = [Number(length) + bits, isSix(cidr) ? 64 : 24]
      return Math.abs(now - usual) > 2 || !/(\.0|::)$/.test(base) ? cidr : `${base}/${now}`
    })
    return changed.join() === cidrs.join() ? undefined : { cidrs: changed }
  }
}

function upperHalf(cidr: string): string {
  const [base = '', length = ''] = cidr.split('/')
  return length === '24' ? `${base.replace(/0$/, '128')}/25` : cidr
}
