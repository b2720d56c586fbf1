// SPDX-License-Identifier: Apache-2.0
// Two nodes on one segment, an agent and a pod on each, attached by the configuration that the agent wrote.

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

/** Opens nodes 1 and 2. `more`: options of both agents. */
export async function openTwoNodes(more: readonly string[] = ['--look', '3600']) {
  execaSync('ip', ['link', 'add', 'segment', 'type', 'bridge'])
  execaSync('ip', ['link', 'set', 'segment', 'up'])
  const sides: Side[] = []
  const close = async () => {
    for (const { agent, api, files, host } of sides.splice(0)) {
      await agent.end('SIGKILL')
      await api.end('SIGKILL')
      files.remove()
      host.close()
    }
    // A namespace goes some time after its name.
    for (const name of ['n1', 'n2', 'segment']) execaSync('ip', ['link', 'del', name], { reject: false })
  }
  try {
    for (const n of [1, 2]) sides.push(await openSide(n, more))
  } catch (error) {
    // What stays would make every later test fail.
    await close()
    throw error
  }
  return { one: sides[0] as Side, two: sides[1] as Side, close }
}

export type TwoNodes = Awaited<ReturnType<typeof openTwoNodes>>

async function openSide(n: number, more: readonly string[]): Promise<Side> {
  const host = openHost()
  const files = agentFiles()
  execaSync('ip', ['link', 'add', `n${n}`, 'type', 'veth', 'peer', 'name', 'up0', 'netns', host.name])
  execaSync('ip', ['link', 'set', `n${n}`, 'master', 'segment', 'up'])
  const [v4, v6] = addresses(n)
  for (const line of [
    'link set lo up',
    'link set up0 up',
    `addr add ${v4}/24 dev up0`,
    `addr add ${v6}/64 dev up0 nodad`,
  ])
    runLine(host, `ip ${line}`)
  const api = await openApiServer(host)
  await api.order({ put: nodesSeenBy(n) })
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
export function nodesSeenBy(n: number): readonly ReturnType<typeof nodeObject>[] {
  return [1, 2].map((each) =>
    nodeObject(each === n ? 'self' : `node-${each}`, { cidrs: cidrs(each), addresses: addresses(each) }),
  )
}

/** Whether one ping of a pod is answered within a second. */
export function pings({ host, pod }: Pick<Side, 'host' | 'pod'>, to: string): boolean {
  return host.inPod(pod, 'ping', ['-n', '-c', '1', '-W', '1', to]).code === 0
}
