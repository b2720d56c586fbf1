// SPDX-License-Identifier: Apache-2.0
// Elements of the sets and maps of our tables as data, and their operations. Their text is tools/nft.ts's.

import type { Op } from './op.ts'
import type { SetName } from './sets.ts'

/** An element of one of our sets, fields as sets.ts names them: bare values, nothing quoted. `value`: of a map. */
export interface Element {
  readonly set: SetName
  readonly key: readonly string[]
  readonly value?: readonly string[]
}

/** Elements of each set by their keys (`keyText`): a set has a key once. */
export type Elements = ReadonlyMap<SetName, ReadonlyMap<string, Element>>

/** Elements by set and key. */
export function indexElements(elements: readonly Element[]): Elements {
  const index = new Map<SetName, Map<string, Element>>()
  for (const element of elements) {
    const known = index.get(element.set) ?? new Map<string, Element>()
    index.set(element.set, known.set(keyText(element), element))
  }
  return index
}

/** The elements of one set. */
export function elementsIn(elements: Elements, set: SetName): readonly Element[] {
  return [...(elements.get(set)?.values() ?? [])]
}

/** The element with the same key, whatever its value. */
export function elementAt(elements: Elements, { set, key }: Pick<Element, 'set' | 'key'>): Element | undefined {
  return elements.get(set)?.get(keyText({ key }))
}

/** Whether the element is there, with the same value. */
export function hasElement(elements: Elements, element: Element): boolean {
  const there = elementAt(elements, element)
  return there !== undefined && isSameValue(there, element)
}

/** Whether a map leads to the same for both. */
export function isSameValue({ value: a = [] }: Element, { value: b = [] }: Element): boolean {
  return a.length === b.length && a.every((field, at) => field === b[at])
}

/** A key to look up by: no field has a space in it. */
export function keyText({ key }: Pick<Element, 'key'>): string {
  return key.join(' ')
}

/** An element for people: `tcp 8080 -> 10.0.0.2 80`. */
export function describeElement({ key, value }: Pick<Element, 'key' | 'value'>): string {
  return value === undefined ? key.join(' ') : `${key.join(' ')} -> ${value.join(' ')}`
}

/** Operations for elements, with what each is for. */
export function elementOps(elements: readonly Element[], kind: 'nft.add' | 'nft.del' = 'nft.add'): readonly Op[] {
  const [verb, where] = kind === 'nft.add' ? ['add', 'to'] : ['remove', 'from']
  return elements.map((element) => ({
    in: 'host',
    kind,
    ...element,
    why: `${verb} ${describeElement(element)} ${where} nft set ${element.set}`,
  }))
}
