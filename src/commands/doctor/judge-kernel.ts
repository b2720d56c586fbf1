// SPDX-License-Identifier: Apache-2.0
// Kernel settings that cut pods off.

import { basename } from 'node:path'
import { familyOf } from '../../cni/addresses.ts'
import { type Finding, findingOf } from '../findings.ts'
import type { KernelFacts, NodeFacts, PodNetwork, StateFacts } from './facts.ts'
import { lastFile } from './kernel.ts'

export function judgeKernel({ kernel, networks, state }: NodeFacts): readonly Finding[] {
  if (kernel === undefined) return []
  const used = networks.filter(({ isSetUp }) => isSetUp)
  const off = forwardingOff(kernel, used, state)
  const withoutSix = ipv6Off(kernel, used)
  return [
    ...off,
    ...forwardingReverts(kernel, used, off.length > 0),
    ...withoutSix,
    ...strictUplinks(kernel, used),
    ...bridgeNf(kernel, used),
    ...refused(kernel),
    ...strangeRoutes(kernel, new Set(withoutSix.map(({ on }) => on))),
    ...otherBridges(networks),
  ]
}

/** A bridge with ports is in use; a bridge without ports is a leftover. */
function otherBridges(networks: readonly PodNetwork[]): readonly Finding[] {
  return networks.flatMap(({ name, subnets, otherBridge }) => {
    if (otherBridge === undefined) return []
    const { name: bridge, addresses, hasPorts } = otherBridge
    const needed = `network ${name} needs an address of ${subnets.join(' and ')} on it`
    const message = `${bridge} has ${addresses.join(' and ')}, and ${needed}`
    const run = `ip link delete ${shellWord(bridge)}`
    return [findingOf({ id: 'bridge-other-address', on: bridge, message, run: hasPorts ? undefined : run })]
  })
}

const families = [
  { family: 4, key: 'net/ipv4/ip_forward' },
  { family: 6, key: 'net/ipv6/conf/all/forwarding' },
] as const

/** `restore` switches forwarding on for networks of trestle, and keeps router advertisements. */
function forwardingOff(
  kernel: KernelFacts,
  networks: readonly PodNetwork[],
  state: StateFacts | undefined,
): readonly Finding[] {
  const restored = state?.differences.filter(({ kind }) => kind === 'forwarding').flatMap(({ found }) => found)
  return families
    .filter(({ family, key }) => kernel.settings.get(key) === '0' && networksOf(networks, family).length > 0)
    .map(({ family, key }) => {
      const name = key.replaceAll('/', '.')
      const message = `${name} is 0, and ${namesOf(networksOf(networks, family))} forwards IPv${family}`
      const isRestored = restored?.some((text) => text.includes(name)) === true
      const keys = [...(family === 6 ? advertisementKeys(kernel, ['1']).map((each) => `${each}=2`) : []), `${name}=1`]
      const run = isRestored ? 'trestle restore' : `sysctl -w ${keys.map(shellWord).join(' ')}`
      return findingOf({ id: 'forwarding-off', on: name, message, run })
    })
}

/**
 * The keys of uplinks with router advertisements: a forwarding node takes them with the value 2 alone. `values`: of the
 * uplinks that are meant.
 */
function advertisementKeys({ settings, uplinks6 }: KernelFacts, values: readonly string[]): readonly string[] {
  const taking = uplinks6.filter((dev) => values.includes(settings.get(`net/ipv6/conf/${dev}/accept_ra`) ?? ''))
  return taking.map((dev) => `net.ipv6.conf.${dottedLink(dev)}.accept_ra`)
}

/** sysctl(8) takes a dot for a slash, and the other way round. */
function dottedLink(dev: string): string {
  return dev.replaceAll('.', '/')
}

function forwardingReverts(
  kernel: KernelFacts,
  networks: readonly PodNetwork[],
  isOffNow: boolean,
): readonly Finding[] {
  return families.flatMap(({ family, key }) => {
    const name = key.replaceAll('/', '.')
    const found = kernel.kept.get(name)
    if (isOffNow || found?.value !== '0' || networksOf(networks, family).length === 0) return []
    const line = `[[:space:]]*-?[[:space:]]*${found.key.replaceAll('.', '[./]')}[[:space:]]*=`
    // trestle set 2 when it switched forwarding on; after the next start forwarding is on before trestle runs.
    const kept = family === 6 ? advertisementKeys(kernel, ['1', '2']).map((each) => `${each} = 2`) : []
    const write = (lines: readonly string[], file: string) => {
      const words = lines.map(shellWord).join(' ')
      return lines.length === 0 ? [] : [`printf '%s\\n' ${words} >>${shellWord(file)}`]
    }
    const run =
      found.file === lastFile
        ? [`sed -i -E 's|^(${line}).*|\\1 1|' ${lastFile}`, ...write(kept, lastFile)].join(' && ')
        : write([...kept, `${name} = 1`], fileBehind(found.file)).join('')
    return [findingOf({ id: 'forwarding-reverts', on: found.file, message: `it says ${found.key} = 0`, run })]
  })
}

const ownFile = '99-zz-pod-network.conf'

