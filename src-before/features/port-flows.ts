// SPDX-License-Identifier: Apache-2.0
// Which conntrack entries must go with a host port. A UDP client that keeps its source port stays on
// the old translation, or on none, as long as it sends (plugins#123, plugins#1190). Only flows to the
// node's own addresses and the port, or into the pod that goes: nobody else's are touched.

import { type Cidr, familyOf, includes, parseAddress } from '../cni/address.ts'
import type { HostPort } from '../model/attachment.ts'

/** Entries of one family, as conntrack(8) arguments without the command and the family: each selection by itself. */
export interface FlowSelections {
  readonly family: 4 | 6
  readonly selections: readonly (readonly string[])[]
}

/** A conntrack entry's first packet: where it went. */
export interface Flow {
  readonly protocol: string
  readonly address: string
  readonly port: number
}

/**
 * Entries to look at once the rules of a new pod are in: one listing of each family and protocol, however many ports
 * and addresses there are, since conntrack takes a hundredth of a second for each selection.
 */
export function flowsToList(ports: readonly HostPort[]): readonly FlowSelections[] {
  return byFamily(ports, (samePorts) => {
    const protocols = [...new Set(samePorts.map(({ protocol }) => protocol))]
    return protocols.map((protocol) => {
      const numbers = new Set(samePorts.filter((port) => port.protocol === protocol).map(({ hostPort }) => hostPort))
      const [only] = numbers
      return numbers.size === 1 ? toPort(protocol, only) : ['-p', protocol]
    })
  })
}

/** Of what was listed, the flows to the pod's host ports that began before. `local`: what is the node's. */
export function flowsBeforeAdd(
  ports: readonly HostPort[],
  local: readonly Cidr[],
  listed: readonly Flow[],
): readonly FlowSelections[] {
  const isLocal = (text: string) => {
    const address = parseAddress(text)
    return address !== undefined && local.some((each) => includes(each, address))
  }
  return byFamily(ports, (samePorts) => {
    const isToPort = ({ protocol, address, port }: Flow) =>
      samePorts.some(({ family, hostIp, ...each }) => {
        const isThere = hostIp === undefined ? familyOf(address) === family && isLocal(address) : hostIp === address
        return isThere && each.protocol === protocol && each.hostPort === port
      })
    const found = listed
      .filter(isToPort)
      .map(({ protocol, address, port }) => [...toPort(protocol, port), '--orig-dst', address])
    return [...new Map(found.map((selection) => [selection.join(' '), selection])).values()]
  })
}

/** After the rules of a pod are gone: flows into it. */
export function flowsAfterDel(ports: readonly HostPort[]): readonly FlowSelections[] {
  return byFamily(ports, (samePorts) =>
    [...new Set(samePorts.map(({ protocol, podIp }) => `-p ${protocol} --reply-src ${podIp}`))].map((each) =>
      each.split(' '),
    ),
  )
}

function toPort(protocol: string, port: number | undefined): readonly string[] {
  return ['-p', protocol, '--orig-port-dst', `${port}`]
}

/** The ports whose flows have no connection. TCP needs none of this: a connection to a gone pod ends by itself. */
export function withoutConnections(ports: readonly HostPort[]): readonly HostPort[] {
  return ports.filter((port) => port.protocol !== 'tcp')
}

function byFamily(
  ports: readonly HostPort[],
  select: (samePorts: readonly HostPort[]) => readonly (readonly string[])[],
): readonly FlowSelections[] {
  return ([4, 6] as const).flatMap((family) => {
    const selections = select(withoutConnections(ports).filter((port) => port.family === family))
    return selections.length === 0 ? [] : [{ family, selections }]
  })
}
