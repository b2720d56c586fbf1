// SPDX-License-Identifier: Apache-2.0
// Who is masqueraded towards a pod of its own link, as elements. The answer to a translated packet has to come back
// through the translation, and goes straight to the client where both are on one bridge. Not where br_netfilter passes
// bridged packets: it sees the answer too. Which of the two it is only the packet knows (ruleset.ts, hairpin4).

import { bareAddress, familyOf } from '../cni/address.ts'
import type { FeatureConf } from '../config/net-conf.ts'
import type { AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import type { Element } from '../model/elements.ts'
import type { Feature } from './feature.ts'

/** Wherever packets to the pods may be translated: services where the network masquerades, and host ports. */
export function wantsHairpin(conf: FeatureConf): boolean {
  return (conf.ipMasq || conf.portMappings.length > 0) && conf.portmap?.snat !== false
}

/** What is routed back to the bridge it came from: of main attachments the network tells the bridge. */
export function hairpinElements({ bridge, hairpin }: NetworkSpec): readonly Element[] {
  return bridge === undefined || hairpin === undefined ? [] : [hairpinLink(bridge.gateway?.name ?? bridge.name)]
}

/** The same for one link of the host that pods share. */
export function hairpinLink(link: string): Element {
  return { set: 'hairpinlink', key: [link, link] }
}

/**
 * A pod that reaches itself through a translation takes no packet with its own address for a source. The node's host
 * ports are translated by us; kube-proxy masquerades what it translates itself.
 */
export function selfHairpinElements({ selfHairpin, ips }: AttachmentSpec): readonly Element[] {
  if (!selfHairpin) return []
  return ips.map(({ address }) => {
    const bare = bareAddress(address)
    return { set: `self${familyOf(bare)}`, key: [bare, bare] }
  })
}

export const selfHairpin: Feature = { elements: selfHairpinElements }
