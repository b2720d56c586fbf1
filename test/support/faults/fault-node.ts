// SPDX-License-Identifier: Apache-2.0
// A node for fault rounds: pods that have been there before and talk the whole time, an outside world that
// talks to them through host ports, and a look at everything a fault could leave behind or take away.

import { existsSync } from 'node:fs'
import { type Known, knownOf, withoutShared, wordsOf } from '../allowance.ts'
import { type Call, type Finished, type Host, openHost, snapshot, type Verb } from '../host.ts'
import { type InstalledIpam, installIpam } from '../ipam-plugin.ts'
import { routedPod } from '../traffic/routed-pods.ts'
import { openStreams, type Streams } from '../traffic/streams.ts'
import { addUplink, outside } from '../traffic/traffic.ts'
import { echoPort, type FeatureSet, leasing, type Net, prefixOf } from './fault-sets.ts'
import { openFaults } from './faults.ts'
import { until } from './process-identities.ts'

const lifetimeMs = 3_600_000

/** Host ports: of the neighbour, of the pod that was there before, of the pod that meets the fault. */
export const hostPorts = { neighbour: 28080, before: 28081, subject: 28082, other: 28083 }

/** The networks of first ADDs, from 1. */
const netOf = (number: number): Net => ({ name: `first${number}`, bridge: `br-f${number}`, number })

/** The network with pods that were there before. */
const steadyNet: Net = { name: 'steady', bridge: 'br-steady', number: 0 }

const neighbour = {
  cniVersion: '1.1.0',
  name: 'neighbour',
  type: 'trestle',
  bridge: 'br-near',
  podcidr: '10.59.0.0/24',
  runtimeConfig: {
    portMappings: ['tcp', 'udp'].map((protocol) => ({
      hostPort: hostPorts.neighbour,
      containerPort: echoPort,
      protocol,
    })),
  },
}

/** No streams. */
const silence = { count: 0, broken: async (): Promise<readonly string[]> => [], close: () => undefined }

/** How often the streams of a node send; none: neither streams nor pods that were there before. */
export type Talk = { readonly everyMs: number } | 'none'

/** Opens the node and starts the streams. Close it with `close`. */
export async function openFaultNode(set: FeatureSet, talking: Talk = { everyMs: 50 }) {
  const host = openHost()
  const ipam = installIpam(leasing)
  const faults = openFaults(`${ipam.path}/scripted`)
  const internet = addUplink(host)
  const opened = ['a', 'b', 'y', 'z', 'near'].map((name, at) => [name, openPod(host, set, name, at)] as const)
  const pods = Object.fromEntries(opened.map(([name, { netns }]) => [name, netns]))
  const previous = Object.fromEntries(opened.map(([name, { prevResult }]) => [name, prevResult]))
  const calls = callsOn(host, { set, pods, previous, path: ipam.path })
  const { addresses, talk } =
    talking === 'none'
      ? { addresses: [], talk: silence }
      : await populate({ host, set, internet, pods, addPod: calls.addPod, ...talking })
  let nets = 0
  const close = (): void => {
    talk.close()
    faults.close()
    ipam.remove()
    host.close()
  }
  const freshNet = (): Net => {
    nets += 1
    return netOf(nets)
  }
  // A first ADD that fails has written down no network, and leaves what the network shares, as it leaves the bridge.
  const ofNets = (): Known => {
    const all = Array.from({ length: nets + 1 }, (_, number) => netOf(number))
    return new Set(all.flatMap((net) => [`${prefixOf(net)}.0/29`, ...wordsOf(JSON.stringify(set.conf(net)))]))
  }
  const look = (): Look => lookAt(host, ipam, ofNets())
  return { host, set, pods, internet, faults, steadyNet, addresses, freshNet, look, close, talk, ...calls }
}

/** A namespace, with the interface that another plugin makes where the set is chained. */
function openPod(host: Host, set: FeatureSet, name: string, at: number): { netns: string; prevResult?: object } {
  if (!set.isChained || name === 'near') return { netns: host.pod(name) }
  const { call, prevResult } = routedPod(host, name, `cali${name}`, `10.58.0.${at + 2}`)
  return { netns: call.netns, prevResult }
}

/** The neighbour of another network, y and z of this one, and the streams between them. */
async function populate(of: {
  host: Host
  set: FeatureSet
  internet: string
  pods: Readonly<Record<string, string>>
  addPod: ReturnType<typeof callsOn>['addPod']
  everyMs: number
}) {
  const { host, set, pods, internet, addPod, everyMs } = of
  mustWork('the neighbour', host.cni('ADD', neighbour, { id: 'near', netns: pods['near'] ?? '' }))
  const y = mustWork('y', addPod(steadyNet, 'y', set.hasPorts ? hostPorts.before : undefined))
  const z = mustWork('z', addPod(steadyNet, 'z'))
  const talk = await startTalk({ internet, pods, hasPorts: set.hasPorts, address: addressOf(y), everyMs })
  return { addresses: [addressOf(y), addressOf(z)], talk }
}

export type FaultNode = Awaited<ReturnType<typeof openFaultNode>>

/** What is there, as text by part: shared objects are left out. `flows`: conntrack entries to the subjects' host ports. */
export type Look = Readonly<Record<string, string>>

