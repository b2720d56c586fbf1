// SPDX-License-Identifier: Apache-2.0
// What must hold after every step, from facts alone: addresses are given out once, and nothing is there that no
// record speaks of. Each function returns what is wrong, in words.

import { aliasOf, hostLinkName, ifbName, isPodLink } from '../support/link-names.ts'
import { portName } from '../support/state-layout.ts'
import { describeElement, type Element } from './elements.ts'
import type { AttachmentKey, Facts, RecordFact, Reservation } from './facts.ts'
import { bridgeOf } from './networks.ts'

/** Sets of elements that networks share: they are for subnets and bridges, and stay without pods. */
const shared = /^(masq|keep|hairpin|acceptnet|acceptnew)[46]$/

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
  const others = addresses.filter(({ name, holder }) => {
    const owner = holders.get(name)
    return owner !== undefined && holder !== undefined && holder.containerId !== owner
  })
  return [...twice, ...others.map(({ file, name }) => `${file} names another than ${holders.get(name)}, who lives`)]
}

/** Every live pod has its addresses, and they are reserved. */
function addressesLost({ pods, addresses }: Facts): readonly string[] {
  const reserved = new Set(addresses.map(({ network, name }) => `${network} ${name}`))
  return pods.flatMap(({ id, network, given, had }) => [
    ...given.filter((address) => !had.includes(address)).map((address) => `${id} has lost ${address}`),
    ...given
      .filter((address) => !reserved.has(`${network} ${address}`))
      .map((address) => `${address} of ${id} is not reserved`),
  ])
}

/** A reservation is a record's, or that of an intent record which has not said yet what it is for. */
function ownerlessReservations({ records, addresses, ports }: Facts): readonly string[] {
  const isOwned = (reservation: Reservation) =>
    records.some((record) => isOf(record, reservation.holder) && speaksOf(record, reservation))
  return [...addresses, ...ports]
    .filter((each) => !isOwned(each))
    .map(({ file, holder }) => `${file} is reserved for ${holder?.containerId ?? 'nobody'}, of whom there is no record`)
}

function isOf({ key }: RecordFact, holder: AttachmentKey | undefined): boolean {
  return key !== undefined && holder !== undefined && nameOf(key) === nameOf(holder)
}

function speaksOf({ spec }: RecordFact, { name, network }: Reservation): boolean {
  if (spec === undefined) return true
  if (network !== undefined) return spec.ips.some(({ address }) => address.startsWith(`${name}/`))
  const ports = spec.hostPorts?.ports ?? []
  return ports.some(({ protocol, hostPort, family }) => name === portName(protocol, hostPort, family))
}

/** Links with our names or our alias are a record's; the host end of a finished one says whose it is. */
function ownerlessLinks({ records, links }: Facts): readonly string[] {
  const known = new Map(records.flatMap(({ key }) => linksOf(key).map((name) => [name, key] as const)))
  const ours = links.filter(isPodLink)
  const ownerless = ours
    .filter(({ name }) => !known.has(name))
    .map(({ name, alias }) => `${name} (${alias}) is nobody's`)
  const finished = records.filter(({ isPending, spec }) => !isPending && spec?.host !== undefined)
  const unnamed = finished.flatMap(({ key, spec }) => {
    const link = links.find(({ name }) => name === spec?.host?.name)
    return key === undefined || link === undefined || link.alias === aliasOf(key)
      ? []
      : [`${link.name} has the alias "${link.alias}", not that of ${key.containerId}`]
  })
  return [...ownerless, ...unnamed]
}

function linksOf(key: AttachmentKey | undefined): readonly string[] {
  return key === undefined ? [] : [hostLinkName(key), ifbName(key)]
}

/** An element of a pod names an address, a host port or a link of a record. */
function ownerlessElements({ records, elements }: Facts): readonly string[] {
  const links = new Set([...records.flatMap(({ key }) => linksOf(key)), ...Object.values(bridgeOf)])
  const addresses = new Set(
    records.flatMap(({ spec }) => spec?.ips.map(({ address }) => address.replace(/\/.*/, '')) ?? []),
  )
  const ports = new Set(
    records.flatMap(({ spec }) =>
      (spec?.hostPorts?.ports ?? []).map(
        ({ protocol, hostPort, podIp, containerPort }) => `${protocol} ${hostPort} -> ${podIp} ${containerPort}`,
      ),
    ),
  )
  const isOwned = (element: Element): boolean => {
    const { set, key, value = [] } = element
    if (shared.test(set)) return true
    if (set.startsWith('anyports')) return ports.has(describeElement(element))
    return [...key, ...value].some((word) => links.has(word) || addresses.has(word))
  }
  return elements
    .filter((each) => !isOwned(each))
    .map((each) => `${describeElement(each)} in nft set ${each.set} is nobody's`)
}

function nameOf({ network, containerId, ifName }: AttachmentKey): string {
  return `${network}/${containerId}/${ifName}`
}
