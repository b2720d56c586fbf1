// SPDX-License-Identifier: Apache-2.0
// MAC addresses of pods' interfaces, as text.

const forms = [
  /^[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}$/,
  /^[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5}$/,
  /^[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}$/,
]

/** Lower case with colons, or undefined. The three forms of Go's net.ParseMAC, 6 bytes only. */
export function parseMac(text: string): string | undefined {
  if (!forms.some((form) => form.test(text))) return undefined
  return (text.toLowerCase().match(/[0-9a-f]{2}/g) ?? []).join(':')
}

/** What `text` is not and would have to be for the MAC of an interface, which has no group address; or undefined. */
export function macProblem(text: string): { readonly what: string; readonly hint: string } | undefined {
  const mac = parseMac(text)
  if (mac === undefined) return { what: 'a MAC address', hint: 'use six bytes like "c2:11:22:33:44:55"' }
  const first = Number.parseInt(mac.slice(0, 2), 16)
  if (first % 2 === 0 && mac !== '00:00:00:00:00:00') return undefined
  const unicast = mac.replace(/^../, ((first & 0xfc) | 2).toString(16).padStart(2, '0'))
  const what = first % 2 === 1 ? 'a unicast MAC address' : 'an address an interface can have'
  return { what, hint: `use an even first byte, like "${unicast}"` }
}
