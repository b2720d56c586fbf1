// SPDX-License-Identifier: Apache-2.0
// trestle's state against the kernel: what `restore` would make again, the inside of pods, and what `gc` would collect.

import { bareAddress } from '../../cni/addresses.ts'
import { readAlias } from '../../drivers/names.ts'
import { closeNetns, openNetnsIfThere } from '../../kernel/netns.ts'
import type { Place } from '../../kernel/observed.ts'
import { uplinkMtu } from '../../kernel/proc.ts'
import { namesIn } from '../../state/files.ts'
import { stateRoot } from '../../state/layout.ts'
import { type AttachmentRecord, allRecords, findRecord, isSameRecord } from '../../state/records.ts'
import { isStateLost } from '../../state/recover.ts'
import { compareInPod } from '../../verbs/check.ts'
import { openContext } from '../../verbs/context.ts'
import { judgeAll } from '../../verbs/garbage.ts'
import { restoreNetworks } from '../../verbs/restore.ts'
import { cachedAttachment } from '../by-hand/libcni-cache.ts'
import { inodeOf } from '../by-hand/pod.ts'
import { counted, type Finding, findingOf } from '../findings.ts'
import { few, type Node, podText, shellWord } from './observed-node.ts'

export async function checkNetwork(node: Node): Promise<readonly Finding[]> {
  const found: Finding[] = []
  if (isStateLost()) {
    const lost = [...node.host.links.values()].flatMap(({ name, alias, kind }) => {
      const id = kind === 'veth' ? readAlias(name, alias)?.id : undefined
      return id === undefined || findRecord(id) !== undefined
        ? []
        : [`the record of ${id.ifName} of container ${id.containerId}`]
    })
    found.push(findingOf({ id: 'state-lacks', on: 'this node', message: few(lost.length > 0 ? lost : ['its marker']) }))
  }
  if (!node.hasState) return found
  const { missing, accepts, lost } = await restoreNetworks(openContext(), true)
  const ends = lost.map(({ spec }) => `${spec?.host?.name} `)
  // Forwarding is a finding of the kernel, and a link that is lost one of its own.
  const isOther = (text: string) =>
    accepts.includes(text) || /ip_forward|all[./]forwarding/.test(text) || ends.some((end) => text.startsWith(end))
  const differences = missing.filter((text) => !isOther(text))
  if (differences.length > 0)
    found.push(findingOf({ id: 'network-differs', on: 'this node', message: few(differences) }))
  if (accepts.length > 0) found.push(findingOf({ id: 'accept-missing', on: 'another firewall', message: few(accepts) }))
  for (const record of lost) {
    const about = { on: podText(record), message: 'its interface is gone' }
    found.push(findingOf({ id: 'interface-lost', ...about, ...again(record) }))
  }
  const rest = node.records.filter((record) => !lost.some((other) => isSameRecord(other, record)))
  return [...found, ...(await insidePods(rest, node)), ...mtus(node)]
}

/** kubelet makes a stopped sandbox again, and the pod stays. */
function again({ pod, id }: AttachmentRecord): { readonly run?: string } {
  return pod === undefined ? {} : { run: `crictl stopp ${shellWord(id.containerId)}` }
}

/** Each pod costs a process in its namespace. */
const mostPods = 200
const podsAtOnce = 8

async function insidePods(records: readonly AttachmentRecord[], node: Node): Promise<readonly Finding[]> {
  const found: Finding[] = []
  const taken: string[] = []
  const unseen = new Map<string, number>()
  const left = records.filter(({ spec }) => spec?.pod !== undefined).slice(0, mostPods)
  const work = async () => {
    for (let record = left.shift(); record !== undefined; record = left.shift()) {
      const netns = openNetnsIfThere(record.netns.path)
      if (netns === undefined || record.spec === undefined) continue
      try {
        const { result } = cachedAttachment(record.id) ?? {}
        const { found: differences, pod } = await compareInPod(record.spec, result, netns, node.machine)
        if (differences.length === 0) continue
        if (isTakenInside(differences, pod, record.id.ifName)) taken.push(podText(record))
        else
          found.push(findingOf({ id: 'pod-differs', on: podText(record), message: few(differences), ...again(record) }))
      } catch (error) {
        const { message } = error as Error
        if (inodeOf(record.netns.path) !== undefined) unseen.set(message, (unseen.get(message) ?? 0) + 1)
      } finally {
        closeNetns(netns)
      }
    }
  }
  await Promise.all(Array.from({ length: podsAtOnce }, work))
  for (const [why, count] of unseen)
    node.skip({ group: 'network', why: `the inside of ${counted(count, 'pod')}: ${why}` })
  if (taken.length > 0) found.push(findingOf({ id: 'addresses-inside', on: 'sandboxes', message: few(taken) }))
  return found
}

