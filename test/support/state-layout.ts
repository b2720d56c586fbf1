// SPDX-License-Identifier: Apache-2.0
// Where the executable keeps its state, and what it calls the files there. The tests know both from here alone: nothing
// else spells a path of the state directory or a name in it. docs/design.md, "State", says what each file is for.

import { createHash } from 'node:crypto'
import { readdirSync, rmSync } from 'node:fs'

/** The environment variable that moves the state directory. */
export const stateVariable = 'TRESTLE_STATE_DIR'

/** Where the state is unless that variable moves it. */
export const usualStateDir = '/run/trestle'

/** The state directory in a shell line whose environment has the variable. */
export const shellStateDir = `$${stateVariable}`

/** Whoever has a state directory: a host of `host.ts`, say. */
interface Node {
  readonly stateDir: string
}

/** What the environment of a process needs to have for a node's state. */
export function stateEnv({ stateDir }: Node) {
  return { [stateVariable]: stateDir } as const
}

/** The same as a word for env(1) or a shell line. */
export function stateWord({ stateDir }: Node): string {
  return `${stateVariable}=${stateDir}`
}

/** What an attachment is of: a network's own interface, one of another plugin, or addresses alone. */
export type Role = 'main' | 'chained' | 'ipam'

/** The directories of a network with a file for each of something. */
export type Part = 'attachments' | 'pending' | 'addresses' | 'locks'

export const parts: readonly Part[] = ['attachments', 'pending', 'addresses', 'locks']

/** What the files of an attachment are called: its record, finished or pending, and its lock. */
export function recordName(containerId: string, ifName = 'eth0', role: Role = 'main'): string {
  const id = containerId.length > 128 ? `~${digestOf(containerId)}` : containerId
  return role === 'main' ? `${id}:${ifName}` : `${id}:${ifName}:${role}`
}

/** Whether a file has a name of this container's attachments. */
export function isNamedAfter(name: string, containerId: string): boolean {
  return name.startsWith(recordName(containerId, ''))
}

/** What the directory of a network is called. */
export function networkName(network: string): string {
  return network.length > 128 ? `~${digestOf(network)}` : network
}

/** What the reservation of a host port is called. `hostIp` absent: every address of the node. */
export function portName(protocol: string, hostPort: number | string, family: 4 | 6 = 4, hostIp = 'any'): string {
  return `${protocol}:${hostPort}:${family}:${hostIp}`
}

/** A network's files in the state directory `root`. Ids: of the container, with its interface and role. */
export function networkStateAt(root: string, network: string) {
  const directory = `${below(root)}networks/${networkName(network)}`
  const directoryOf = (part: Part): string => `${directory}/${part}`
  const fileOf =
    (part: Part) =>
    (id: string, ifName?: string, role?: Role): string =>
      `${directoryOf(part)}/${recordName(id, ifName, role)}`
  return {
    directory,
    directoryOf,
    /** The record of an attachment that is whole. */
    finished: fileOf('attachments'),
    /** The record of a call that is not over, was killed, or could not remove everything. */
    pending: fileOf('pending'),
    /** Held while the attachment is torn down. */
    lockOf: fileOf('locks'),
    /** The reservation of an address. */
    address: (address: string): string => `${directoryOf('addresses')}/${address}`,
    /** The address last given from a range set, by the first address of its first subnet. */
    last: (rangeSet: string): string => `${directory}/last.${rangeSet}`,
    /** What the attachments share, and what the chained ones do. */
    shared: `${directory}/network.json`,
    chainedShared: `${directory}/chained.json`,
  }
}

/** The files of the state directory `root`; of '' as paths below the state directory. */
export function stateFilesAt(root: string) {
  const at = (name: string): string => `${below(root)}${name}`
  return {
    networks: at('networks'),
    /** Where it is missing the state was lost. */
    mark: at('state'),
    network: (name: string) => networkStateAt(root, name),
    ports: at('ports'),
    /** The reservation of a host port, by what it is called. */
    port: (name: string): string => at(`ports/${name}`),
    /** What could not be read, or was in the place of something. */
    damaged: at('damaged'),
    /** The accepts in chains of other firewalls. */
    accept: at('accept.json'),
    /** Held while shared parts of the machine change. */
    lock: at('lock'),
    /** What the agent remembers of other nodes. */
    agent: at('agent.json'),
    /** What is recorded; its being there alone: nothing of calls that fail. */
    recording: at('recording.json'),
    /** The calls that failed, and the recorded ones. */
    ring: (ring: Ring): string => at(ring),
  }
}

