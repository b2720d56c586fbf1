// SPDX-License-Identifier: Apache-2.0
// Pods on a throw-away host: the configuration most tests use, ADD that must succeed, CHECK with its
// result, and what the pod has afterwards.

import type { Answer, Call, Finished, Host } from '../host.ts'

/** The configuration of a small network; `more` adds keys, or takes one out with undefined. */
export function netConf(more: Readonly<Record<string, unknown>> = {}) {
  return { cniVersion: '1.1.0', name: 'net', type: 'trestle', podcidr: '10.240.0.0/24', ...more }
}

/** The same with `ipam` in place of podcidr. */
export function ipamConf(ipam: unknown, more: Readonly<Record<string, unknown>> = {}) {
  return netConf({ podcidr: undefined, ipam, isDefaultGateway: true, ...more })
}

/** An attached pod. `address`: its first address without prefix. `hostLink`: the veth's end on the host. */
export interface Pod {
  readonly id: string
  readonly netns: string
  readonly call: Call
  readonly result: Answer
  readonly address: string
  readonly hostLink: string
}

/** ADD that must succeed, for a pod of its own unless `call.netns` names one. Container id `c1` unless given. */
export function attach(host: Host, conf: unknown, given: Call = {}): Pod {
  const id = given.id ?? 'c1'
  const call = { ...given, id, netns: given.netns ?? host.pod(id) }
  const added = host.cni('ADD', conf, call)
  const result = added.json
  if (added.code !== 0 || result === undefined) throw new Error(`ADD of ${id} failed: ${added.stdout}${added.stderr}`)
  const address = result.ips?.[0]?.address.replace(/\/.*/, '') ?? ''
  const hostLink = result.interfaces?.find((each) => each.name.startsWith('veth'))?.name ?? ''
  return { id, netns: call.netns, call, result, address, hostLink }
}

/** CHECK or DEL as libcni sends them: with the result of ADD. */
export function later(host: Host, verb: 'CHECK' | 'DEL', sent: { conf: object; pod: Pod; call?: Call }): Finished {
  const { conf, pod, call } = sent
  return host.cni(verb, { ...conf, prevResult: pod.result }, { ...pod.call, ...call })
}

/** A link, an address or a route as `ip -j` shows it, as far as it has these. */
export interface Shown {
  readonly ifname: string
  readonly ifalias?: string
  readonly ifindex: number
  readonly address: string
  readonly mtu: number
  readonly operstate: string
  readonly promiscuity: number
  readonly link: string
  readonly master?: string
  readonly addr_info: readonly { readonly local?: string; readonly prefixlen: number }[]
  readonly linkinfo: { readonly info_slave_data: object }
}

/** What `ip -j` says in a pod. */
export function inPodJson(host: Host, netns: string, args: readonly string[]): readonly Shown[] {
  return shown(host.inPod(netns, 'ip', ['-j', ...args]))
}

/** What `ip -j` says on the host. */
export function onHostJson(host: Host, args: readonly string[]): readonly Shown[] {
  return shown(host.run('ip', ['-j', ...args]))
}

/** The names of a pod's interfaces, lo left out. */
export function interfacesOf(host: Host, netns: string): readonly string[] {
  const names = inPodJson(host, netns, ['link', 'show']).map((link) => link.ifname)
  return names.filter((name) => name !== 'lo')
}

/** Global addresses of one interface, as CIDRs. */
export function addressesOf(host: Host, netns: string, dev = 'eth0'): readonly string[] {
  const links = inPodJson(host, netns, ['addr', 'show', 'dev', dev, 'scope', 'global'])
  const infos = links.flatMap((link) => link.addr_info ?? [])
  return infos.filter((info) => info.local !== undefined).map((info) => `${info.local}/${info.prefixlen}`)
}

/** iproute2 prints nothing at all for an empty list. */
function shown({ stdout }: Finished): readonly Shown[] {
  return stdout.trim() === ''
    ? []
    : (JSON.parse(stdout) as readonly Shown[]).filter((each) => Object.keys(each).length > 0)
}
