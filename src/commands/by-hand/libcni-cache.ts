// SPDX-License-Identifier: Apache-2.0
// What libcni keeps of each attachment (libcni/api.go, cachedInfo): the list it ran, what the runtime added to it, and the
// result. cnitool and `trestle add` share it. Before cniCacheV1 it kept the result alone, which is not read.

import { rmSync } from 'node:fs'
import { bareAddress } from '../../cni/addresses.ts'
import { asObject } from '../../cni/json.ts'
import { type Result, readResult } from '../../cni/results.ts'
import { makeDirectory, namesIn, readableText, writeText } from '../../state/files.ts'
import { orElse } from '../if-there.ts'

/** An attachment as libcni remembers it. `netns` empty and `list` undefined where the entry has none. */
export interface CachedAttachment {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly netns: string
  readonly args: readonly (readonly [string, string])[]
  readonly capabilityArgs: Readonly<Record<string, unknown>>
  readonly list?: unknown
  readonly result: Result
  /** The inode of the namespace that `trestle add` made for it. */
  readonly madeInode?: number
}

export type CacheKey = Pick<CachedAttachment, 'network' | 'containerId' | 'ifName'>

/** By default, for cri-dockerd, and for Multus. */
const directories = ['/var/lib/cni/results', '/var/lib/cni/cache/results', '/var/lib/cni/multus/results'] as const

function nameOf({ network, containerId, ifName }: CacheKey): string {
  return `${network}-${containerId}-${ifName}`
}

export function cachedAttachment(key: CacheKey): CachedAttachment | undefined {
  return cachedAttachments(key.network).find((each) => nameOf(each) === nameOf(key))
}

/** Those of a network, or all. Entries that cannot be read are left out. */
export function cachedAttachments(network?: string): readonly CachedAttachment[] {
  const found = new Map<string, CachedAttachment>()
  for (const directory of directories) {
    for (const name of namesIn(directory)) {
      if (found.has(name) || (network !== undefined && !name.startsWith(`${network}-`))) continue
      const cached = readCached(readableText(`${directory}/${name}`) ?? '')
      if (cached !== undefined && (network === undefined || cached.network === network)) found.set(name, cached)
    }
  }
  return [...found.values()]
}

/** `config`: the text of the list. */
export function keepAttachment(attachment: Omit<CachedAttachment, 'result' | 'list'>, config: string, result: unknown) {
  const { network, containerId, ifName, netns, args, capabilityArgs, madeInode } = attachment
  makeDirectory(directories[0])
  const entry = {
    kind: 'cniCacheV1',
    containerId,
    config: Buffer.from(config).toString('base64'),
    ifName,
    networkName: network,
    netns,
    ...(args.length === 0 ? {} : { cniArgs: args }),
    ...(Object.keys(capabilityArgs).length === 0 ? {} : { capabilityArgs }),
    // libcni passes over a key that it does not know.
    ...(madeInode === undefined ? {} : { trestleMadeInode: madeInode }),
    result,
  }
  writeText(`${directories[0]}/${nameOf(attachment)}`, JSON.stringify(entry))
}

export function forgetAttachment(key: CacheKey): void {
  for (const directory of directories) rmSync(`${directory}/${nameOf(key)}`, { force: true })
}

function readCached(text: string): CachedAttachment | undefined {
  const root = asObject(orElse(() => JSON.parse(text), undefined))
  const { kind, containerId, ifName, networkName, netns, config, trestleMadeInode } = root
  if (kind !== 'cniCacheV1' || typeof networkName !== 'string') return undefined
  if (typeof containerId !== 'string' || typeof ifName !== 'string') return undefined
  const pairs = Array.isArray(root['cniArgs']) ? root['cniArgs'] : []
  return orElse(() => {
    const list: unknown = typeof config === 'string' ? JSON.parse(Buffer.from(config, 'base64').toString()) : undefined
    return {
      network: networkName,
      containerId,
      ifName,
      netns: typeof netns === 'string' ? netns : '',
      args: pairs.filter(
        (pair) => Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === 'string'),
      ),
      capabilityArgs: asObject(root['capabilityArgs']),
      ...(list === undefined ? {} : { list }),
      ...(typeof trestleMadeInode === 'number' ? { madeInode: trestleMadeInode } : {}),
      result: readResult(root['result'], '0.1.0'),
    }
  }, undefined)
}

/** The pod's addresses in a result; those of interfaces of the host are left out. */
export function podIpsOf({ interfaces, ips }: Result): Result['ips'] {
  return ips.filter(({ interface: at }) => at === undefined || Boolean(interfaces[at]?.sandbox))
}

export function cachedAddresses({ result }: Pick<CachedAttachment, 'result'>): readonly string[] {
  return podIpsOf(result).map(({ address }) => bareAddress(address))
}
