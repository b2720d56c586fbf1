// SPDX-License-Identifier: Apache-2.0
// Two nodes on one segment, or each on its own behind a router that forwards only what the nodes send themselves. An
// agent and a pod on each, attached by the configuration that the agent wrote.

import { execaSync } from 'execa'
import { expect } from 'vitest'
import { type Host, openHost } from '../host.ts'
import { runLine } from '../outcome.ts'
import {
  type AgentFiles,
  type ApiServer,
  agentFiles,
  isReady,
  nodeObject,
  openApiServer,
  type Running,
  startAgent,
} from './cluster.ts'

/** A node. `agent` is replaced where a test starts another one. */
export interface Side {
  readonly host: Host
  readonly files: AgentFiles
  readonly api: ApiServer
  agent: Running
  readonly pod: string
  /** The plugin's configuration, the result of the pod's ADD, and its addresses. */
  readonly conf: Readonly<Record<string, unknown>>
  readonly result: unknown
  readonly address: { readonly v4: string; readonly v6: string }
}

export const cidrs = (n: number): readonly string[] => [`10.244.${n}.0/24`, `fd00:10:244:${n}::/64`]
export const addresses = (n: number): readonly string[] => [`192.0.2.1${n}`, `2001:db8::1${n}`]
const farAddresses = (n: number): readonly string[] => [`198.51.100.${n * 64 + 1}`, `2001:db8:${n}::11`]

/** `families`: those of the nodes' own addresses, all on one segment or behind a router. Pods have both. */
export interface Underlay {
  readonly router?: true
  readonly families?: readonly (4 | 6)[]
}

/** Opens nodes 1 and 2. `more`: options of both agents. */
export async function openTwoNodes(more: readonly string[] = [], underlay: Underlay = {}) {
  execaSync('ip', ['link', 'add', 'segment', 'type', 'bridge'])
  execaSync('ip', ['link', 'set', 'segment', 'up'])
  const router = underlay.router && openRouter()
  const sides: Side[] = []
  const close = async () => {
    for (const { agent, api, files, host } of sides.splice(0)) {
      await agent.end('SIGKILL')
      await api.end('SIGKILL')
      files.remove()
      host.close()
    }
    router?.close()
    // A namespace goes some time after its name.
    for (const name of ['n1', 'n2', 'segment']) execaSync('ip', ['link', 'del', name], { reject: false })
  }
  try {
    for (const n of [1, 2]) sides.push(await openSide(n, more, underlay, router))
  } catch (error) {
    // What stays would make every later test fail.
    await close()
    throw error
  }
  return { one: sides[0] as Side, two: sides[1] as Side, router, close }
}

export type TwoNodes = Awaited<ReturnType<typeof openTwoNodes>>

/** Forwards what goes from node to node and is no pod's. */
function openRouter(): Host {
  const router = openHost()
  const nodes = [1, 2].flatMap(farAddresses)
  const [four, six] = [nodes.filter((each) => !each.includes(':')), nodes.filter((each) => each.includes(':'))]
  const rules = [
    'icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept',
    `ip saddr { ${four.join()} } ip daddr { ${four.join()} } accept`,
    `ip6 saddr { ${six.join()} } ip6 daddr { ${six.join()} } accept`,
  ]
  const table = `table inet router { chain f { type filter hook forward priority 0; policy drop; ${rules.join('; ')}; }; }`
  expect(router.run('nft', ['-f', '-'], table).stderr).toBe('')
  for (const name of ['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding']) runLine(router, `sysctl -qw ${name}=1`)
  return router
}

/** The uplink of a node, with its addresses. */
function connect(host: Host, n: number, { families = [4, 6] }: Underlay, router?: Host): readonly string[] {
  const name = `n${n}`
  const to = router === undefined ? [] : ['netns', router.name]
  execaSync('ip', ['link', 'add', name, ...to, 'type', 'veth', 'peer', 'name', 'up0', 'netns', host.name])
  const all = router === undefined ? addresses(n) : farAddresses(n)
  const used = all.filter((each) => families.includes(each.includes(':') ? 6 : 4))
  const bits = (address: string) => (address.includes(':') ? 64 : router === undefined ? 24 : 26)
  const nodad = (address: string) => (address.includes(':') ? ' nodad' : '')
  if (router === undefined) execaSync('ip', ['link', 'set', name, 'master', 'segment', 'up'])
  else runLine(router, `ip link set ${name} up`)
  runLine(host, 'ip link set lo up')
  runLine(host, 'ip link set up0 up')
  for (const each of used) {
    runLine(host, `ip addr add ${each}/${bits(each)} dev up0${nodad(each)}`)
    if (router === undefined) continue
    const gateway = each.replace(/\d+$/, (last) => `${Number(last) + 1}`)
    runLine(router, `ip addr add ${gateway}/${bits(each)} dev ${name}${nodad(each)}`)
    runLine(host, `ip route add default via ${gateway}`)
  }
  return used
}

async function openSide(n: number, more: readonly string[], underlay: Underlay, router?: Host): Promise<Side> {
  const host = openHost()
  const files = agentFiles()
  connect(host, n, underlay, router)
  const api = await openApiServer(host)
  await api.order({ put: nodesSeenBy(n, underlay) })
  const agent = startAgent(host, files, more)
  await agent.seen(isReady, 'ready')
  const netns = host.pod('p')
  const { cniVersion, name, plugins } = files.configuration()
  const conf = { cniVersion, name, ...plugins[0] }
  const added = host.cni('ADD', conf, { id: `pod${n}`, netns })
  expect(added.stderr).toBe('')
  const [v4Pod = '', v6Pod = ''] = (added.json?.ips ?? []).map(({ address }) => address.split('/')[0] ?? '')
  return { host, files, api, agent, pod: netns, conf, result: added.json, address: { v4: v4Pod, v6: v6Pod } }
}

/** The cluster as node `n` is shown it, which has the name self there. */
export function nodesSeenBy(n: number, { router, families = [4, 6] }: Underlay = {}) {
  const ofNode = (each: number) =>
    (router ? farAddresses : addresses)(each).filter((address) => families.includes(address.includes(':') ? 6 : 4))
  return [1, 2].map((each) =>
    nodeObject(each === n ? 'self' : `node-${each}`, { cidrs: cidrs(each), addresses: ofNode(each) }),
  )
}

/** Whether one ping of a pod is answered within a second. */
export function pings({ host, pod }: Pick<Side, 'host' | 'pod'>, to: string): boolean {
  return host.inPod(pod, 'ping', ['-n', '-c', '1', '-W', '1', to]).code === 0
}
