// SPDX-License-Identifier: Apache-2.0
// A key that an object of a JSON text has twice: JSON.parse keeps the last one and does not tell.

const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g

/**
 * The first key that an object under the key `name`, in any case of letters, has twice; undefined for none. `text` must
 * be JSON.
 */
export function repeatedKey(text: string, name: string): string | undefined {
  const open: { readonly name: string; readonly keys: Set<string> }[] = []
  let [key, last] = ['', '']
  for (const [word] of text.matchAll(token)) {
    if (word === ':') {
      key = JSON.parse(last) as string
      const object = open.at(-1)
      if (object?.name.toLowerCase() === name && object.keys.has(key)) return key
      object?.keys.add(key)
    } else if (word === '{' || word === '[') {
      open.push({ name: key, keys: new Set() })
      key = ''
    } else if (!word.startsWith('"')) {
      if (word !== ',') open.pop()
      key = ''
    }
    last = word
  }
  return undefined
}
