// SPDX-License-Identifier: Apache-2.0
// A node for tests of the agent: its uplink, what asks for rounds or is an API server, and pods by the configuration that
// the agent has written. One for each test of a file.

import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, expect } from 'vitest'
import { type Host, openHost } from '../host.ts'
import { runLine } from '../outcome.ts'
import {
  type AgentFiles,
  type ApiServer,
  agentFiles,
  type Certificate,
  makeCertificate,
  nodeObject,
  openApiServer,
  type Running,
  startAgent,
} from './cluster.ts'
import { openRounds, type Rounds } from './rounds.ts'

/** Lines of `ip` beside those that give the node 192.0.2.11 on up0. */
export const uplink = {
  v6: 'addr add 2001:db8::11/64 dev up0 nodad',
  route: 'route add default via 192.0.2.1',
} as const

function openNode(more: readonly string[]): Host {
  const host = openHost()
  const links = ['link set lo up', 'link add up0 type bridge', 'link set up0 up', 'addr add 192.0.2.11/24 dev up0']
  for (const line of [...links, ...more]) runLine(host, `ip ${line}`)
  return host
}

/** A node whose rounds a test asks for. */
export function nodeWithRounds(...more: readonly string[]) {
  let open: { readonly host: Host; readonly rounds: Rounds }
  beforeEach(() => {
    const host = openNode(more)
    open = { host, rounds: openRounds(host) }
  })
  afterEach(() => {
    open.rounds.close()
    open.host.close()
  })
  return {
    get host() {
      return open.host
    },
    get rounds() {
      return open.rounds
    },
  }
}

/** A node with an API server, which has a Node object of it. `secure`: it speaks TLS. */
export function nodeWithApi(options: { readonly secure?: true } = {}) {
  let open: { readonly host: Host; readonly files: AgentFiles; readonly api: ApiServer; certificate?: Certificate }
  const agents: Running[] = []
  beforeEach(async () => {
    const [host, files] = [openNode([uplink.route]), agentFiles()]
    const certificate = options.secure && makeCertificate(files.root)
    const api = await openApiServer(host, 6443, certificate)
    open = { host, files, api, ...(certificate && { certificate }) }
    await api.order({ put: [nodeObject('self', { cidrs: ['10.244.1.0/24'], addresses: ['192.0.2.11'] })] })
  })
  afterEach(async () => {
    for (const agent of agents.splice(0)) await agent.end('SIGKILL')
    await open.api.end('SIGKILL')
    open.files.remove()
    open.host.close()
  })
  return {
    get host() {
      return open.host
    },
    get files() {
      return open.files
    },
    get api() {
      return open.api
    },
    get certificate() {
      return open.certificate?.certificate ?? ''
    },
    /** Starts an agent, which ends with the test. `tracer`: the words of a program that starts it. */
    start: (more: readonly string[], tracer: readonly string[] = []): Running => {
      const started = startAgent(open.host, open.files, more, tracer)
      agents.push(started)
      return started
    },
  }
}

/** The plugin's part of the configuration that the agent has written, with the list's keys. */
export function writtenPlugin({ rounds }: { readonly rounds: Rounds }): Record<string, unknown> {
  const { cniVersion, name, plugins } = JSON.parse(readFileSync(rounds.files.conflist, 'utf8'))
  return { cniVersion, name, ...plugins[0] }
}

/** A pod with what it was attached with. */
export interface AgentPod {
  readonly id: string
  readonly netns: string
  readonly conf: object
  readonly addresses: readonly string[]
  readonly gateways: readonly string[]
}

/** An ADD: a pod, or the code that it was refused with. */
export function tryAttach(
  host: Host,
  id: string,
  conf: object,
): { readonly pod?: AgentPod; readonly told: string; readonly code?: number } {
  const netns = host.pod(id)
  const { code, json, stdout: told } = host.cni('ADD', conf, { id, netns })
  const ips = json?.ips ?? []
  const addresses = ips.map(({ address }) => address.split('/')[0] ?? '')
  if (code === 0) return { pod: { id, netns, conf, addresses, gateways: ips.map(({ gateway }) => gateway) }, told }
  host.removePod(netns)
  return { told, ...(json?.code !== undefined && { code: json.code }) }
}

/** A DEL, and the end of the pod. */
export function detach(host: Host, { id, netns, conf }: AgentPod): void {
  const { code, stdout } = host.cni('DEL', conf, { id, netns })
  expect(code, stdout).toBe(0)
  host.removePod(netns)
}

/** Each pod reaches its gateways and the addresses of all others of a family that it has. */
export function requireReach(host: Host, pods: readonly AgentPod[], why: () => string = () => ''): void {
  // An address that is given out again has another MAC where the families were swapped meanwhile: who knew it asks
  // again by itself, some seconds later (net/core/neighbour.c, NUD_DELAY and NUD_PROBE).
  host.run('ip', ['neigh', 'flush', 'all'])
  const isSix = (address: string) => address.includes(':')
  for (const pod of pods) {
    const families = new Set(pod.addresses.map(isSix))
    const others = pods.filter((each) => each !== pod).flatMap(({ addresses }) => addresses)
    const asked = [...pod.gateways, ...others.filter((address) => families.has(isSix(address)))]
    const script =
      'ip neigh flush all 2>/dev/null; for to in "$@"; do ping -n -c 1 -W 3 "$to" >/dev/null || echo "$to"; done'
    const lost = host.inPod(pod.netns, 'sh', ['-c', script, 'sh', ...asked]).stdout
    expect(lost, `${why()}: ${pod.id} with ${pod.addresses.join()} does not reach`).toBe('')
  }
}
