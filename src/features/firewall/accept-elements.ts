// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept as elements: whose packets other firewalls are to let pass, and whose new connections to them
// (accept-rules.ts). They are the networks' own, filled when those are set up: no pod adds any.

import type { NetworkSpec } from '../../model/attachment.ts'
import type { Element } from '../../model/elements.ts'
import { pairElements, subnetElements } from '../masquerade.ts'
import { acceptedOf } from './firewall.ts'

/** New connections that are let in: to the pods' subnets `to`, from those and from `from`. */
export interface NewConnections {
  readonly to: readonly string[]
  readonly from: readonly string[]
}

/** Every element of these networks together. */
export function acceptElements(networks: readonly NetworkSpec[]): readonly Element[] {
  const accepted = networks.flatMap((network) => acceptedOf(network).map((subject) => ({ network, subject })))
  const links = accepted
    .filter(({ subject }) => !subject.includes('/'))
    .flatMap(({ network, subject }) => linksOf(network, subject))
  const subnets = accepted.filter(({ subject }) => subject.includes('/')).map(({ subject }) => subject)
  const lists = networks.map(newConnections).map(({ to, from }) => ({ first: to, second: [...to, ...from] }))
  return [
    ...[...new Set(links)].map((link): Element => ({ set: 'acceptlinks', key: [link] })),
    ...subnetElements('acceptnet', subnets),
    ...pairElements('acceptnew', lists),
  ]
}

/** The new connections that a network lets in. */
export function newConnections({ acceptNew = 'none' }: NetworkSpec): NewConnections {
  return acceptNew === 'none' ? { to: [], from: [] } : acceptNew
}

/** The gateway of a bridge on a VLAN is a link of its own, and packets of pods come in by that. */
function linksOf({ bridge }: NetworkSpec, link: string): readonly string[] {
  return bridge?.name === link && bridge.gateway !== undefined ? [link, bridge.gateway.name] : [link]
}
