// SPDX-License-Identifier: Apache-2.0
// The names that the upstream plugins give to what they make for one attachment
// (docs/design.md, "Upstream masquerade" and "Upstream portmap" and "Upstream bandwidth"): by these their leavings are
// found, and told from others'.

import { formatAddress, parseAddress } from '../../cni/model/address.ts'

/** Whose rules are meant. `addresses`: without prefix length; empty where they are not known. */
export interface UpstreamOwner {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly addresses: readonly string[]
  /** Addresses whose accepts of the firewall plugin go too: nobody else may hold them. */
  readonly accepts: readonly string[]
}

/** Names made from network, container id and interface name. */
export interface UpstreamNames {
  /** iptables chain of ipMasq: `CNI-` and 24 hex digits. */
  readonly masqueradeChain: string
  /** iptables chains of portmap: `CNI-DN-` and `CNI-SN-` (before 0.9) with 21 hex digits. */
  readonly portChain: string
  readonly oldPortChain: string
  /** How the comments of ipMasq's nftables rules start: two hashes of 16 hex digits. */
  readonly masqueradeMark: string
  /** The ifb device of bandwidth: `bwp` and 12 hex digits. */
  readonly ifb: string
  /** The comment of macspoofchk's rules, and its two chains. */
  readonly spoofMark: string
  readonly spoofChains: readonly string[]
}

/** The interface name is in some of the names only: two interfaces of a container share the others. */
export function upstreamNames(owner: Pick<UpstreamOwner, 'network' | 'containerId' | 'ifName'>): UpstreamNames {
  const { network, containerId, ifName } = owner
  const shared = sha512Hex(network + containerId)
  const spoofChain = `cni-br-iface-${containerId}-${ifName}`
  return {
    masqueradeChain: `CNI-${shared.slice(0, 24)}`,
    portChain: `CNI-DN-${shared.slice(0, 21)}`,
    oldPortChain: `CNI-SN-${shared.slice(0, 21)}`,
    masqueradeMark: `${networkMark(network)}-${sha512Hex(`${ifName}:${containerId}`).slice(0, 16)}`,
    ifb: `bwp${shared.slice(0, 12)}`,
    spoofMark: `macspoofchk-${containerId}-${ifName}`,
    spoofChains: [spoofChain, `${spoofChain}-mac`],
  }
}

/** How the comments of a network's nftables masquerade rules start, whatever the container. */
export function networkMark(network: string): string {
  return sha512Hex(network).slice(0, 16)
}

/** A host link as the upstream names it: `veth` and 8 hex digits. */
export function isUpstreamLinkName(name: string): boolean {
  return /^veth[0-9a-f]{8}$/.test(name)
}

/** A pod that rules speak of, as their comments tell it. `ifName`, `address`: where the rule has it. */
export interface NamedPod {
  readonly network: string
  readonly containerId: string
  readonly ifName?: string
  readonly address?: string
}

/** Whether an address in a rule, `10.1.2.3/32` or `[fd00::2]`, is one of `addresses`. */
export function isOneOf(addresses: readonly string[], text: string): boolean {
  const bare = canonical(text.replace(/^\[(.*)\]$/, '$1').replace(/\/(32|128)$/, ''))
  return addresses.some((address) => canonical(address) === bare)
}

function canonical(text: string): string {
  const address = parseAddress(text)
  return address === undefined ? text : formatAddress(address)
}

/** The digest of a text (as UTF-8) in hex, 128 digits. */
export function sha512Hex(text: string): string {
  return process.getBuiltinModule('node:crypto').createHash('sha512').update(text).digest('hex')
}
