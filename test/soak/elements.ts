// SPDX-License-Identifier: Apache-2.0
// Elements of sets and maps in what `nft -j list table` printed (libnftables-json(5)).

/** Fields as bare values, nothing quoted. `value`: of a map. */
export interface Element {
  readonly set: string
  readonly key: readonly string[]
  readonly value?: readonly string[]
}

interface NftSet {
  readonly name: string
  /** The types of the key's fields. */
  readonly type: string | readonly string[]
  readonly elem?: readonly unknown[]
}

/** Every element of a table. */
export function readElements(stdout: string): readonly Element[] {
  const { nftables } = JSON.parse(stdout) as {
    readonly nftables: readonly { readonly set?: NftSet; readonly map?: NftSet }[]
  }
  return nftables.flatMap(({ set, map }) => [
    ...elementsOf(set, (element) => ({ key: element })),
    ...elementsOf(map, (element) => {
      const [key, value] = element as readonly [unknown, unknown]
      return { key, value }
    }),
  ])
}

/** An element in words: of a map with what it leads to. */
export function describeElement({ key, value }: Pick<Element, 'key' | 'value'>): string {
  return value === undefined ? key.join(' ') : `${key.join(' ')} -> ${value.join(' ')}`
}

function elementsOf(
  set: NftSet | undefined,
  partsOf: (element: unknown) => { readonly key: unknown; readonly value?: unknown },
): readonly Element[] {
  if (set === undefined) return []
  const types = [set.type].flat()
  return (set.elem ?? []).map((element) => {
    const { key, value } = partsOf(element)
    return { set: set.name, key: keyOf(types, key), ...(value === undefined ? {} : { value: fieldsOf(value) }) }
  })
}

/** nft names protocols by /etc/protocols, which a small image may lack: then there are numbers (getprotobynumber(3)). */
const protocols: Readonly<Record<string, string>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' }

function keyOf(types: readonly string[], key: unknown): readonly string[] {
  return fieldsOf(key).map((field, at) => (types[at] === 'inet_proto' ? (protocols[field] ?? field) : field))
}

function fieldsOf(value: unknown): readonly string[] {
  const bare = unwrapped(value)
  const parts = typeof bare === 'object' ? (bare as { concat?: readonly unknown[] } | null)?.concat : undefined
  return parts === undefined ? [readField(bare)] : parts.map((part) => readField(unwrapped(part)))
}

/** An element with a comment, a counter or a time-out is wrapped. */
function unwrapped(value: unknown): unknown {
  return (value as { elem?: { val: unknown } } | null)?.elem?.val ?? value
}

/** An address, `address/length`, a name or a number, the chain of a verdict. */
function readField(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  const entry = value as Readonly<Record<string, unknown>>
  if ('prefix' in entry) {
    const prefix = entry['prefix'] as { addr: string; len: number }
    return `${prefix.addr}/${prefix.len}`
  }
  if ('goto' in entry) return (entry['goto'] as { target: string }).target
  if ('range' in entry) return (entry['range'] as unknown[]).map(readField).join('-')
  return JSON.stringify(value)
}
