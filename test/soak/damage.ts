// SPDX-License-Identifier: Apache-2.0
// What happens to a node behind everybody's back. Each damage says which pods cannot be whole any more: the runtime
// deletes those.

import { rmSync, statSync, truncateSync } from 'node:fs'
import { damages as fileDamages, filesBelow } from '../support/damage/damage.ts'
import { hostLinkName } from '../support/link-names.ts'
import { isDamaged, isNamedAfter, partOf, parts, portOf, relative, stateFiles } from '../support/state-layout.ts'
import { namesIn } from './facts.ts'
import { bridgeOf } from './networks.ts'
import { at } from './random.ts'
import { dropNetns, type Pod, type World } from './world.ts'

/** Two numbers from 0 to 1 that pick from what there is. */
export interface Choice {
  readonly chosen: number
  readonly how: number
}

/** Does the damage; returns the pods that are not whole any more. */
type Damage = (world: World, choice: Choice) => readonly Pod[]

/** Not another attachment's text: that cannot be told from the truth. */
const fileDamageNames = ['cut', ...Object.keys(fileDamages).filter((name) => !name.includes("another attachment's"))]

const damages: Readonly<Record<string, Damage>> = {
  'the ruleset is flushed': ({ host }) => none(host.run('nft', ['flush', 'ruleset'])),
  'our table is deleted': ({ host }) => none(host.run('nft', ['delete', 'table', 'inet', 'trestle'])),
  'our table of the bridge family is deleted': ({ host }) =>
    none(host.run('nft', ['delete', 'table', 'bridge', 'trestle'])),
  'our table is flushed': ({ host }) => none(host.run('nft', ['flush', 'table', 'inet', 'trestle'])),
  'a set is emptied': ({ host }, { chosen }) =>
    none(
      host.run('nft', ['flush', 'set', 'inet', 'trestle', at(['masq4', 'keep6', 'hairpin4', 'fenced'], chosen) ?? '']),
    ),
  'a bridge is deleted': ({ host }, { chosen }) =>
    none(host.run('ip', ['link', 'del', at(Object.values(bridgeOf), chosen) ?? ''])),
  'forwarding is switched off': ({ host }) => none(host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=0'])),
  'a host link is deleted': deleteHostLink,
  'a namespace is deleted': deleteNetns,
  'a file of the state is damaged': damageFile,
  'a directory of the state is removed': removeDirectory,
}

/** Names of damages; some are likelier than others. */
export const damageNames: readonly string[] = [
  ...Object.keys(damages),
  'a namespace is deleted',
  'a file of the state is damaged',
  'a file of the state is damaged',
]

/** Does one damage. */
export function inflict(world: World, name: string, choice: Choice): readonly Pod[] {
  return damages[name]?.(world, choice) ?? []
}

function none(_: unknown): readonly Pod[] {
  return []
}

function liveOnes({ pods }: World): readonly Pod[] {
  return [...pods.values()].filter(({ state }) => state === 'live').sort((a, b) => a.slot.number - b.slot.number)
}

function deleteHostLink(world: World, { chosen }: Choice): readonly Pod[] {
  const pod = at(liveOnes(world), chosen)
  if (pod === undefined) return []
  const key = { network: pod.slot.network, containerId: pod.id, ifName: 'eth0' } as const
  world.host.run('ip', ['link', 'del', hostLinkName(key)])
  return [pod]
}

function deleteNetns(world: World, { chosen }: Choice): readonly Pod[] {
  const pod = at(liveOnes(world), chosen)
  if (pod !== undefined) {
    dropNetns(world, pod)
    pod.state = 'dead'
  }
  return []
}

/** The network's files and those of attachments, reservations, locks; not what was set aside before. */
function damageFile(world: World, { chosen, how }: Choice): readonly Pod[] {
  const { stateDir } = world.host
  const files = filesBelow(stateDir).filter((name) => !isDamaged(name))
  const file = at(files, chosen)
  if (file === undefined) return []
  const owners = ownersOf(world, file)
  const [path, name] = [`${stateDir}/${file}`, at(fileDamageNames, how) ?? '']
  if (name === 'cut') truncateSync(path, Math.floor(statSync(path).size * how * fileDamageNames.length))
  else fileDamages[name]?.({ file: path, other: path, outside: '/etc/hostname' })
  return owners
}

function removeDirectory(world: World, { chosen, how }: Choice): readonly Pod[] {
  const { stateDir } = world.host
  const network = at(namesIn(stateFiles(world.host).networks), how)
  if (network === undefined) return []
  const files = relative.network(network)
  const directory = at([...parts.map(files.directoryOf), files.directory, relative.ports], chosen) ?? ''
  const owners = filesBelow(stateDir)
    .filter((name) => name.startsWith(`${directory}/`))
    .flatMap((name) => ownersOf(world, name))
  rmSync(`${stateDir}/${directory}`, { recursive: true, force: true })
  return [...new Set(owners)]
}

/** Whose a file is: the pod that it is named after, or that has the address or the port. */
function ownersOf(world: World, file: string): readonly Pod[] {
  const everybody = [...world.pods.values(), ...world.former]
  const { network, part, name = '' } = partOf(file) ?? {}
  if (part === 'addresses') {
    return everybody.filter(({ slot, result }) => slot.network === network && hasAddress(result, name))
  }
  const port = portOf(file)
  if (port !== undefined) return everybody.filter(({ slot }) => slot.number === port - 20_000)
  return everybody.filter(({ id }) => isNamedAfter(name, id))
}

function hasAddress(result: Pod['result'], name: string): boolean {
  return (result?.ips ?? []).some(({ address }) => address.startsWith(`${name}/`))
}
