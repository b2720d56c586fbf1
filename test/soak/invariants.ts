// SPDX-License-Identifier: Apache-2.0
// What must hold after every step, from facts alone: addresses are given out once, and nothing is there that no
// record speaks of. Each function returns what is wrong, in words.

import { attachmentDigest, hostLinkName, ifbName, isPodLink } from '../support/link-names.ts'
import { portName } from '../support/state-layout.ts'
import type { AttachmentId, Facts, RecordFact, Reservation } from './facts.ts'
import { foreign } from './networks.ts'

/** Everything that is wrong. */
export function brokenInvariants(facts: Facts): readonly string[] {
  return [
    ...addressesGivenTwice(facts),
    ...addressesLost(facts),
    ...ownerlessReservations(facts),
    ...ownerlessLinks(facts),
    ...ownerlessElements(facts),
  ]
}

/** No two pods have an address, and no address of a live pod is reserved for another one. */
function addressesGivenTwice({ pods, addresses }: Facts): readonly string[] {
  const holders = new Map<string, string>()
  const twice: string[] = []
  for (const { id, given } of pods) {
    for (const address of given) {
      const other = holders.get(address)
      if (other !== undefined) twice.push(`${address} is given to ${other} and to ${id}`)
      holders.set(address, id)
    }
  }
  const others = addresses.filter(({ name, id }) => {
    const owner = holders.get(name)
    return owner !== undefined && id !== undefined && id.containerId !== owner
  })
  return [...twice, ...others.map(({ file, name }) => `${file} names another than ${holders.get(name)}, who lives`)]
}

/** Every live pod has its addresses, and they are reserved where they are from a pool of ours. */
function addressesLost({ pods, addresses }: Facts): readonly string[] {
  const reserved = new Set(addresses.map(({ network, name }) => `${network} ${name}`))
  return pods.flatMap(({ id, network, given, had }) => [
    ...given.filter((address) => !had.includes(address)).map((address) => `${id} has lost ${address}`),
    ...given
      .filter((address) => network !== foreign && !reserved.has(`${network} ${address}`))
      .map((address) => `${address} of ${id} is not reserved`),
  ])
}

/** A reservation is a record's, or that of an intent record which has not said yet what it is for. */
function ownerlessReservations({ records, addresses, ports }: Facts): readonly string[] {
  const isOwned = (reservation: Reservation) =>
    records.some((record) => nameOf(record.id) === nameOf(reservation.id) && speaksOf(record, reservation))
  return [...addresses, ...ports]
    .filter((each) => each.id === undefined || !isOwned(each))
    .map(({ file, id }) => `${file} is reserved for ${id?.containerId ?? 'nobody'}, of whom there is no record`)
}

function speaksOf({ spec }: RecordFact, { name, network }: Reservation): boolean {
  if (spec === undefined) return true
  if (network !== undefined) return spec.addresses.some(({ address }) => address.startsWith(`${name}/`))
  const ports = spec.hostPorts?.ports ?? []
  return ports.some(({ protocol, hostPort, family }) => name === portName(protocol, hostPort, family))
}

/** Links with our names or our alias are a record's; the host end of a finished one says whose it is. */
function ownerlessLinks({ records, links }: Facts): readonly string[] {
  const ids = records.flatMap(({ id }) => id ?? [])
  const known = new Set(ids.flatMap((id) => [hostLinkName(id), ifbName(id)]))
  const ownerless = links
    .filter((link) => isPodLink(link) && !known.has(link.name))
    .map(({ name, alias }) => `${name} (${alias}) is nobody's`)
  const finished = records.filter(({ isPending, spec }) => !isPending && spec?.host !== undefined)
  const unnamed = finished.flatMap(({ id, spec }) => {
    const link = links.find(({ name }) => name === spec?.host?.name)
    const ours = `trestle:${id?.network}/${id?.containerId}/${id?.ifName}`
    return link === undefined || link.alias.split(' ')[0] === ours ? [] : [`${link.name} has the alias "${link.alias}"`]
  })
  return [...ownerless, ...unnamed]
}

/** Each element says whose it is: a network's, or an attachment's of whom there is a record. */
function ownerlessElements({ records, elements }: Facts): readonly string[] {
  const known = new Set(records.flatMap(({ id }) => (id === undefined ? [] : [attachmentDigest(id)])))
  return elements
    .filter((element) => {
      const [, owner] = / comment "[0-9a-f]{16}(?: ([0-9a-f]{16}))?"/.exec(element) ?? ['', 'without a comment']
      return owner !== undefined && !known.has(owner)
    })
    .map((element) => `${element} is nobody's`)
}

function nameOf(id: AttachmentId | undefined): string {
  return `${id?.network}/${id?.containerId}/${id?.ifName}/${id?.role}`
}
