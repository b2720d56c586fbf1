// SPDX-License-Identifier: Apache-2.0
// JSON as a tree that can also hold what JSON.parse does not keep: keys that are there twice, and numbers as written.

/** A JSON value. A scalar is its text. */
export type Tree =
  | { readonly kind: 'scalar'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly Tree[] }
  | { readonly kind: 'object'; readonly entries: readonly Entry[] }

/** A key, in any spelling, and its value. */
export type Entry = readonly [key: string, value: Tree]

/** What to put in the place of a value; undefined takes it out. `key`: its key, where it is in an object. */
export type Change = (value: Tree, key: string | undefined) => readonly (Tree | Entry)[]

/** A tree from a value. */
export function treeOf(value: unknown): Tree {
  if (Array.isArray(value)) return { kind: 'list', items: value.map(treeOf) }
  if (typeof value !== 'object' || value === null) return { kind: 'scalar', text: JSON.stringify(value) ?? 'null' }
  return { kind: 'object', entries: Object.entries(value).map(([key, child]): Entry => [key, treeOf(child)]) }
}

/** The tree as JSON text, keys that are there twice included. */
export function textOf(tree: Tree): string {
  if (tree.kind === 'scalar') return tree.text
  if (tree.kind === 'list') return `[${tree.items.map(textOf).join(',')}]`
  return `{${tree.entries.map(([key, value]) => `${JSON.stringify(key)}:${textOf(value)}`).join(',')}}`
}

/** Every value of the tree below its root, in the order of its text. */
export function valuesOf(tree: Tree): readonly Tree[] {
  if (tree.kind === 'scalar') return []
  const children = tree.kind === 'list' ? tree.items : tree.entries.map(([, value]) => value)
  return children.flatMap((child) => [child, ...valuesOf(child)])
}

/**
 * The tree with `change` applied to one value, found by identity. An entry in a list loses its key; a value in an
 * object keeps the old one.
 */
export function changed(tree: Tree, target: Tree, change: Change): Tree {
  if (tree.kind === 'list') {
    const items = tree.items.flatMap((item) => {
      if (item !== target) return [changed(item, target, change)]
      return change(item, undefined).map((each) => (isEntry(each) ? each[1] : each))
    })
    return { kind: 'list', items }
  }
  if (tree.kind !== 'object') return tree
  const entries = tree.entries.flatMap(([key, value]): readonly Entry[] => {
    if (value !== target) return [[key, changed(value, target, change)]]
    return change(value, key).map((each) => (isEntry(each) ? each : [key, each]))
  })
  return { kind: 'object', entries }
}

function isEntry(each: Tree | Entry): each is Entry {
  return Array.isArray(each)
}
