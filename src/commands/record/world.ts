// SPDX-License-Identifier: Apache-2.0
// What is around a call: of the node what a replay has to build, read from /proc, /sys and the state directory; of the
// pod its links, addresses and routes, because a runtime deletes the namespace of a failed ADD at once.

import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { networkDirName } from '../../model/names.ts'
import { namesIn } from '../../system/files/files.ts'
import { isOwnSysfs, readKey } from '../../system/kernel/kernel-files.ts'
import { closeNetns, type OpenNetns, openNetns } from '../../system/kernel/netns.ts'
import { pathWithTools } from '../../system/process/programs.ts'
import type { NodeWorld, PodWorld } from './schema.ts'

/** Of a network with hundreds of pods a part is kept: to read all of it would hold up each call. */
const most = { bytes: 128 * 1024, files: 200 }

/** The node as it is: uplinks, bridges, and the state of the network. */
export function nodeWorld(root: string, network: string | undefined): NodeWorld {
  const state = network === undefined ? { files: {}, isWhole: true } : stateOf(root, networkDirName(network))
  return { type: 'world', of: 'node', links: links(), state: state.files, isStateWhole: state.isWhole }
}

function links(): NodeWorld['links'] {
  const uplinks = new Set([...routeLinks('/proc/net/route', 0, 1), ...routeLinks6()])
  const addresses = networkInterfaces()
  // A process that entered a network namespace alone has the /sys of another one: it shows no bridges then.
  const isBridge = (name: string) => isOwnSysfs() && existsSync(`/sys/class/net/${name}/bridge`)
  const names = namesIn('/proc/sys/net/ipv4/conf').filter((name) => uplinks.has(name) || isBridge(name))
  return names.map((name) => ({
    name,
    ...mtuOf(name),
    ...(isBridge(name) ? { isBridge: true as const } : {}),
    ...(uplinks.has(name) ? { isUplink: true as const } : {}),
    addresses: (addresses[name] ?? []).flatMap(({ cidr }) => cidr ?? []),
  }))
}

/** The link's own MTU, which its IPv6 MTU may be below. */
function mtuOf(name: string): { readonly mtu?: number } {
  const mtu = Number(isOwnSysfs() ? textOf(`/sys/class/net/${name}/mtu`) : readKey(`net/ipv6/conf/${name}/mtu`))
  return mtu > 0 ? { mtu } : {}
}

/** The links of default routes: the destination is zero. */
function routeLinks(file: string, link: number, destination: number): readonly string[] {
  const rows = linesOf(file).map((line) => line.trim().split(/\s+/))
  return rows.flatMap((row) => (/^0+$/.test(row[destination] ?? '') && row[7] === '00000000' ? [row[link] ?? ''] : []))
}

function routeLinks6(): readonly string[] {
  const rows = linesOf('/proc/net/ipv6_route').filter((line) => line.startsWith(`${'0'.repeat(32)} 00 `))
  return rows.flatMap((row) => row.trim().split(/\s+/).at(-1) ?? []).filter((name) => name !== 'lo')
}

function linesOf(file: string): readonly string[] {
  return textOf(file).split('\n')
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}

function stateOf(root: string, name: string): { files: NodeWorld['state']; isWhole: boolean } {
  const files: Record<string, NodeWorld['state'][string]> = {}
  const seen = new Map<number, string>()
  let [bytes, isWhole] = [0, true]
  const take = (path: string) => {
    const stat = lstatSync(`${root}/${path}`, { throwIfNoEntry: false })
    if (stat === undefined || !stat.isFile() || path.includes('/.')) return
    const first = stat.nlink > 1 ? seen.get(stat.ino) : undefined
    if (first !== undefined) {
      files[path] = { sameAs: first }
      return
    }
    bytes += stat.size
    isWhole &&= bytes <= most.bytes && Object.keys(files).length < most.files
    if (!isWhole) return
    const text = readFileSync(`${root}/${path}`, 'utf8')
    files[path] = isOfDead(text) ? { text, isOfDead: true } : { text }
    seen.set(stat.ino, path)
  }
  const directory = `networks/${name}`
  for (const file of namesIn(`${root}/${directory}`)) take(`${directory}/${file}`)
  for (const kind of ['pending', 'attachments', 'addresses', 'cooling']) {
    for (const file of namesIn(`${root}/${directory}/${kind}`)) take(`${directory}/${kind}/${file}`)
  }
  return { files, isWhole }
}

/** A record of an attachment whose namespace is gone. */
function isOfDead(text: string): boolean {
  const [, path] = /"netns":\{"path":"([^"]+)"/.exec(text) ?? []
  return path !== undefined && !existsSync(path)
}

/** A call's answer is given already, but its runtime waits for its end. */
const toolMs = 2000

/** The pod's namespace, and the links of `before`; undefined where it cannot be looked at. */
export function podWorld(path: string, before: readonly string[] | undefined): PodWorld | undefined {
  return inPod(path, (show) => {
    const links = show('-d', 'address', 'show')
    if (links === undefined) return undefined
    const routes = ['-4', '-6'].flatMap((family) => show(family, 'route', 'show', 'table', 'all') ?? [])
    return { type: 'world', of: 'pod', links, routes, ...(before === undefined ? {} : { before: [...before] }) }
  })
}

/** The names of the pod's links; undefined where they cannot be looked at. */
export function podLinks(path: string): readonly string[] | undefined {
  return inPod(path, (show) => show('link', 'show')?.map(({ ifname }) => ifname))
}

/** What `ip -j` prints in the pod; undefined when it fails. */
type Show = (...words: readonly string[]) => PodWorld['links'] | undefined

function inPod<T>(path: string, look: (show: Show) => T | undefined): T | undefined {
  // nsenter by the path itself would open whatever is there, a device too.
  let netns: OpenNetns
  try {
    netns = openNetns(path)
  } catch {
    return undefined
  }
  const stdio = ['ignore' as const, 'pipe' as const, 'pipe' as const, netns.fd]
  const env = { PATH: pathWithTools(), LC_ALL: 'C' }
  const show: Show = (...words) => {
    const options = { encoding: 'utf8' as const, timeout: toolMs, env, stdio }
    const { status, stdout } = spawnSync('nsenter', ['--net=/proc/self/fd/3', 'ip', '-j', ...words], options)
    return status === 0 ? (JSON.parse(stdout || '[]') as PodWorld['links']) : undefined
  }
  try {
    return look(show)
  } finally {
    closeNetns(netns)
  }
}
