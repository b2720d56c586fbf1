// SPDX-License-Identifier: Apache-2.0
// Every name and MAC that trestle gives, derived from the attachment, so that DEL and recovery need no lookup; and the
// aliases and comments by which the kernel says whose a link or an element is.

import { type Address, formatAddress, longestLinkName } from '../cni/addresses.ts'
import type { AttachmentId } from './spec.ts'

/** 32 bytes. Loaded where it is needed: the reply to VERSION and STATUS does not wait for OpenSSL. */
export function sha256(data: string | Uint8Array): Buffer {
  return process.getBuiltinModule('node:crypto').hash('sha256', data, 'buffer')
}

type LinkOwner = Pick<AttachmentId, 'network' | 'containerId' | 'ifName'>

/** `veth` and 11 hex digits: stock settings of NetworkManager and systemd-networkd leave `veth*` alone. */
export function hostLinkName(id: LinkOwner): string {
  return `veth${digestOf(id, 'link').toString('hex')}`.slice(0, longestLinkName)
}

export function ifbName(id: LinkOwner): string {
  return `ifb${digestOf(id, 'ifb').toString('hex')}`.slice(0, longestLinkName)
}

/** The name of a new interface of the pod until it is renamed there. */
export function temporaryLinkName(id: LinkOwner): string {
  return `mac${digestOf(id, 'link').toString('hex')}`.slice(0, longestLinkName)
}

/** The link group of a macvlan: it tells in a live pod which link is ours, whatever it is called. */
export function podLinkGroup(id: LinkOwner): number {
  return 0x20000000 + (digestOf(id, 'group').readUInt32BE() & 0x1fffffff)
}

export function hostLinkMac(id: LinkOwner): string {
  return localMac(digestOf(id, 'host'))
}

export function ifbMac(id: LinkOwner): string {
  return localMac(digestOf(id, 'ifb'))
}

/** The pod end's MAC where no address gives it. */
export function podLinkMac(id: LinkOwner): string {
  return localMac(digestOf(id, 'pod'))
}

/** The MAC that follows an address: neighbours of a reused address keep a true entry (plugins#858). */
export function addressMac({ family, value }: Address): string {
  const bytes = Buffer.from(value.toString(16).padStart(family === 4 ? 8 : 32, '0'), 'hex')
  return toMac(Buffer.from([0x0a, 0x58, ...(family === 4 ? bytes : sha256(bytes).subarray(0, 4))]))
}

/** A bridge has a fixed MAC, or it would follow its ports; `machineId` keeps two nodes of a segment apart. */
export function bridgeMac(name: string, machineId: string): string {
  return localMac(sha256(`bridge\0${name}\0${machineId}`))
}

export function vlanGatewayMac(name: string): string {
  return localMac(sha256(`gateway ${name}`))
}

/** The link-local prefix that the kernel makes of a MAC (RFC 4291, appendix A). */
export function linkLocalPrefix(mac: string): string {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = mac.split(':').map((part) => Number.parseInt(part, 16))
  const groups = [(a ^ 2) * 256 + b, c * 256 + 0xff, 0xfe00 + d, e * 256 + f]
  const value = groups.reduce((sum, group) => (sum << 16n) | BigInt(group), 0xfe80n << 48n)
  return `${formatAddress({ family: 6, value })}/64`
}

/** A name that the kernel takes: where it is too long, its beginning and a digest of all of it. */
export function shortLinkName(name: string): string {
  return name.length <= longestLinkName ? name : `${name.slice(0, 6)}${sha256(name).toString('hex').slice(0, 9)}`
}

// Aliases: `trestle:NETWORK/CONTAINER/INTERFACE` and the pod's addresses, 255 bytes at most.

/** An id of over 64 characters stands in aliases and file names as `~` and 63 hex digits of its SHA-256. */
export function shortId(id: string): string {
  return id.length <= 64 ? id : `~${sha256(id).toString('hex').slice(0, 63)}`
}

/** `role`: written on what a chained attachment has. `addresses`: without prefix length. */
export function aliasOf(id: AttachmentId, addresses: readonly string[]): string {
  const ids = `trestle:${shortId(id.network)}/${shortId(id.containerId)}/${id.ifName}`
  const words = [ids, ...(id.role === 'main' ? [] : [id.role]), ...addresses]
  return words.join(' ').slice(0, 255)
}

export interface AliasText {
  readonly id: AttachmentId
  readonly addresses: readonly string[]
}

/** Whose link it is, by its alias and by the name that follows from the ids; undefined where it is not ours. */
export function readAlias(name: string, alias: string | undefined): AliasText | undefined {
  const [ids = '', ...words] = (alias ?? '').split(' ')
  const match = /^trestle:(~?[\w.-]+)\/(~?[\w.-]+)\/([^/ ]+)$/.exec(ids)
  if (match === null) return undefined
  const [, network = '', containerId = '', ifName = ''] = match
  const isChained = words[0] === 'chained'
  const id: AttachmentId = { network, containerId, ifName, role: isChained ? 'chained' : 'main' }
  if (name !== hostLinkName(id) && name !== ifbName(id)) return undefined
  return { id, addresses: isChained ? words.slice(1) : words }
}

/** A bridge of ours, and the gateway link of a VLAN on it, say so. */
export const ownBridgeAlias = 'trestle'

/** Whether a link of the host has a name that `hostLinkName` or `ifbName` gives. */
export function isPodLinkName(name: string): boolean {
  return /^(?:veth[0-9a-f]{11}|ifb[0-9a-f]{12})$/.test(name)
}

// Comments of nftables elements (the kernel takes 128 bytes): digests of the network's name and of the attachment.

export function networkDigest(network: string): string {
  return sha256(`network\0${shortId(network)}`)
    .toString('hex')
    .slice(0, 16)
}

export function attachmentDigest(id: AttachmentId): string {
  const text = ['attachment', shortId(id.network), shortId(id.containerId), id.ifName, id.role].join('\0')
  return sha256(text).toString('hex').slice(0, 16)
}

/** The comment of an element that belongs to one attachment. */
export function elementComment(id: AttachmentId): string {
  return `${networkDigest(id.network)} ${attachmentDigest(id)}`
}

export const clusterComment = 'cluster'

// One digest serves every name and MAC of an attachment; each begins elsewhere in it.
const offsets = { link: 0, host: 6, pod: 12, ifb: 18, group: 24 } as const

function digestOf(id: LinkOwner, purpose: keyof typeof offsets): Buffer {
  const text = ['link', shortId(id.network), shortId(id.containerId), id.ifName].join('\0')
  return sha256(text).subarray(offsets[purpose])
}

/** Locally administered, unicast. */
function localMac(digest: Buffer): string {
  return toMac(Buffer.from([((digest[0] ?? 0) & 0xfc) | 0x02, ...digest.subarray(1, 6)]))
}

function toMac(bytes: Buffer): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(':')
}
