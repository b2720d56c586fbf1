// SPDX-License-Identifier: Apache-2.0
// Settings and routes of the kernel that cut pods off.

import { asPrefix, bareAddress, bitsOf, familyOf, overlaps, parseCidr, toCidr } from '../../cni/addresses.ts'
import { readDocuments } from '../../kernel/look.ts'
import { readSysctl } from '../../kernel/proc.ts'
import { namesIn } from '../../state/files.ts'
import { type Finding, findingOf } from '../findings.ts'
import { textIfThere } from '../if-there.ts'
import { few, type Node, type PodNetwork, podText } from './observed-node.ts'

export async function checkKernel(node: Node): Promise<readonly Finding[]> {
  const used = node.networks.filter(({ isSetUp }) => isSetUp)
  if (used.length === 0) return []
  return [
    ...forwarding(used, node.records.length > 0),
    ...ipv6Off(used),
    ...(await strictUplinks(node)),
    ...(await bridgeNf(node, used)),
    ...(await strangeRoutes(node)),
    ...rangesElsewhere(node, used),
  ]
}

function hasFamily({ subnets }: PodNetwork, family: 4 | 6): boolean {
  return subnets.some((subnet) => familyOf(subnet) === family)
}

function namesOf(networks: readonly PodNetwork[]): string {
  return `network ${networks.map(({ name }) => name).join(', ')}`
}

/** Forwarding that is off, or that sysctl.d switches off at the next start. */
function forwarding(networks: readonly PodNetwork[], isOurs: boolean): readonly Finding[] {
  const found: Finding[] = []
  for (const [family, key] of [
    [4, 'net.ipv4.ip_forward'],
    [6, 'net.ipv6.conf.all.forwarding'],
  ] as const) {
    const concerned = networks.filter((network) => hasFamily(network, family))
    if (concerned.length === 0) continue
    if (readSysctl(key.replaceAll('.', '/')) === '0') {
      const message = `${key} is 0, and ${namesOf(concerned)} forwards IPv${family}`
      // trestle keeps the router advertisements of an uplink, which forwarding would switch off.
      const run = isOurs ? 'trestle restore' : `sysctl -w ${key}=1`
      found.push(findingOf({ id: 'forwarding-off', on: key, message, run }))
      continue
    }
    const kept = settingAtStart(key)
    if (kept?.value !== '0') continue
    const behind = kept.file === lastFile ? lastFile : '/etc/sysctl.d/zz-pod-network.conf'
    const run = `printf '%s\\n' '${key} = 1' >>${behind}`
    found.push(findingOf({ id: 'forwarding-reverts', on: kept.file, message: `it says ${kept.key} = 0`, run }))
  }
  return found
}

const directories = ['/etc/sysctl.d', '/run/sysctl.d', '/usr/local/lib/sysctl.d', '/usr/lib/sysctl.d', '/lib/sysctl.d']
/** sysctl(8) reads this file after all others. */
const lastFile = '/etc/sysctl.conf'

/**
 * The value that a key gets at the next start (sysctl.d(5)): files in the order of their names, the first directory with
 * a name wins, the last line counts.
 */
function settingAtStart(key: string): { key: string; value: string; file: string } | undefined {
  const files = new Map<string, string>()
  for (const directory of directories) {
    for (const name of namesIn(directory)) {
      if (name.endsWith('.conf') && !files.has(name)) files.set(name, `${directory}/${name}`)
    }
  }
  const sorted = [...files].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, file]) => file)
  let found: { key: string; value: string; file: string } | undefined
  for (const file of [...sorted, lastFile]) {
    for (const line of textIfThere(file).split('\n')) {
      const [, written = '', value = ''] = /^\s*-?\s*([\w./-]+)\s*=\s*(\S.*?)\s*$/.exec(line) ?? []
      // The kernel has one variable behind both names (net/ipv4/devinet.c).
      const name = written.replaceAll('/', '.').replace('net.ipv4.conf.all.forwarding', 'net.ipv4.ip_forward')
      if (name === key) found = { key: written, value, file }
    }
  }
  return found
}

function ipv6Off(networks: readonly PodNetwork[]): readonly Finding[] {
  const six = networks.filter((network) => hasFamily(network, 6))
  if (six.length === 0) return []
  if (readSysctl('net/ipv6/conf/all/disable_ipv6') === undefined) {
    return [findingOf({ id: 'ipv6-disabled', on: namesOf(six), message: 'this kernel has no IPv6' })]
  }
  const off = six.flatMap(({ links }) => links).filter((dev) => readSysctl(`net/ipv6/conf/${dev}/disable_ipv6`) === '1')
  return off.map((dev) => {
    const key = `net.ipv6.conf.${dev.replaceAll('.', '/')}.disable_ipv6`
    const run = `sysctl -w ${key}=0; trestle restore`
    const message = `${key} is 1, and ${namesOf(six)} has IPv6 ranges`
    return findingOf({ id: 'ipv6-disabled', on: dev, message, run })
  })
}

/** A distant sender: addresses for documentation (RFC 5737) that no route of the node is for. */
const distant = ['203.0.113.77', '198.51.100.77', '192.0.2.77', '8.0.113.77']

/**
 * Strict rp_filter on a link with a default route by which answers do not leave. The larger of two values counts
 * (net/ipv4/fib_frontend.c, IN_DEV_MAXCONF).
 */