function lookAt(host: Host, ipam: InstalledIpam, ofNets: Known): Look {
  const taken = withoutShared(snapshot(host), new Set([...knownOf(host), ...ofNets]))
  const qdiscs = host.run('tc', ['qdisc', 'show']).stdout
  const flows = host.run('conntrack', ['-L', '-p', 'udp']).stdout.split('\n')
  const subjects = new RegExp(`dport=(${hostPorts.subject}|${hostPorts.other}) `)
  const leases = existsSync(`${ipam.path}/leases`) ? host.run('ls', [`${ipam.path}/leases`]).stdout : ''
  return {
    ...taken,
    // With the carrier, which is reported later, come the kernel's own routes of IPv6 links: they are as the links are.
    // Where IPv6 forwarding is on, which is shared, each prefix has an anycast address (net/ipv6/addrconf.c,
    // addrconf_join_anycast).
    routes: taken.routes.replace(/^((\w+ )?(fe80::|ff00::)|anycast ).*\n/gm, ''),
    qdiscs: qdiscs.replace(/^.* dev br-.*\n/gm, ''),
    flows: flows.filter((line) => subjects.test(line)).join('\n'),
    leases,
  }
}

/** Calls as libcni makes them. */
function callsOn(
  host: Host,
  on: {
    set: FeatureSet
    pods: Readonly<Record<string, string>>
    previous: Readonly<Record<string, object | undefined>>
    path: string
  },
) {
  const callOf = (id: string): Call & { id: string; netns: string } => ({
    id,
    netns: on.pods[id] ?? '',
    path: on.path,
  })
  const addConf = (net: Net, id: string, hostPort?: number): object => {
    const prevResult = on.previous[id]
    return { ...on.set.conf(net, hostPort), ...(prevResult ? { prevResult } : {}) }
  }
  const addPod = (net: Net, id: string, hostPort?: number): Finished =>
    host.cni('ADD', addConf(net, id, hostPort), callOf(id))
  /** `netns` empty as in containerd's second DEL. */
  const delPod = (net: Net, id: string, netns = on.pods[id] ?? ''): Finished =>
    host.cni('DEL', on.set.conf(net), { ...callOf(id), netns })
  return { callOf, addConf, addPod, delPod }
}

interface Talkers {
  readonly internet: string
  readonly pods: Readonly<Record<string, string>>
  readonly hasPorts: boolean
  /** Of y. */
  readonly address: string
  readonly everyMs: number
}

/** Streams between y and z, and from outside to the neighbour's host port and y's. */
async function startTalk(of: Talkers) {
  const open = (netns: string | undefined) => openStreams(netns ?? '', echoPort, { everyMs: of.everyMs, lifetimeMs })
  const [far, near, y, z] = [
    await open(of.internet),
    await open(of.pods['near']),
    await open(of.pods['y']),
    await open(of.pods['z']),
  ]
  const all = streamsOf(of, { far, z })
  const start = (name: string) => all.get(name)?.(name.replaceAll(' ', '_'))
  const names = [...all.keys()]
  names.forEach(start)
  const ends = [y, z, far, near]
  const echoes = () => new Map([...z.echoes, ...far.echoes])
  await until('the first echo of every stream', () =>
    names.every((name) => (echoes().get(name.replaceAll(' ', '_')) ?? 0) > 0),
  )
  let seen = 0
  return {
    /** How many run. */
    count: names.length,
    /**
     * Those that broke since the last call, in words; they are started again. Waits until each has had echoes of what
     * is sent from now on, or is reported.
     */
    broken: async (): Promise<readonly string[]> => {
      await Promise.all(ends.map((each) => each.settled()))
      const news = ends.flatMap((each) => each.broken).slice(seen)
      seen += news.length
      for (const each of news) start(each.replace(/:.*/, '').replaceAll('_', ' '))
      return news
    },
    close: () => {
      for (const each of ends) each.close()
    },
  }
}

/** How each stream is started, by what it is called. */
function streamsOf(of: Talkers, { far, z }: { far: Streams; z: Streams }) {
  const host = (port: number) => ({ address: outside.node4, port })
  const ways: readonly (readonly [Streams, string, { address: string; port: number }])[] = [
    [z, 'from pod to pod', { address: of.address, port: echoPort }],
    [far, 'to the neighbour’s host port', host(hostPorts.neighbour)],
    ...(of.hasPorts ? [[far, 'to a host port of the network', host(hostPorts.before)] as const] : []),
  ]
  return new Map(
    ways.flatMap(([from, what, target]) => [
      [`TCP ${what}`, (as: string) => from.start(as, target)],
      [`UDP ${what}`, (as: string) => from.startUdp(as, target)],
    ]),
  )
}

/** The first address of an ADD's result, without prefix length. */
export function addressOf(added: Finished): string {
  return added.json?.ips?.[0]?.address.replace(/\/.*/, '') ?? ''
}

/** Throws when a call that meets no fault fails. */
export function mustWork(what: string | Verb, finished: Finished): Finished {
  const { code, stdout, stderr } = finished
  if (code !== 0) throw new Error(`${what} without a fault ended with ${code}: ${stdout}${stderr}`)
  return finished
}
