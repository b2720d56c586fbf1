// SPDX-License-Identifier: Apache-2.0
// A file that is something else than JSON as a whole: one finding, and nothing of it is read.

import type { Found } from '../checks/finding.ts'

/** What a text is instead of a configuration; undefined for one that may be JSON. */
export function otherFormat(text: string): (Found & { readonly offset: number }) | undefined {
  // UTF-16 that was read as UTF-8: every other byte is 0, and its mark is none of UTF-8.
  if (/^\ufffd{0,2}(?:\0[\t-~]|[\t-~]\0){2}/.test(text)) {
    const message = 'the file is not UTF-8: UTF-16, as Windows tools save it'
    return { id: 'json-syntax', message, cure: 'save it as UTF-8: iconv -f UTF-16 -t UTF-8', offset: 0 }
  }
  if (isBinary(text.slice(0, 512))) {
    const cure = 'write the file again: it was damaged, or is another one'
    return { id: 'json-syntax', message: 'the file is not text', cure, offset: 0 }
  }
  return kubernetesObject(text)
}

/** Whether more than a tenth is what no text has. */
function isBinary(start: string): boolean {
  return (start.match(/[\0-\x08\x0e-\x1f\ufffd]/g) ?? []).length * 10 > start.length
}

/** A manifest in YAML. */
function kubernetesObject(text: string): (Found & { readonly offset: number }) | undefined {
  const start = text.slice(0, 4096)
  if (!/^\s*(?:---\s*)?(?:apiVersion|kind):/m.test(start)) return undefined
  const offset = text.search(/\S/)
  if (text.includes('NetworkAttachmentDefinition')) {
    return { id: 'network-attachment', message: 'this is a NetworkAttachmentDefinition in YAML', offset }
  }
  const kind = /^kind:[ \t]*["']?(\w+)/m.exec(start)?.[1] ?? 'manifest'
  const key = /^[ \t]+["']?([\w.-]+)["']?:[ \t]*[|>]/m.exec(text)?.[1]
  const what = key === undefined ? 'the configuration' : `the text of ${key}`
  const cure = `take ${what} out of it, and look at that`
  return { id: 'json-syntax', message: `this is a ${kind} of Kubernetes in YAML, and no configuration`, cure, offset }
}
