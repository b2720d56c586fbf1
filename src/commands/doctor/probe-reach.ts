// SPDX-License-Identifier: Apache-2.0
// Probes of `doctor --probe`: between its pods, and beyond the node to the gateways of default routes and to the pods'
// resolvers. An end beyond the node counts only if it answers the node itself.

import { networkInterfaces } from 'node:os'
import { parse } from 'yaml'
import { isOnPath } from '../../../src-before/system/process/programs.ts'
import { familyOf, parseAddress } from '../../cni/addresses.ts'
import { isObject } from '../../cni/json.ts'
import { readDocuments } from '../../kernel/look.ts'
import type { Run } from '../../process/runner.ts'
import { textIfThere } from '../if-there.ts'
import { reach, resolveName } from '../probe/ends.ts'
import { fullSizeStep } from '../probe/full-size.ts'
import type { Pod, Step, Trial } from '../probe/pods.ts'
import {
  addressOf,
  type Family,
  gatewayProbes,
  hostPortProbes,
  pingArgs,
  podProbes,
  skipped,
  tried,
  type Way,
} from '../probe/reach.ts'

/** Runs all probes at once. `asks`: its commands end when the probe is cancelled. `peer`: a further address. */
export async function reachSteps(asks: Trial, peer?: string): Promise<readonly Step[]> {
  const [first, second] = asks.pods
  if (first === undefined) return []
  if (first.ips.length === 0) return [skipped('reach of the pods', 'pod', 'the network gives no addresses')]
  const families = ([4, 6] as const).filter((family) => addressOf(first, family) !== undefined)
  const resolvers = resolversOf(resultResolvers(first))
  const probes = [
    ...asks.pods.flatMap((pod) => podProbes(undefined, pod)),
    ...gatewayProbes(first),
    ...(second === undefined ? [] : [...podProbes(first, second), ...portProbes(asks, first, second)]),
  ]
  const [reached, ...beyond] = await Promise.all([
    Promise.all(probes.map((probe) => tried(asks, probe))),
    ...families.map((family) => outsideSteps(asks, first, { family, resolvers })),
    ...resolvers.map((address) => resolverStep(asks, first, address)),
    ...(peer === undefined ? [] : [fullSizeStep(asks, first, peer)]),
  ])
  const none = skipped('pod a asks a resolver, port 53', 'dns', 'neither kubelet nor resolv.conf names one')
  return [...(reached ?? []), ...beyond.flat(), ...(resolvers.length === 0 ? [none] : [])]
}

function portProbes({ hostPort }: Trial, from: Pod, to: Pod) {
  if (hostPort === undefined) return []
  const askers = [{ who: 'the node' }, { who: from.label, from }]
  return ([4, 6] as const).flatMap((family) => {
    const gateway = to.gateways.find((each) => familyOf(each) === family)
    const address = addressOf(from, family) && (nodeAddress(family, to.gateways) ?? gateway)
    return address === undefined ? [] : hostPortProbes(address, hostPort, to, askers)
  })
}

async function outsideSteps(asks: Trial, pod: Pod, { family, resolvers }: Beyond): Promise<readonly Step[]> {
  const what = `${pod.label} to outside (IPv${family})`
  const found = await outsideOf(asks.runtime.run, family, resolvers)
  if ('why' in found) return [skipped(what, 'outside', found.why)]
  const { address, ways } = found
  return await Promise.all(
    ways.map((way) => {
      const how = typeof way === 'object' ? `${way.isOpen ? '' : 'closed '}port ${way.port}` : way
      const probe = { target: 'outside', address, way, from: pod } as const
      return tried(asks, { ...probe, what: `${pod.label} to outside: ${address}, ${how}` })
    }),
  )
}

interface Beyond {
  readonly family: Family
  readonly resolvers: readonly string[]
}

async function resolverStep(asks: Trial, from: Pod, address: string): Promise<Step> {
  const what = `${from.label} asks resolver ${address}, port 53`
  const family = familyOf(address)
  if (addressOf(from, family) === undefined) return skipped(what, 'dns', `the pod has no IPv${family} address`)
  const ofNode = await resolveName(address)
  if (ofNode !== undefined) return skipped(what, 'dns', `it does not answer the node either: ${ofNode}`)
  return await tried(asks, { what, target: 'dns', address, way: 'resolver', from })
}

function resultResolvers({ printed }: Pod): readonly string[] {
  const { dns } = printed as { readonly dns?: { readonly nameservers?: readonly unknown[] } }
  return (dns?.nameservers ?? []).flatMap((each) => (typeof each === 'string' ? [each] : []))
}

/** An address beyond the node that answers the node, or the reason for having none. */
type Outside = { readonly address: string; readonly ways: readonly Way[] } | { readonly why: string }

/** Ports that a router usually opens or refuses. */
const ports = [53, 80, 443, 22, 9]

/** An address behind the default route of a family. `resolvers`: tried if the gateway has no address of the family. */
async function outsideOf(run: Run, family: Family, resolvers: readonly string[]): Promise<Outside> {
  const printed = await run({ file: 'ip', args: ['-j', `-${family}`, 'route', 'show', 'default'] })
  const routes = readDocuments(printed.stdout)
  if (routes.length === 0) return { why: `the node has no IPv${family} default route` }
  const gateways = routes.flatMap(({ gateway }) => (typeof gateway === 'string' ? [gateway] : []))
  // A link-local address of another link is unreachable for forwarded packets (RFC 4291, 2.5.6).
  const isFarther = (address: string) => familyOf(address) === family && !/^fe[89ab]/i.test(address)
  const asked = [...gateways, ...resolvers].filter(isFarther)
  if (asked.length === 0) return { why: `no address behind the IPv${family} default route is known` }
  for (const address of asked) {
    const ways = await waysTo(run, address)
    if (ways.length > 0) return { address, ways }
  }
  return { why: `${asked.join(' and ')} behind the default route does not answer the node either` }
}

/** An open port; else, since a rule of the node may refuse in the name of the address, a closed one and a ping. */
async function waysTo(run: Run, address: string): Promise<readonly Way[]> {
  const answers = await Promise.all(ports.map(async (port) => ({ port, ...(await reach(address, port)) })))
  const open = answers.find(({ failure }) => failure === undefined)
  if (open !== undefined) return [{ port: open.port, isOpen: true }]
  const closed = answers.filter(({ isRefused }) => isRefused).slice(0, 1)
  const pinged = isOnPath('ping') ? await run({ file: 'ping', args: pingArgs(address) }) : undefined
  return [...closed.map(({ port }) => ({ port })), ...(pinged?.code === 0 ? (['ping'] as const) : [])]
}

/** The most resolvers that libc asks (resolv.conf(5), MAXNS). */
const mostResolvers = 3

/** The pods' resolvers: of the result, else of kubelet, else of the node. */
function resolversOf(ofResult: readonly string[]): readonly string[] {
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

/** kubelet's configuration, at the path of kubeadm and most installers. */
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

/** An address of the node that pods may call; undefined if the node has none. */
function nodeAddress(family: Family, notThese: readonly string[]): string | undefined {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  const isMeant = ({ address, internal }: (typeof all)[number]) =>
    !internal && familyOf(address) === family && !/^fe[89ab]/i.test(address) && !notThese.includes(address)
  return all.find(isMeant)?.address
}