/** A file that sysctl.d(5) reads after this one: they are read in the order of their names. */
function fileBehind(file: string): string {
  const name = basename(file)
  return `/etc/sysctl.d/${name < ownFile ? ownFile : name.replace(/\.conf$/, '.pod-network.conf')}`
}

function ipv6Off({ settings }: KernelFacts, networks: readonly PodNetwork[]): readonly Finding[] {
  const six = networksOf(networks, 6)
  if (six.length === 0) return []
  if (settings.get('net/ipv6/conf/all/disable_ipv6') === undefined) {
    return [findingOf({ id: 'ipv6-disabled', on: namesOf(six), message: 'this kernel has no IPv6' })]
  }
  const links = six.flatMap((network) => network.links)
  const off = links.filter((dev) => settings.get(`net/ipv6/conf/${dev}/disable_ipv6`) === '1')
  return off.map((dev) => {
    const key = `net.ipv6.conf.${dev}.disable_ipv6`
    const run = `sysctl -w ${key}=0; trestle restore`
    return findingOf({ id: 'ipv6-disabled', on: dev, message: `${key} is 1, and ${namesOf(six)} has IPv6 ranges`, run })
  })
}

/** The kernel uses the larger value (net/ipv4/fib_frontend.c, IN_DEV_RPFILTER: IN_DEV_MAXCONF). */
function strictUplinks({ settings, uplinks }: KernelFacts, networks: readonly PodNetwork[]): readonly Finding[] {
  if (networks.length === 0) return []
  const all = Number(settings.get('net/ipv4/conf/all/rp_filter') ?? 0)
  return uplinks
    .filter(({ dev, backBy }) => backBy !== dev)
    .filter(({ dev }) => Math.max(all, Number(settings.get(`net/ipv4/conf/${dev}/rp_filter`) ?? 0)) === 1)
    .map(({ dev, address, backBy }) => {
      const message = `rp_filter of ${dev} is 1, it has a default route, and answers from ${address} leave by ${backBy}`
      return findingOf({
        id: 'rp-filter',
        on: dev,
        message,
        run: `sysctl -w net.ipv4.conf.${dottedLink(dev)}.rp_filter=2`,
      })
    })
}

/** trestle's own host ports work without br_netfilter; kube-proxy's answers between ports of one bridge need it. */
function bridgeNf({ settings, hasKubeProxy }: KernelFacts, networks: readonly PodNetwork[]): readonly Finding[] {
  const value = settings.get('net/bridge/bridge-nf-call-iptables')
  const isBridged = networks.some(({ bridges }) => bridges.length > 0)
  if (!hasKubeProxy || !isBridged || value === '1') return []
  const message = value === undefined ? 'br_netfilter is not loaded' : 'net.bridge.bridge-nf-call-iptables is 0'
  return [findingOf({ id: 'bridge-nf-off', on: 'the node', message: `${message}, and kube-proxy translates services` })]
}

/** `withoutIpv6`: links with IPv6 off, which have no such routes. */
function strangeRoutes({ podRoutes }: KernelFacts, withoutIpv6: ReadonlySet<string>): readonly Finding[] {
  const strange = podRoutes
    .filter(({ address, expected }) => !(familyOf(address) === 6 && withoutIpv6.has(expected)))
    .filter(({ expected, leavesBy }) => leavesBy !== expected)
  return [...Map.groupBy(strange, ({ leavesBy = '' }) => leavesBy)].map(([link, pods]) => {
    const [first] = pods
    const more = pods.length > 1 ? `, and ${pods.length - 1} more` : ''
    const way = link === '' ? 'has no way out of the node' : `leaves by ${link}`
    const message = `packets to ${first?.address} ${way}, not by ${first?.expected}${more}`
    const run = pods.flatMap(({ route }) => (route === undefined ? [] : [`ip ${route}`])).join('\n')
    const look = `look at \`ip route get ${first?.address}\``
    const cure = `${look}: remove that route or rule, or give one of the two another range`
    const paste = isPlainCommand(run.replaceAll('\n', ' ')) ? { run } : {}
    return findingOf({ id: 'route-elsewhere', on: first?.pod ?? link, message, cure, ...paste })
  })
}

function refused({ refusals }: KernelFacts): readonly Finding[] {
  return refusals.map(({ network, family, rule, asked }) => {
    const line = `ip -${family} rule del ${rule}`
    const run = isPlainCommand(line) ? { run: line } : {}
    const message = `${asked}: refused by \`${rule}\``
    return findingOf({ id: 'rule-refuses', on: `network ${network}`, message, ...run })
  })
}

function networksOf(networks: readonly PodNetwork[], family: 4 | 6): readonly PodNetwork[] {
  return networks.filter(({ subnets }) => subnets.some((subnet) => familyOf(subnet) === family))
}

function namesOf(networks: readonly PodNetwork[]): string {
  return `network ${networks.map(({ name }) => name).join(', ')}`
}

/** A word that a shell takes literally. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Whether a line is safe to paste into a shell: a comment of another firewall may contain anything. */
export function isPlainCommand(line: string): boolean {
  return /^[\w./:@%+=," !-]+$/.test(line)
}
