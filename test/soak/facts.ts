// SPDX-License-Identifier: Apache-2.0
// What there is: the files of the state directory, read without trestle's own reader, and the kernel's links,
// rules and the pods' addresses.

import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import type { Host } from '../support/host.ts'
import type { Ids } from '../support/link-names.ts'
import { isTemporaryName, type Part, type Role, relative, stateFiles } from '../support/state-layout.ts'
import { inPodJson, onHostJson } from '../support/traffic/pods.ts'
import { type Element, readElements } from './elements.ts'
import type { Pod, World } from './world.ts'

/** Who an attachment is, as its record says. */
export interface AttachmentKey extends Ids {
  readonly role: Role
}

/** What an attachment has, as far as invariants are about it. */
export interface AttachmentSpec {
  readonly host?: { readonly name: string }
  readonly ips: readonly { readonly address: string }[]
  readonly hostPorts?: {
    readonly ports: readonly {
      readonly protocol: string
      readonly hostPort: number
      readonly family: 4 | 6
      readonly podIp: string
      readonly containerPort: number
    }[]
  }
}

/** A record as far as it can be read. `file`: below the state directory. */
export interface RecordFact {
  readonly file: string
  readonly isPending: boolean
  readonly key?: AttachmentKey
  readonly spec?: AttachmentSpec
}

/** A reservation: of an address in a network, or of a host port. `holder`: whom it names. */
export interface Reservation {
  readonly file: string
  readonly network?: string
  readonly name: string
  readonly holder?: AttachmentKey
}

/** A link of the host. */
export interface LinkFact {
  readonly name: string
  readonly alias: string
}

/** A pod that its runtime takes for running, and what its namespace has. */
export interface PodFact {
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
  readonly links: readonly LinkFact[]
  readonly elements: readonly Element[]
  readonly pods: readonly PodFact[]
}

/** Looks at everything. */
export function lookAt({ host, pods }: World): Facts {
  const networks = namesIn(stateFiles(host).networks)
  const inNetworks = (part: Part) =>
    networks.flatMap((network) => {
      const directory = relative.network(network).directoryOf(part)
      return namesIn(`${host.stateDir}/${directory}`).map((name) => ({ network, name, file: `${directory}/${name}` }))
    })
  const recordOf = (isPending: boolean) => (named: { readonly file: string }) => {
    const { key, spec } = readJson(host, named.file)
    return { file: named.file, isPending, ...(key ? { key } : {}), ...(spec ? { spec } : {}) }
  }
  const reservationOf = (named: { readonly file: string; readonly name: string; readonly network?: string }) => {
    const { key } = readJson(host, named.file)
    return { ...named, ...(key ? { holder: key } : {}) }
  }
  const live = [...pods.values()].filter(({ state }) => state === 'live')
  return {
    records: [...inNetworks('attachments').map(recordOf(false)), ...inNetworks('pending').map(recordOf(true))],
    addresses: inNetworks('addresses').map(reservationOf),
    ports: namesIn(stateFiles(host).ports).map((name) => reservationOf({ name, file: relative.port(name) })),
    links: linksOf(host),
    elements: [...elementsOf(host, 'inet'), ...elementsOf(host, 'bridge')],
    pods: live.map((pod) => podFact(host, pod)),
  }
}

function linksOf(host: Host): readonly LinkFact[] {
  const shown = onHostJson(host, ['link', 'show']) as readonly { readonly ifname: string; readonly ifalias?: string }[]
  return shown.map(({ ifname, ifalias = '' }) => ({ name: ifname, alias: ifalias }))
}

function elementsOf(host: Host, family: 'inet' | 'bridge'): readonly Element[] {
  const { code, stdout } = host.run('nft', ['-j', 'list', 'table', family, 'trestle'])
  if (code !== 0) return []
  return readElements(stdout)
}

function podFact(host: Host, { id, slot, netns, result }: Pod): PodFact {
  const shown = inPodJson(host, netns, ['addr', 'show', 'scope', 'global'])
  const had = shown.flatMap(({ addr_info = [] }) => addr_info.flatMap(({ local }) => local ?? []))
  const given = (result?.ips ?? []).map(({ address }) => address.replace(/\/.*/, ''))
  return { id, network: slot.network, given, had }
}

/** Whether there is a record that can be read, and it is of this container. */
export function isRecorded(host: Host, file: string, containerId: string): boolean {
  const { format, key, writer, netns } = readJson(host, file)
  const isRecord =
    typeof format === 'number' &&
    [key?.network, key?.containerId, key?.ifName, key?.role, writer?.bootId, netns?.path].every(isText)
  return isRecord && key?.containerId === containerId
}

function isText(value: unknown): boolean {
  return typeof value === 'string'
}

interface RecordFile {
  readonly format?: number
  readonly key?: AttachmentKey
  readonly writer?: { readonly bootId: string }
  readonly netns?: { readonly path: string }
  readonly spec?: AttachmentSpec
}

/** What of it is JSON; a file that is none, or is gone by now, has nothing. `file`: below the state directory. */
function readJson(host: Host, file: string): RecordFile {
  const path = `${host.stateDir}/${file}`
  try {
    // A pipe would never end.
    return lstatSync(path).isFile() ? (JSON.parse(readFileSync(path, 'utf8')) ?? {}) : {}
  } catch {
    return {}
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