async function strictUplinks({ host, machine }: Node): Promise<readonly Finding[]> {
  const defaults = host.routes.filter(({ dst }) => dst === '0.0.0.0/0')
  const known = host.routes.flatMap(({ dst }) => (/\/([89]|[1-3]\d)$/.test(dst) ? (parseCidr(dst) ?? []) : []))
  const far = distant.find((address) => {
    const one = parseCidr(`${address}/32`)
    return one !== undefined && !known.some((cidr) => overlaps(cidr, one))
  })
  const found: Finding[] = []
  for (const dev of new Set(defaults.flatMap((route) => route.dev ?? []))) {
    const values = ['all', dev].map((name) => Number(readSysctl(`net/ipv4/conf/${name}/rp_filter`) ?? 0))
    const cidr = host.links.get(dev)?.addresses.find((each) => familyOf(each) === 4)
    if (Math.max(...values) !== 1 || cidr === undefined || far === undefined) continue
    const address = bareAddress(cidr)
    const { stdout } = await machine.ask({ file: 'ip', args: ['-j', 'route', 'get', far, 'from', address] })
    const backBy = readDocuments(stdout)[0]?.['dev']
    if (typeof backBy !== 'string' || backBy === dev) continue
    const message = `rp_filter of ${dev} is 1, it has a default route, and answers from ${address} leave by ${backBy}`
    const run = `sysctl -w net.ipv4.conf.${dev.replaceAll('.', '/')}.rp_filter=2`
    found.push(findingOf({ id: 'rp-filter', on: dev, message, run }))
  }
  return found
}

/** trestle's own host ports work without br_netfilter; kube-proxy's answers between ports of one bridge need it. */
async function bridgeNf({ machine }: Node, networks: readonly PodNetwork[]): Promise<readonly Finding[]> {
  const value = readSysctl('net/bridge/bridge-nf-call-iptables')
  if (value === '1' || networks.every(({ bridges }) => bridges.length === 0)) return []
  const { stdout } = await machine.ask({ file: 'nft', args: ['list', 'chains'] })
  // kube-proxy's nft table, or its chain of iptables; k3s has no process of that name.
  if (!/^table \S+ kube-proxy\b|^\tchain KUBE-SERVICES\b/m.test(stdout)) return []
  const message = value === undefined ? 'br_netfilter is not loaded' : 'net.bridge.bridge-nf-call-iptables is 0'
  return [findingOf({ id: 'bridge-nf-off', on: 'the node', message: `${message}, and kube-proxy translates services` })]
}

/** Each routed pod has a route of its own. */
const mostRoutes = 50

/** Packets for a pod that leave the node by another link than the pod's. */
async function strangeRoutes({ machine, records, host }: Node): Promise<readonly Finding[]> {
  const ends = records.flatMap((record) => {
    const { port, host, addresses = [], chained, network } = record.spec ?? {}
    const link = port?.vlans === undefined ? (port?.bridge ?? host?.name) : undefined
    if (link === undefined || chained !== undefined) return []
    // Without a gateway on the bridge (isGateway) the node is none of the bridge's hosts.
    const gateways = port === undefined ? undefined : network?.bridge?.addresses
    const reached = addresses.filter(
      ({ address }) => gateways?.some((each) => familyOf(each) === familyOf(address)) ?? true,
    )
    return reached.map(({ address }) => ({ address: bareAddress(address), link, pod: podText(record) }))
  })
  const asked = ends.slice(0, mostRoutes)
  if (asked.length === 0) return []
  const stdin = asked.map(({ address }) => `route get ${address}\n`).join('')
  const { stdout } = await machine.ask({ file: 'ip', args: ['-j', '-force', '-batch', '-'], stdin })
  const ways = new Map(readDocuments(stdout).map((route) => [route['dst'], route['dev']]))
  const strange = asked.filter(({ address, link }) => ways.get(address) !== link)
  const [first] = strange
  if (first === undefined) return []
  const way = ways.get(first.address)
  const leaves = way === undefined ? 'has no way out of the node' : `leaves by ${way}`
  const message = `${first.address} ${leaves}, not by ${first.link}`
  const cure = `look at \`ip route get ${first.address}\`: remove that route or rule, or give one of the two another range`
  const ofPod = host.routes.filter(({ dst, dev }) => dst === asPrefix(first.address) && dev !== first.link)
  const run = ofPod.map(({ dst }) => `ip ${familyOf(dst) === 6 ? '-6 ' : ''}route del ${dst}`)[0]
  const pods = [...new Set(strange.map(({ pod }) => pod))]
  return [findingOf({ id: 'route-elsewhere', on: few(pods), message, cure, ...(run === undefined ? {} : { run }) })]
}

/** A link that is none of the network's has an address of the pods' range: answers to pods go there. */
function rangesElsewhere({ host }: Node, networks: readonly PodNetwork[]): readonly Finding[] {
  const found: Finding[] = []
  for (const { name, subnets, links } of networks) {
    for (const link of host.links.values()) {
      if (links.includes(link.name) || link.name === 'lo' || link.master !== undefined) continue
      const cidrs = link.addresses.flatMap((address) => parseCidr(address) ?? [])
      const range = subnets.find((subnet) => {
        const pods = toCidr(subnet)
        // Of two routes to an address the longer one is taken.
        return cidrs.some((cidr) => {
          return (
            cidr.prefixLength >= pods.prefixLength && cidr.prefixLength < bitsOf(cidr.family) && overlaps(cidr, pods)
          )
        })
      })
      if (range === undefined) continue
      const message = `${link.name} has ${link.addresses.join(', ')}, and ${range} is the range of network ${name}`
      const cure = 'give the link or the network another range'
      found.push(findingOf({ id: 'route-elsewhere', on: link.name, message, cure }))
    }
  }
  return found
}
