// SPDX-License-Identifier: Apache-2.0
// Every name and MAC that trestle gives out, derived from the attachment: DEL, CHECK and GC find
// what is ours without looking anything up (docs/design.md, "Attachments").

import { sha256 } from '../../src/drivers/names.ts'
import { type Address, formatAddress, parseCidr } from '../cni/address.ts'
import type { AttachmentKey } from './attachment.ts'

/** IFNAMSIZ is 16 with the closing NUL (include/uapi/linux/if.h). */
const maxNameLength = 15

/** `veth` and 11 hex digits: the stock settings of NetworkManager and systemd-networkd leave `veth` alone. */
export function hostLinkName(key: AttachmentKey): string {
  return `veth${digestOf(key, 'link').toString('hex')}`.slice(0, maxNameLength)
}

/** Whether a link of the host has a name that `hostLinkName` or `ifbName` gives. */
export function isPodLinkName(name: string): boolean {
  return /^(?:veth[0-9a-f]{11}|ifb[0-9a-f]{12})$/.test(name)
}

export function ifbName(key: AttachmentKey): string {
  return `ifb${digestOf(key, 'ifb').toString('hex')}`.slice(0, maxNameLength)
}

export function ifbMac(key: AttachmentKey): string {
  return localMac(digestOf(key, 'ifb'))
}

/** What a new link of the pod is called until it has its name there: another one may have that. */
export function newPodLinkName(key: AttachmentKey): string {
  return `mac${digestOf(key, 'link').toString('hex')}`.slice(0, maxNameLength)
}

/** The link group that a macvlan is made in: it says in a live pod which link is ours, whatever it is called. */
export function podLinkGroup(key: AttachmentKey): number {
  return 0x20000000 + (digestOf(key, 'group').readUInt32BE() & 0x1fffffff)
}

/** The host end's MAC: locally administered, unicast. */
export function hostLinkMac(key: AttachmentKey): string {
  return localMac(digestOf(key, 'host'))
}

/**
 * The pod end's MAC. It follows an address where we allocate it, so that neighbours of a
 * reused address keep a true entry (plugins#858); else the attachment.
 */
export function podLinkMac(key: AttachmentKey, ownAddress: string | undefined): string {
  const cidr = ownAddress === undefined ? undefined : parseCidr(ownAddress)
  return cidr === undefined ? localMac(digestOf(key, 'pod')) : macOfAddress(cidr)
}

export function macOfAddress({ family, value }: Address): string {
  const bytes = family === 4 ? bytesOf(value, 4) : sha256(bytesOf(value, 16)).subarray(0, 4)
  return toMac(Buffer.from([0x0a, 0x58, ...bytes]))
}

/** The link-local address that the kernel would make of a MAC (RFC 4291, appendix A). */
export function linkLocalCidr(mac: string): string {
  const bytes = mac.split(':').map((part) => Number.parseInt(part, 16))
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = bytes
  const groups = [(a ^ 2) * 256 + b, c * 256 + 0xff, 0xfe00 + d, e * 256 + f]
  const value = groups.reduce((sum, group) => (sum << 16n) | BigInt(group), 0xfe80n << 48n)
  return `${formatAddress({ family: 6, value })}/64`
}

/** The bridge's MAC: fixed at creation, different on every machine (`machineId`), or it floats with its ports. */
export function bridgeMac(name: string, machineId: string): string {
  const text = `bridge\0${name}\0${machineId}`
  if (latestBridge?.text !== text) latestBridge = { text, mac: localMac(sha256(text)) }
  return latestBridge.mac
}

/** The latest one is kept: an order asks again with each plan, and a digest is the longest computation of a call. */
let latestBridge: { readonly text: string; readonly mac: string } | undefined

/** A MAC of ours for something that is not an attachment, locally administered. */
export function localMacOf(text: string): string {
  return localMac(sha256(text))
}

/** `name`, or where it is longer than the kernel allows, its beginning and a digest of all of it. */
export function shortName(name: string): string {
  return name.length <= maxNameLength ? name : `${name.slice(0, 6)}${sha256(name).toString('hex').slice(0, 9)}`
}

/** The alias on the host end, by which a person or `gc` knows whose it is. */
export function aliasOf(key: AttachmentKey): string {
  return `trestle:${key.network}/${key.containerId}/${key.ifName}`.slice(0, 255)
}

/** The alias on the ifb: the host end's, and of a chained attachment with one word more. */
export function ifbAlias(key: AttachmentKey): string {
  return key.role === 'main' ? aliasOf(key) : `${aliasOf(key)}/${key.role}`.slice(0, 255)
}

/** Whose ifb a link is by its name and alias; undefined where it is not ours, has none, or a long alias was cut. */
export function keyOfIfb(name: string, alias = ''): AttachmentKey | undefined {
  const [, ends = '', role] = /^(.*?)(\/chained)?$/.exec(alias) ?? []
  const key = keyOfAlias(ends)
  return key === undefined || ifbName(key) !== name
    ? undefined
    : { ...key, role: role === undefined ? 'main' : 'chained' }
}

export function isIfbName(name: string): boolean {
  return /^ifb[0-9a-f]{12}$/.test(name)
}

/** Whose host end a link is by its name and alias; undefined where it is not ours, or a long alias was cut. */
export function keyOfHostLink(name: string, alias = ''): AttachmentKey | undefined {
  const key = keyOfAlias(alias)
  return key === undefined || hostLinkName(key) !== name ? undefined : key
}

function keyOfAlias(alias: string): AttachmentKey | undefined {
  const [, network, containerId, ifName] =
    /^trestle:([a-zA-Z0-9][\w.-]*)\/([a-zA-Z0-9][\w.-]*)\/([^/]+)$/.exec(alias) ?? []
  if (network === undefined || containerId === undefined || ifName === undefined) return undefined
  return { network, containerId, ifName, role: 'main' }
}

/** A file name for the attachment in its network's directory, distinct for every key. */
export function recordFileName(key: AttachmentKey): string {
  const id = key.containerId.length > 128 ? `~${sha256(key.containerId).toString('hex')}` : key.containerId
  return key.role === 'main' ? `${id}:${key.ifName}` : `${id}:${key.ifName}:${key.role}`
}

/** A directory name for the network, distinct for every name. */
export function networkDirName(network: string): string {
  return network.length > 128 ? `~${sha256(network).toString('hex')}` : network
}

/** Where in an attachment's digest each name and MAC begins: one digest serves them all. */
const offsets = { link: 0, host: 6, pod: 12, ifb: 18, group: 24 } as const

let latest: { readonly text: string; readonly digest: Buffer } | undefined

/** The attachment's digest from where `purpose` begins. The latest one is kept: a call is about one attachment. */
function digestOf(key: AttachmentKey, purpose: keyof typeof offsets): Buffer {
  const text = ['link', key.network, key.containerId, key.ifName].join('\0')
  if (latest?.text !== text) latest = { text, digest: sha256(text) }
  return latest.digest.subarray(offsets[purpose])
}

function localMac(digest: Buffer): string {
  return toMac(Buffer.from([((digest[0] ?? 0) & 0xfc) | 0x02, ...digest.subarray(1, 6)]))
}

function toMac(bytes: Buffer): string {
  return [...bytes].map((b) => b.toString(16).padStart(2, '0')).join(':')
}

function bytesOf(value: bigint, length: number): Buffer {
  return Buffer.from(value.toString(16).padStart(length * 2, '0'), 'hex')
}
