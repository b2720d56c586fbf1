// SPDX-License-Identifier: Apache-2.0
// trestle's state against the kernel: what `restore` would make again, the inside of pods, and what `gc` would collect.

import { bareAddress } from '../../cni/addresses.ts'
import { isPodLinkName, readAlias } from '../../drivers/names.ts'
import { closeNetns, openNetnsIfThere } from '../../kernel/netns.ts'
import type { Place } from '../../kernel/observed.ts'
import type { Op } from '../../kernel/operation.ts'
import { uplinkMtu } from '../../kernel/proc.ts'
import { namesIn } from '../../state/files.ts'
import { stateRoot } from '../../state/layout.ts'
import { type AttachmentRecord, allRecords, findRecord, isSameRecord } from '../../state/records.ts'
import { isStateLost } from '../../state/recover.ts'
import { compareInPod } from '../../verbs/check.ts'
import { openContext } from '../../verbs/context.ts'
import { type RestoreReport, restoreNetworks } from '../../verbs/restore.ts'
import { cachedAttachment, cachedAttachments, cachedTypes } from '../by-hand/libcni-cache.ts'
import { inodeOf } from '../by-hand/pod.ts'
import { counted, type Finding, findingOf } from '../findings.ts'
import { judgeAll } from '../gc-command.ts'
import { few, type Node, podText } from './observed-node.ts'
import { shellWord } from './shell.ts'

export async function checkNetwork(node: Node): Promise<readonly Finding[]> {
  skipPodsOfOthers(node)
  const found: Finding[] = []
  if (isStateLost() && !node.isHidden) {
    const lost = [...node.host.links.values()].flatMap(({ name, alias, kind }) => {
      const id = kind === 'veth' ? readAlias(name, alias)?.id : undefined
      return id === undefined || findRecord(id) !== undefined
        ? []
        : [`the record of ${id.ifName} of container ${id.containerId}`]
    })
    found.push(findingOf({ id: 'state-lacks', on: 'this node', message: few(lost.length > 0 ? lost : ['its marker']) }))
  }
  if (!node.hasState) return found
  const report = await restoreNetworks(openContext(), true)
  found.push(...differences(report))
  for (const record of report.lost) {
    found.push(
      findingOf({ id: 'interface-lost', on: podText(record), message: 'its interface is gone', ...again(record) }),
    )
  }
  const rest = node.records.filter((record) => !report.lost.some((other) => isSameRecord(other, record)))
  return [...found, ...(await insidePods(rest, node)), ...mtus(node), ...partial(node)]
}

/** One finding for each diagnosis: a flush, or a missing bridge, is one cause of many differences. */
function differences({ differences: found, accepts }: RestoreReport): readonly Finding[] {
  const gone = new Set(found.flatMap(({ op }) => (op.kind === 'bridge.add' ? [op.name] : [])))
  const portsOfGone = new Set(
    found.flatMap(({ op }) => (op.kind === 'link.set' && gone.has(op.set.master ?? '') ? [op.dev] : [])),
  )
  const byId = new Map<string, { devs: Set<string>; texts: Set<string> }>()
  for (const { op, found: texts } of found) {
    const id = diagnosisOf(op, gone)
    const dev = 'dev' in op ? op.dev : 'name' in op ? op.name : ''
    // A missing bridge explains its ports, settings and routes; a missing link is reported by what makes it.
    if (gone.size > 0 && (portsOfGone.has(dev) || ['setting-differs', 'route-missing'].includes(id ?? ''))) continue
    if (id === undefined || (id === 'alias-missing' && texts.includes(`${dev} is missing`))) continue
    const same = byId.get(id) ?? { devs: new Set(), texts: new Set() }
    byId.set(id, same)
    if (dev !== '') same.devs.add(dev)
    for (const text of texts) same.texts.add(text)
  }
  // A link that is down has no routes.
  const down = byId.get('port-differs')?.devs
  if ([...(byId.get('route-missing')?.devs ?? [])].every((dev) => down?.has(dev))) byId.delete('route-missing')
  const all = [...byId].map(([id, { devs, texts }]) => {
    const on = id === 'rules-missing' ? 'nftables' : devs.size === 0 ? 'this node' : few([...devs])
    return findingOf({ id, on, message: few([...texts]) })
  })
  if (accepts.length > 0) all.push(findingOf({ id: 'accept-missing', on: 'another firewall', message: few(accepts) }))
  return all
}

/** Undefined for forwarding, which is a finding of the kernel. */
function diagnosisOf(op: Op, gone: ReadonlySet<string>): string | undefined {
  if ('element' in op || op.kind.startsWith('table.') || op.kind.startsWith('element.')) return 'rules-missing'
  if (/^(?:bucket|redirect|ifb)\./.test(op.kind)) return 'limit-missing'
  if (op.kind === 'sysctl.set') return /ip_forward|all\/forwarding/.test(op.key) ? undefined : 'setting-differs'
  if (op.kind === 'link.set' && op.set.alias !== undefined) return 'alias-missing'
  if (op.kind === 'route.add') return 'route-missing'
  const dev = 'dev' in op ? op.dev : 'name' in op ? op.name : ''
  const isOfBridge = op.kind === 'bridge.add' || gone.has(dev) || !isPodLinkName(dev)
  return isOfBridge ? 'bridge-differs' : 'port-differs'
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

/** Records that were found again, without their namespace. */
function partial({ records }: Node): readonly Finding[] {
  const found = records.filter(({ netns }) => netns.path === '')
  return found.length === 0 ? [] : [findingOf({ id: 'record-partial', on: 'pods', message: few(found.map(podText)) })]
}

/** Pods of other plugins are not compared: the report says so, so that it is no all-clear. */
function skipPodsOfOthers({ records, skip }: Node): void {
  const others = cachedAttachments().filter(({ ifName, containerId, netns }) => {
    const isOurs = records.some(({ id }) => id.containerId === containerId && id.ifName === ifName)
    // containerd attaches `lo` of each pod by a network of its own.
    return ifName !== 'lo' && !isOurs && inodeOf(netns) !== undefined
  })
  const types = [...new Set(others.flatMap((each) => cachedTypes(each).slice(0, 1)))].toSorted()
  const why = `pods of ${types.join(', ')} are not compared with the kernel`
  if (types.length > 0) skip({ group: 'network', why, isPartial: true })
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
