// SPDX-License-Identifier: Apache-2.0
// The kernel's part of the facts: sysctls now and after the next start, routes back, modules.

import { existsSync } from 'node:fs'
import { release } from 'node:os'
import { bareAddress, familyOf } from '../../../cni/model/address.ts'
import { readDocuments } from '../../../compile/read-ip.ts'
import type { ObservedNamespace } from '../../../plan/model/observed.ts'
import type { AttachmentRecord } from '../../../plan/model/record.ts'
import { namesIn } from '../../../system/files/files.ts'
import { textIfThere } from '../../../system/files/if-there.ts'
import { readKey } from '../../../system/kernel/kernel-files.ts'
import type { Run } from '../../../system/process/runner.ts'
import type { KernelFacts, PodNetwork, PodRouteFacts } from './facts.ts'
import { farSender } from './far-sender.ts'
import { lookAtPolicyRules } from './policy-rules.ts'
import { keptSettings } from './sysctl-files.ts'

/** Of a network's pods so many are asked the way to: they share it, or have one each. */
const mostRoutes = 50

interface KernelSources {
  readonly host: ObservedNamespace
  readonly networks: readonly PodNetwork[]
  readonly records: readonly AttachmentRecord[]
}

/** Looks. Four processes, one more for kube-proxy. */
export async function lookAtKernel(run: Run, { host, networks, records }: KernelSources): Promise<KernelFacts> {
  const links = [...new Set(networks.flatMap((network) => network.links))]
  const uplinks = uplinkAddresses(host)
  const keys = settingKeys([...links, ...uplinks.map(({ dev }) => dev)])
  const [backs, podRoutes, refusals, hasKubeProxy] = await Promise.all([
    routesFrom(run, uplinks, host),
    podRouteFacts(run, records),
    lookAtPolicyRules(run, networks),
    seesKubeProxy(run),
  ])
  return {
    settings: new Map(keys.map((key) => [key, readKey(key)])),
    uplinks: backs,
    podRoutes,
    refusals,
    kept: keptSettings(['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding']),
    hasKubeProxy,
    missingModules: missingModules(['veth', 'bridge', 'nf_tables', 'nft_masq']),
    release: release(),
  }
}

function settingKeys(links: readonly string[]): readonly string[] {
  return [
    'net/ipv4/ip_forward',
    'net/ipv6/conf/all/forwarding',
    'net/ipv6/conf/all/disable_ipv6',
    'net/bridge/bridge-nf-call-iptables',
    'net/ipv4/conf/all/rp_filter',
    ...links.flatMap((dev) => [`net/ipv4/conf/${dev}/rp_filter`, `net/ipv6/conf/${dev}/disable_ipv6`]),
  ]
}

/** Interfaces with an IPv4 default route in any table, with their first address: rp_filter is of IPv4 only. */
function uplinkAddresses({ links, routes }: ObservedNamespace) {
  const defaults = [...routes.values()].flat().filter(({ dst }) => dst === '0.0.0.0/0' || dst === 'default')
  const devs = [...new Set(defaults.flatMap(({ dev }) => dev ?? []))]
  return devs.flatMap((dev) => {
    const address = links.get(dev)?.addresses.find((each) => familyOf(each) === 4)
    return address === undefined ? [] : [{ dev, address: bareAddress(address) }]
  })
}

/** Nothing is sent to the far sender: the kernel is asked for the way. */
async function routesFrom(run: Run, uplinks: ReturnType<typeof uplinkAddresses>, { routes }: ObservedNamespace) {
  const far = farSender([...routes.values()].flat().map(({ dst }) => dst))
  if (uplinks.length === 0 || far === undefined) return []
  const queries = uplinks.map(({ address }) => `route get ${far} from ${address}`)
  const found = await ask(run, queries)
  return uplinks.flatMap(({ dev, address }) => {
    const backBy = found.find((route) => route['from'] === address)?.['dev']
    return typeof backBy === 'string' ? [{ dev, address, backBy }] : []
  })
}

async function podRouteFacts(run: Run, records: readonly AttachmentRecord[]): Promise<readonly PodRouteFacts[]> {
  const ends = records.flatMap(({ key, spec, pod }) => {
    const expected = spec?.port?.vlans === undefined ? (spec?.port?.bridge ?? spec?.host?.name) : undefined
    if (expected === undefined || spec?.chained !== undefined) return []
    const name = pod === undefined ? `container ${key.containerId.slice(0, 13)}` : `${pod.namespace}/${pod.name}`
    return spec?.ips.map(({ address }) => ({ pod: name, address: bareAddress(address), expected })) ?? []
  })
  const asked = ends.slice(0, mostRoutes)
  const found = await ask(
    run,
    asked.map(({ address }) => `route get ${address}`),
  )
  const all = asked.map((end) => {
    const dev = found.find((route) => route['dst'] === end.address)?.['dev']
    return { ...end, leavesBy: typeof dev === 'string' ? dev : undefined }
  })
  return await Promise.all(all.map(async (end) => ({ ...end, ...(await routeInUse(run, end)) })))
}

/** The route of the pod's own that leads elsewhere, as `ip route` takes it; nothing for one of a whole range. */
async function routeInUse(run: Run, { address, expected, leavesBy }: Omit<PodRouteFacts, 'route'>) {
  if (leavesBy === expected) return {}
  const family = familyOf(address)
  const { stdout } = await run({
    file: 'ip',
    args: ['-j', `-${family}`, 'route', 'show', 'table', 'all', 'match', address],
  })
  const matching = readDocuments(stdout).flatMap((route) => {
    const { dst, type, dev, table } = route
    const isOfAddress = typeof dst === 'string' && [address, `${address}/${family === 4 ? 32 : 128}`].includes(dst)
    if (!isOfAddress || (table !== undefined && table !== 'main')) return []
    return [
      [...(typeof type === 'string' ? [type] : []), dst, ...(typeof dev === 'string' ? ['dev', dev] : [])].join(' '),
    ]
  })
  const [route] = matching
  return route === undefined ? {} : { route: `${family === 6 ? '-6 ' : ''}route del ${route}` }
}

/** Addresses only: they come from parsed CIDRs. */
async function ask(run: Run, queries: readonly string[]) {
  if (queries.length === 0) return []
  const stdin = `${queries.join('\n')}\n`
  return readDocuments((await run({ file: 'ip', args: ['-j', '-force', '-batch', '-'], stdin })).stdout)
}

/** Its own table, or its chain in the nat table of iptables; in k3s it is no process of its own. */
async function seesKubeProxy(run: Run): Promise<boolean> {
  const { stdout } = await run({ file: 'nft', args: ['list', 'chains'] }).catch(() => ({ stdout: '' }))
  return /^table \S+ kube-proxy\b|^\tchain KUBE-SERVICES\b/m.test(stdout)
}

/** Empty where that cannot be told: a kernel without modules says nothing of what is built in. */
function missingModules(names: readonly string[]): readonly string[] {
  const directory = `/lib/modules/${release()}`
  const others = namesIn('/lib/modules')
  const lists = ['modules.builtin', 'modules.dep'].map((name) => textIfThere(`${directory}/${name}`)).join('\n')
  // Without a list for the running kernel, others being there, it was updated: what is not loaded cannot be any more.
  if (lists.trim() === '' && others.length === 0) return []
  const isThere = (name: string) => existsSync(`/sys/module/${name}`) || new RegExp(`/${name}\\.ko`, 'm').test(lists)
  return names.filter((name) => !isThere(name))
}
