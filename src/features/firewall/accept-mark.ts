// SPDX-License-Identifier: Apache-2.0
// The mark that says to other firewalls "let this packet pass": one bit, and one for the whole machine, so that a
// chain of somebody else needs one constant accept whatever the number of networks and pods.

import type { NetworkSpec } from '../../model/attachment.ts'
import { acceptedOf } from './firewall.ts'

/**
 * 0x1000. Taken by others are 0x2000 (portmap, podman), 0x4000 and 0x8000 (kube-proxy, kubelet), 0xf00 (cilium, and
 * 0x100 on for docker swarm's services), 0xff0000 (tailscale; calico 0xffff0000, weave and kube-router 0x20000,
 * cilium's identities from 0x10000 on), 0x80000000 and 0xff (antrea), 0x80 (the AWS plugin); administrators count from
 * 0x1 on. Istio's 0x539 and ztunnel's are whole marks inside of pods; flannel reads kube-proxy's only. Of what
 * https://github.com/fwmark/registry lists only cilium's IPsec, which routes pods itself, has this bit, too.
 */
export const defaultMarkBit = 12

/**
 * The mark of these networks together; undefined where none wants an accept. Where configurations ask for several bits
 * the lowest is used: every call comes to the same one in whatever order they are changed, and none is refused for the
 * state of another. A network that names no bit follows one that does.
 */
export function acceptMark(networks: readonly NetworkSpec[]): number | undefined {
  const accepting = networks.filter((network) => acceptedOf(network).length > 0)
  if (accepting.length === 0) return undefined
  const bits = accepting.flatMap(({ acceptMarkBit }) => acceptMarkBit ?? [])
  return 2 ** (bits.length === 0 ? defaultMarkBit : Math.min(...bits))
}

/** A mark as the tools print it: `0x1000`. */
export function markText(mark: number): string {
  return `0x${mark.toString(16)}`
}
