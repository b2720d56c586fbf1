// SPDX-License-Identifier: Apache-2.0
// What there is: the files of the state directory, read without trestle's own reader, and the kernel's links,
// rules and the pods' addresses.

import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import type { Host } from '../support/host.ts'
import type { Ids } from '../support/link-names.ts'
import { isTemporaryName, type Part, type Role, relative, stateFiles } from '../support/state-layout.ts'
import { inPodJson, onHostJson } from '../support/traffic/pods.ts'
import type { Pod, World } from './world.ts'

/** Who an attachment is, as its record says. */
export interface AttachmentId extends Ids {
  readonly role: Role
}

/** What an attachment has, as far as invariants are about it. */
interface AttachmentSpec {
  readonly host?: { readonly name: string }
  readonly addresses: readonly { readonly address: string }[]
  readonly hostPorts?: {
    readonly ports: readonly { readonly protocol: string; readonly hostPort: number; readonly family: 4 | 6 }[]
  }
}

/** A record or a reservation as far as it can be read. `file`: below the state directory. */
interface StateFact {
  readonly file: string
  readonly id?: AttachmentId
  readonly spec?: AttachmentSpec
}

export interface RecordFact extends StateFact {
  readonly isPending: boolean
}

/** A reservation: of an address in a network, or of a host port. `id`: whose it is. */
export interface Reservation extends StateFact {
  readonly network?: string
  readonly name: string
}

/** A pod that its runtime takes for running, and what its namespace has. */
interface PodFact {
  readonly id: string
  readonly network: string
  /** From the result of its ADD, without prefix length. */
  readonly given: readonly string[]
  readonly had: readonly string[]
}

/** Everything that the invariants are about. */
export interface Facts {
  readonly records: readonly RecordFact[]
  readonly addresses: readonly Reservation[]
  readonly ports: readonly Reservation[]
  readonly links: readonly { readonly name: string; readonly alias: string }[]
  /** Of the sets and maps of our tables, as nft(8) prints them. */
  readonly elements: readonly string[]
  readonly pods: readonly PodFact[]
}

/** Looks at everything. */
export function lookAt({ host, pods }: World): Facts {
  const networks = namesIn(stateFiles(host).networks)
  const inNetworks = (part: Part) =>
    networks.flatMap((network) => {
      const directory = relative.network(network).directoryOf(part)
      return namesIn(`${host.stateDir}/${directory}`).map((name) => {
        const file = `${directory}/${name}`
        return { network, name, ...readFact(host, file) }
      })
    })
  const live = [...pods.values()].filter(({ state }) => state === 'live')
  return {
    records: [
      ...inNetworks('attachments').map((fact) => ({ ...fact, isPending: false })),
      ...inNetworks('pending').map((fact) => ({ ...fact, isPending: true })),
    ],
    addresses: inNetworks('addresses'),
    ports: namesIn(stateFiles(host).ports).map((name) => ({ name, ...readFact(host, relative.port(name)) })),
    links: onHostJson(host, ['link', 'show']).map(({ ifname, ifalias = '' }) => ({ name: ifname, alias: ifalias })),
    elements: (['inet', 'bridge'] as const).flatMap((family) => elementsOf(host, family)),
    pods: live.map((pod) => podFact(host, pod)),
  }
}

function elementsOf(host: Host, family: 'inet' | 'bridge'): readonly string[] {
  const { stdout } = host.run('nft', ['list', 'table', family, 'trestle'])
  const sets = stdout.matchAll(/^\t(?:set|map) (\S+) \{\n[\s\S]*?elements = \{([\s\S]*?)\}\n\t\}/gm)
  return [...sets].flatMap(([, set = '', body = '']) => body.split(',').map((element) => `${set}: ${element.trim()}`))
}

function podFact(host: Host, { id, slot, netns, result }: Pod): PodFact {
  const shown = inPodJson(host, netns, ['addr', 'show', 'scope', 'global'])
  const had = shown.flatMap(({ addr_info = [] }) => addr_info.flatMap(({ local }) => local ?? []))
  const given = (result?.ips ?? []).map(({ address }) => address.replace(/\/.*/, ''))
  return { id, network: slot.network, given, had }
}

/** Whether there is a record that can be read, and it is of this container. */
export function isRecorded(host: Host, file: string, containerId: string): boolean {
  return readFact(host, file).id?.containerId === containerId
}

/** What of it is JSON; a file that is none, or is gone by now, has nothing. `file`: below the state directory. */
function readFact(host: Host, file: string): StateFact {
  const path = `${host.stateDir}/${file}`
  try {
    // A pipe would never end.
    const { id, spec } = lstatSync(path).isFile() ? JSON.parse(readFileSync(path, 'utf8')) : {}
    return { file, ...(id ? { id } : {}), ...(Array.isArray(spec?.addresses) ? { spec } : {}) }
  } catch {
    return { file }
  }
}

/** Names in a directory, without the temporary ones. */
export function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
      .filter((name) => !isTemporaryName(name))
      .sort()
  } catch {
    return []
  }
}
