// SPDX-License-Identifier: Apache-2.0
// What a pod of this node should reach beyond it: the gateways of the node's default routes, and the resolvers that
// pods are given. Only what answers the node itself tells anything about pods.

import { networkInterfaces } from 'node:os'
import { parse } from 'yaml'
import { isObject } from '../../../cni/json/json-object.ts'
import { familyOf, parseAddress } from '../../../cni/model/address.ts'
import { readDocuments } from '../../../compile/read-ip.ts'
import { textIfThere } from '../../../system/files/if-there.ts'
import type { Run } from '../../../system/process/runner.ts'
import { isOnPath } from '../../../system/process/tools.ts'
import { reach } from './ends.ts'

export type Family = 4 | 6

/** How somebody beyond the node is asked: by a port that answers or refuses, or by ping. */
export type Way = { readonly port: number } | 'ping'

/** Somebody beyond the node who answers it, or why there is nobody to ask. */
export type Outside = { readonly address: string; readonly way: Way } | { readonly why: string }

/** Ports of which a router has one open, or refuses it. */
const ports = [53, 80, 443, 22, 9]

/** Behind the default route of a family. `resolvers`: asked where the gateway has no address of its own there. */
export async function outsideOf(run: Run, family: Family, resolvers: readonly string[]): Promise<Outside> {
  const printed = await run({ file: 'ip', args: ['-j', `-${family}`, 'route', 'show', 'default'] })
  const routes = readDocuments(printed.stdout)
  if (routes.length === 0) return { why: `the node has no IPv${family} default route` }
  const gateways = routes.flatMap(({ gateway }) => (typeof gateway === 'string' ? [gateway] : []))
  // Another link's are out of reach for what is passed on (RFC 4291, 2.5.6).
  const isFarther = (address: string) => familyOf(address) === family && !/^fe[89ab]/i.test(address)
  const asked = [...gateways, ...resolvers].filter(isFarther)
  if (asked.length === 0) return { why: `no address behind the IPv${family} default route is known` }
  for (const address of asked) {
    const way = await wayTo(run, address)
    if (way !== undefined) return { address, way }
  }
  return { why: `${asked.join(' and ')} behind the default route does not answer the node either` }
}

async function wayTo(run: Run, address: string): Promise<Way | undefined> {
  const answers = await Promise.all(ports.map(async (port) => ({ port, failure: await reach(address, port) })))
  const found = answers.find(({ failure }) => failure === undefined)
  if (found !== undefined) return { port: found.port }
  if (!isOnPath('ping')) return undefined
  const { code } = await run({ file: 'ping', args: pingArgs(address) })
  return code === 0 ? 'ping' : undefined
}

/** Three, since the first may wait for a neighbour; an answer ends it (ping(8)). */
export function pingArgs(address: string): readonly string[] {
  return ['-n', '-q', '-c', '1', '-w', '4', address]
}

/** Most that a resolver of libc asks (resolv.conf(5), MAXNS). */
const mostResolvers = 3

/** Where pods resolve names: as their result says, else kubelet, else as the node does. */
export function resolversOf(ofResult: readonly string[]): readonly string[] {
  const own = [ofResult, ofKubelet()].find((each) => each.length > 0)
  if (own !== undefined) return own.slice(0, mostResolvers)
  const found = inResolvConf('/etc/resolv.conf')
  // systemd-resolved listens on the node's loopback; kubelet then reads its other file.
  const isStub = found.length > 0 && found.every(isLoopback)
  const all = isStub ? inResolvConf('/run/systemd/resolve/resolv.conf') : found
  return all.filter((address) => !isLoopback(address)).slice(0, mostResolvers)
}

function inResolvConf(file: string): readonly string[] {
  return [...textIfThere(file).matchAll(/^\s*nameserver\s+(\S+)/gm)].flatMap(([, address = '']) => sound(address))
}

/** kubelet's configuration as kubeadm and most installers place it. */
function ofKubelet(): readonly string[] {
  try {
    const root: unknown = parse(textIfThere('/var/lib/kubelet/config.yaml'))
    const list = isObject(root) ? root['clusterDNS'] : undefined
    return Array.isArray(list) ? list.flatMap((each) => sound(String(each))) : []
  } catch {
    return []
  }
}

function sound(address: string): readonly string[] {
  return parseAddress(address) === undefined ? [] : [address]
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1'
}

/** An address of the node that others may call, of one of its uplinks if there is one; undefined: it has none. */
export function nodeAddress(family: Family, notThese: readonly string[]): string | undefined {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  const isMeant = ({ address, internal }: (typeof all)[number]) =>
    !internal && familyOf(address) === family && !/^fe[89ab]/i.test(address) && !notThese.includes(address)
  return all.find(isMeant)?.address
}
