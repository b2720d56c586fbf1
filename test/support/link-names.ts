// SPDX-License-Identifier: Apache-2.0
// What the links of an attachment are called: names that follow from its ids. The tests compute them by themselves, so
// that a change of a name is seen.

import { createHash } from 'node:crypto'

/** Whose a link is: a network, a container and its interface. */
export interface Ids {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
}

/** The longest name of a link (IFNAMSIZ with the closing NUL, include/uapi/linux/if.h). */
const maxNameLength = 15

/** The host's end of the pair. */
export function hostLinkName(ids: Ids): string {
  return `veth${digestOf(ids, 0)}`.slice(0, maxNameLength)
}

/** The link by which what the pod sends is limited. */
export function ifbName(ids: Ids): string {
  return `ifb${digestOf(ids, 18)}`.slice(0, maxNameLength)
}

/** The alias of both: by it a person knows whose they are. */
export function aliasOf({ network, containerId, ifName }: Ids): string {
  return `${aliasBeginning}${network}/${containerId}/${ifName}`.slice(0, 255)
}

/** The first word of the comment of an element, and all of it where pods share the element. */
export function networkDigest(network: string): string {
  return createHash('sha256').update(`network\0${network}`).digest('hex').slice(0, 16)
}

/** The second word of the comment of an element that is an attachment's alone. */
export function attachmentDigest({ network, containerId, ifName, role }: Ids & { readonly role: string }): string {
  const text = ['attachment', network, containerId, ifName, role].join('\0')
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

const aliasBeginning = 'trestle:'

/** Whether a link of the host is one of a pod's, by its name or alias. */
export function isPodLink({ name, alias }: { readonly name: string; readonly alias: string }): boolean {
  return /^(veth|ifb)[0-9a-f]{9,}$/.test(name) || alias.startsWith(aliasBeginning)
}

/** The digest of the ids in hexadecimal digits, from a byte on. */
function digestOf({ network, containerId, ifName }: Ids, from: number): string {
  const text = ['link', network, containerId, ifName].join('\0')
  return createHash('sha256').update(text).digest().subarray(from).toString('hex')
}
