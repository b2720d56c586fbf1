// SPDX-License-Identifier: Apache-2.0
// What is around a call: of the node what a replay has to build, read from /proc, /sys and the state directory; of the
// pod its links, addresses and routes, because a runtime deletes the namespace of a failed ADD at once.

import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync } from 'node:fs'
import { orElse } from '../../cni/error.ts'
import { networkDirName } from '../../model/names.ts'
import { namesIn, readableText } from '../../system/files/files.ts'
import { closeNetns, openNetns } from '../../system/kernel/netns.ts'
import { defaultRouteLinks4, defaultRouteLinks6 } from '../../system/kernel/uplink.ts'
import { pathWithTools } from '../../system/process/programs.ts'
import { readDocuments } from '../../tools/ip.ts'
import type { NodeWorld, PodWorld } from './schema.ts'

/** Of a network with hundreds of pods a part is kept: to read all of it would hold up each call. */
const most = { bytes: 128 * 1024, files: 200 }

/** Calls about an attachment. A runtime asks the others twice a second: no process is started for those. */
const aboutLinks = ['ADD', 'CHECK', 'DEL']

/** The node as it is: uplinks and bridges for a call about an attachment, and the state of the network. */
export function nodeWorld(root: string, { network, verb }: { network?: string | undefined; verb: string }): NodeWorld {
  const state = network === undefined ? { files: {}, isWhole: true } : stateOf(root, networkDirName(network))
  const seen = aboutLinks.includes(verb) ? links() : []
  return { type: 'world', of: 'node', links: seen, state: state.files, isStateWhole: state.isWhole }
}

/**
 * `ip` tells also of a link that is down or has no carrier, with its addresses. It is asked for these links alone, in
 * one process: those of all pods would make each record longer to write.
 */
function links(): NodeWorld['links'] {
  const uplinks = new Set([...defaultRouteLinks4(), ...defaultRouteLinks6()].filter(isPlainName))
  const lines = [...[...uplinks].map((name) => `address show dev ${name}`), 'address show type bridge']
  const shown = (shownBy('ip', ['-j', '-d', '-batch', '-'], { input: lines.join('\n') }) ?? []) as unknown
  const byName = new Map((shown as readonly ShownLink[]).map((link) => [link.ifname, link]))
  return [...byName.values()].map(({ ifname, mtu, flags, linkinfo, addr_info }) => ({
    name: ifname,
    mtu,
    ...(linkinfo?.info_kind === 'bridge' ? { isBridge: true as const } : {}),
    ...(uplinks.has(ifname) ? { isUplink: true as const } : {}),
    ...(flags.includes('UP') ? {} : { isDown: true as const }),
    addresses: addr_info.map(({ local, prefixlen }) => `${local}/${prefixlen}`),
  }))
}

/** Whether `ip -batch` reads the name as one word. */
function isPlainName(name: string): boolean {
  return /^[\w.:-]+$/.test(name)
}

/** What `ip -j -d address show` has of a link. */
interface ShownLink {
  readonly ifname: string
  readonly mtu: number
  readonly flags: readonly string[]
  readonly linkinfo?: { readonly info_kind?: string }
  readonly addr_info: readonly { readonly local: string; readonly prefixlen: number }[]
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
    // Another call may have removed it since.
    const text = readableText(`${root}/${path}`)
    if (text === undefined) return
    if (path.startsWith('ports/') && isOfDead(text)) return
    files[path] = isOfDead(text) ? { text, isOfDead: true } : { text }
    seen.set(stat.ino, path)
  }
  const directory = `networks/${name}`
  for (const file of namesIn(`${root}/${directory}`)) take(`${directory}/${file}`)
  for (const kind of ['pending', 'attachments', 'addresses', 'cooling']) {
    for (const file of namesIn(`${root}/${directory}/${kind}`)) take(`${directory}/${kind}/${file}`)
  }
  // Host ports are of the node: a pod of another network may have one.
  for (const file of namesIn(`${root}/ports`)) take(`ports/${file}`)
  return { files, isWhole }
}

/** A record of an attachment whose namespace is gone. */
function isOfDead(text: string): boolean {
  const [, path] = /"netns":\{"path":"([^"]+)"/.exec(text) ?? []
  return path !== undefined && !existsSync(path)
}

/** A runtime waits for the answer, or after it for the end of the call. */
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
  const netns = orElse(() => openNetns(path), undefined)
  if (netns === undefined) return undefined
  const show: Show = (...words) => shownBy('nsenter', ['--net=/proc/self/fd/3', 'ip', '-j', ...words], { fd: netns.fd })
  try {
    return look(show)
  } finally {
    closeNetns(netns)
  }
}

/** `fd`: descriptor 3 of the program. Of a kind of link that the kernel has not loaded `ip` prints an empty entry. */
function shownBy(
  file: string,
  args: readonly string[],
  { input = '', fd }: { input?: string; fd?: number },
): PodWorld['links'] | undefined {
  const stdio = ['pipe' as const, 'pipe' as const, 'ignore' as const, ...(fd === undefined ? [] : [fd])]
  const env = { PATH: pathWithTools(), LC_ALL: 'C' }
  const options = { encoding: 'utf8' as const, timeout: toolMs, maxBuffer: 16 * 1024 * 1024, env, stdio, input }
  const { status, stdout } = spawnSync(file, args, options)
  if (status !== 0) return undefined
  return [...readDocuments(stdout)] as PodWorld['links']
}