/** Records of calls: those that failed, and those that are recorded because somebody wants them. */
export type Ring = 'failures' | 'records'

/** The files of a node's state. */
export function stateFiles({ stateDir }: Node) {
  return stateFilesAt(stateDir)
}

/** The same as paths below the state directory. */
export const relative = stateFilesAt('')

/** A network's files in a node's state, and the names in its directories. */
export function stateOf({ stateDir }: Node, network: string) {
  const files = networkStateAt(stateDir, network)
  return { ...files, names: (part: Part): readonly string[] => namesIn(files.directoryOf(part)) }
}

/** Removes what the round robin of a network goes on from: its first address is the next one again. */
export function forgetLast(node: Node, network: string): void {
  const { directory } = stateOf(node, network)
  for (const name of namesIn(directory)) if (name.startsWith('last.')) rmSync(`${directory}/${name}`)
}

/** The names of reserved host ports. */
export function reservedPorts(node: Node): readonly string[] {
  return namesIn(stateFiles(node).ports)
}

/** The records of a ring as paths below the state directory, the oldest first. `verb`: of its calls alone. */
export function ringFiles({ stateDir }: Node, ring: Ring, verb = ''): readonly string[] {
  const names = readdirSync(stateDir, { recursive: true, encoding: 'utf8' })
  const files = names.filter((name) => name.startsWith(`${ring}/${verb}`) && name.endsWith('.jsonl'))
  return files.toSorted((a, b) => (a.slice(a.lastIndexOf('/')) < b.slice(b.lastIndexOf('/')) ? -1 : 1))
}

/** The verb that a record of a ring is of, by its path below the state directory. */
export function verbOfRecord(file: string): string | undefined {
  return file.split('/')[1]
}

/** Names of the files that processes of a call have open: they are there as long as one of them lives. */
export function callFiles({ stateDir }: Node): readonly string[] {
  return namesIn(stateDir).filter((name) => name.startsWith('call.'))
}

/** What a file that is written, and has not its name yet, is called. */
export function temporaryName(pid: number): string {
  return `.${pid}.5.1`
}

export function isTemporaryName(name: string): boolean {
  return name.startsWith('.')
}

/** What begins the names that a file or a directory below the state directory has, once set aside as damaged. */
export function damagedName(path: string): string {
  return path.replaceAll('/', '_')
}

/** Where pods by hand are kept: beside the state. */
export function handsBeside({ stateDir }: Node): string {
  return `${stateDir}-pods`
}

const aNetwork = 'networks/[^/]+'

/** Regular expressions for paths below the state directory, of what several attachments share. */
export const patterns = {
  networks: 'networks(?:/[^/]+)?',
  accept: 'accept\\.json',
  shared: `${aNetwork}/(?:network|chained)\\.json`,
  last: `${aNetwork}/last\\.[0-9a-f.:]+`,
  ports: 'ports',
  parts: `${aNetwork}/(?:${parts.join('|')})`,
  mark: 'state',
} as const

/** What a file of a network's directories is, by its path below the state directory. */
export function partOf(
  path: string,
): { readonly network: string; readonly part: string; readonly name: string } | undefined {
  const [, network, part, name] = /^networks\/([^/]+)\/([^/]+)\/(.+)$/.exec(path) ?? []
  return network === undefined || part === undefined || name === undefined ? undefined : { network, part, name }
}

/** The host port that a file reserves, by its path below the state directory. */
export function portOf(path: string): number | undefined {
  const port = /^ports\/\w+:(\d+):/.exec(path)?.[1]
  return port === undefined ? undefined : Number(port)
}

/** Whether a text names a file that reserves an address. */
export function tellsAddress(text: string): boolean {
  return text.includes('/addresses/')
}

/** Whether a path below the state directory is of the calls that failed: the switch that keeps none is, too. */
export function isOfFailure(path: string): boolean {
  return /^failures\b/.test(path)
}

/** For find(1): the names of files with an address last given, and what attachments share. */
export const lastNames = 'last*'
export const sharedRegex = '.*/\\(network\\|chained\\)\\.json'

/** Whether a file is an attachment's alone: a record, or a reservation. */
export function isOfAttachment(path: string): boolean {
  return /^(networks\/[^/]+\/(attachments|pending|addresses)|ports)\//.test(path)
}

export function isDamaged(path: string): boolean {
  return path.startsWith('damaged')
}

function below(root: string): string {
  return root === '' ? '' : `${root}/`
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory).sort()
  } catch {
    return []
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