/**
 * gVisor takes the addresses, and with them the routes. KubeVirt's bridge binding makes the end a port of its bridge,
 * under another name and with another MAC, beside the tap of its machine.
 */
function isTakenInside(found: readonly string[], pod: Place | undefined, ifName: string): boolean {
  const links = [...(pod?.links.values() ?? [])]
  if (links.some(({ master, kind, up }) => up && kind !== 'tun' && master?.startsWith('k6t-'))) return true
  const own = links.find(({ name }) => name === ifName)
  const hasAddress = own?.addresses.some((address) => !address.startsWith('fe80:'))
  return hasAddress === false && found.every((line) => /address|route|\d+\.\d+\.\d+\.\d+\/|[\da-f:]+\//.test(line))
}

function mtus({ records }: Node): readonly Finding[] {
  const most = uplinkMtu()
  const larger = records.filter(({ spec }) => {
    // Packets of a storage network do not leave by the uplink.
    const routes = [...(spec?.routes ?? []), ...(spec?.defaultRoutes ?? [])].filter(({ dst }) => dst.endsWith('/0'))
    const gateways = spec?.port === undefined ? undefined : spec.network?.bridge?.addresses.map(bareAddress)
    const isByNode = routes.some(({ gw }) => gateways === undefined || gw === undefined || gateways.includes(gw))
    return most !== undefined && isByNode && spec?.host !== undefined && (spec.pod?.mtu ?? 0) > most
  })
  if (larger.length === 0) return []
  const largest = Math.max(...larger.map(({ spec }) => spec?.pod?.mtu ?? 0))
  const message = `pods have an MTU of up to ${largest} bytes, the way out one of ${most}`
  return [findingOf({ id: 'mtu-larger', on: few(larger.map(podText)), message })]
}

/** What `trestle gc` would collect or report. */
export async function checkLeftovers({ hasState, listed }: Node): Promise<readonly Finding[]> {
  if (!hasState) return []
  const found: Finding[] = []
  const pending = allRecords().filter(({ left }) => left !== undefined)
  for (const record of pending) {
    found.push(findingOf({ id: 'pending-cleanup', on: podText(record), message: few(record.left ?? []) }))
  }
  const judged = (await judgeAll(openContext(), listed)).filter(({ verdict }) => verdict !== 'keep')
  const textsOf = (part: string) =>
    judged
      .filter((each) => each.part === part && each.verdict === 'collect')
      .filter(({ text }) => !pending.some(({ id }) => text.includes(id.containerId.slice(0, 13))))
      .map(({ text, why }) => `${text}: ${why}`)
  const [dead, reservations] = [textsOf('attachments'), textsOf('reservations')]
  const unsure = judged.filter(({ verdict }) => verdict === 'report').map(({ text, why }) => `${text}: ${why}`)
  const damaged = namesIn(`${stateRoot()}/damaged`).map((name) => `${stateRoot()}/damaged/${name}`)
  const add = (id: string, on: string, texts: readonly string[]) => {
    if (texts.length > 0) found.push(findingOf({ id, on, message: few(texts) }))
  }
  add('dead-attachments', counted(dead.length, 'attachment'), dead)
  add('reservations-leaked', counted(reservations.length, 'reservation'), reservations)
  add('orphans', 'the kernel', textsOf('orphans'))
  add('unsure', 'leftovers', unsure)
  add('state-damaged', `${stateRoot()}/damaged`, damaged)
  return found
}

/** Processes of the node that listen on a host port of a pod (ss(8)). */
export async function checkPorts({ machine, records }: Node): Promise<readonly Finding[]> {
  const owners = new Map<string, string>()
  for (const record of records) {
    for (const { protocol, hostPort } of record.spec?.hostPorts?.ports ?? [])
      owners.set(`${protocol} ${hostPort}`, podText(record))
  }
  if (owners.size === 0) return []
  const { stdout } = await machine.ask({ file: 'ss', args: ['-H', '-l', '-n', '-t', '-u', '-p'] })
  const found: Finding[] = []
  for (const line of stdout.split('\n')) {
    const [protocol = '', , , , local = '', , process = ''] = line.split(/\s+/)
    const port = local.slice(local.lastIndexOf(':') + 1)
    const pod = owners.get(`${protocol} ${port}`)
    if (pod === undefined || !owners.delete(`${protocol} ${port}`)) continue
    const who = /"([^"]+)",pid=(\d+)/.exec(process)
    const name = who === null ? 'a process of the node' : `${who[1]} (process ${who[2]})`
    const message = `it goes to ${pod}, and ${name} listens on ${local}`
    const cure = `give one of them another port; \`ss -lnp sport = :${port}\` names the process`
    found.push(findingOf({ id: 'port-taken', on: `host port ${port}/${protocol}`, message, cure }))
  }
  return found
}
