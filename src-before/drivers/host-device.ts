// SPDX-License-Identifier: Apache-2.0
// mode `host-device`: an existing link of the host is the pod's interface, as the upstream host-device plugin does it
// (docs/design.md, "Upstream host-device"). It is the pod's alone, and comes home under its own name with the DEL.
// The kernel brings a device of the machine home too when the namespace ends; it destroys a virtual one.

import { linkNameProblem, unsafeNameProblem } from '../cni/address.ts'
import { CniError } from '../cni/error.ts'
import { defined } from '../cni/json.ts'
import type { DeviceQuery, HostDeviceNetConf } from '../config/net-conf.ts'
import { subnetRoutes } from '../features/sbr.ts'
import { chainedTuningSpec } from '../features/tuning.ts'
import type { AttachmentKey, AttachmentSpec, DeviceSpec } from '../model/attachment.ts'
import { isPodLinkName, newPodLinkName } from '../model/names.ts'
import type { ObservedLink } from '../model/observed.ts'
import type { Op } from '../model/op.ts'
import type { Around, Decided, Device, Homecoming, InterfaceDriver, OwnParts, Refused } from './driver.ts'
import { inPodAlone, interfacePodOps } from './interface.ts'

const hostDeviceMode = 'host-device'

function partsOf(conf: HostDeviceNetConf, { ips, given, device }: Decided): OwnParts {
  const query = conf.device ?? { key: 'device', value: '' }
  const shared = { routes: given, subnetRoutes: ips.flatMap(subnetRoutes), selfHairpin: false }
  if (device?.driver !== undefined) return { ...shared, ...userspaceParts(conf, query, device.driver) }
  const link = usable(query, device)
  const asked = conf.tuning?.mac ?? conf.mac
  const mtu = conf.tuning?.mtu ?? (conf.mtu === 'auto' ? undefined : conf.mtu)
  const settings = { sysctl: {}, promisc: false, ...conf.tuning, ...defined({ mtu }) }
  const tuning = chainedTuningSpec({ tuning: settings }, asked === link.mac ? undefined : asked, link)
  return {
    ...shared,
    mac: asked ?? link.mac,
    mtu: mtu ?? link.mtu,
    only: { device: deviceSpec(query, link), ...defined({ tuning }) },
  }
}

/** A device that a program of the pod drives itself: there is no link, and nothing to set. */
function userspaceParts(conf: HostDeviceNetConf, { key, value = '' }: DeviceQuery, driver: string) {
  const unmet = (['tuning', 'sbr', 'mac'] as const).find((each) => conf[each] !== undefined)
  if (unmet !== undefined)
    throw unusable(`${key} ${value}`, `has the driver ${driver} and no interface, which "${unmet}" needs`, [
      `leave "${unmet}" out, or bind the device to its network driver`,
    ])
  const device = { name: '', asked: value, mac: '', mtu: 0, up: false, driver }
  return { mac: '', mtu: 0, only: { device, podLinkDown: true } }
}

/** The device as it is now, which DEL brings back. An alias that no batch carries is not brought back. */
function deviceSpec({ value = '' }: DeviceQuery, link: ObservedLink): DeviceSpec {
  const { name, mac, mtu, up, kind, alias = '' } = link
  const kept = /^[\w .:/@+-]+$/.test(alias) ? alias : undefined
  return { name, asked: value, mac, mtu, up, ...defined({ kind, alias: kept }) }
}

/** Moves the device under a name that no link of the pod has. Its alias is its name, as with upstream. */
function hostOps({ key, pod, device, mtu }: AttachmentSpec): readonly Op[] {
  if (pod === undefined || device === undefined || device.driver !== undefined) return []
  const { name: dev, kind } = device
  const why = `move ${dev} into the pod`
  const asWanted = { ifName: pod.name, mac: pod.mac, mtu: pod.mtu ?? mtu, ...(kind ? { of: kind } : {}) }
  return [{ in: 'host', kind: 'device.move', dev, name: newPodLinkName(key), alias: dev, ...asWanted, why }]
}

function nameOps({ key, pod, device }: AttachmentSpec): readonly Op[] {
  if (pod === undefined || device === undefined || device.driver !== undefined) return []
  const { name } = pod
  return [{ in: 'pod', kind: 'link.name', dev: newPodLinkName(key), name, why: `call ${device.name} ${name}` }]
}

/** Where the device is by a look, and the operations that bring it home. */
function homecoming({ key, device }: AttachmentSpec, { host, pod }: Around): Homecoming {
  if (device === undefined || device.driver !== undefined) return { ops: [] }
  const inPod = pod && linkIn(pod, device, [key.ifName, newPodLinkName(key)])
  const there = host.get(device.name)
  if (inPod !== undefined && there !== undefined) return { ops: [], missing: heldText(device, inPod), isHeld: true }
  if (inPod !== undefined)
    return { ops: [...fromPodOps(device, inPod, pod?.has(device.name) === true), ...upOps(device)] }
  if (there !== undefined) return { ops: there.up || !isHome(device, there) ? [] : upOps(device) }
  const stray = linkIn(host, device, [])
  if (stray !== undefined) return { ops: [...renamedOps(device, stray), ...upOps(device)] }
  return { ops: [], missing: missingText(device, key, pod !== undefined), isAwaited: !pod && device.kind === undefined }
}

/** The device among links: by its alias, which a pod may have changed, else by a name that it had. */
function linkIn(
  links: ReadonlyMap<string, ObservedLink>,
  device: DeviceSpec,
  names: readonly string[],
): ObservedLink | undefined {
  const candidates = [...links.values()].filter((link) => isOf(device, link))
  const found =
    candidates.find(({ alias }) => alias === device.name) ?? candidates.find(({ name }) => names.includes(name))
  if (found === undefined || unsafeNameProblem(found.name) === undefined) return found
  // A pod may call it what no batch carries: iproute2 takes its number, too (lib/ll_map.c, ll_idx_a2n).
  return { ...found, name: `if${found.index}` }
}

/** Whether a link may be the device: a pod can make links of any kind, but none without a kind. */
function isOf(device: DeviceSpec, { name, kind }: ObservedLink): boolean {
  return name !== 'lo' && kind === device.kind
}

/** Whether a link of its name is the device: a virtual one may have taken the name of one that has ended. */
function isHome(device: DeviceSpec, there: ObservedLink): boolean {
  return isOf(device, there) && (device.kind === undefined || there.mac === device.mac)
}

/** It gets its name in the pod where that is free: programs of the host then see no other one. */
function fromPodOps(device: DeviceSpec, link: ObservedLink, isNameTaken: boolean): readonly Op[] {
  const { name, alias = '' } = device
  const isRenamed = link.name === name || !isNameTaken
  return [
    ...settingOps('pod', device, link),
    ...(isRenamed && link.name !== name ? [nameOp('pod', link.name, name)] : []),
    {
      in: 'pod',
      kind: 'device.return',
      dev: isRenamed ? name : link.name,
      name,
      alias,
      why: `move ${name} back to the host`,
    },
  ]
}

function renamedOps(device: DeviceSpec, link: ObservedLink): readonly Op[] {
  const { name, alias = '' } = device
  const why = `put the alias of ${name} back`
  return [
    ...settingOps('host', device, link),
    nameOp('host', link.name, name),
    { in: 'host', kind: 'link.alias', dev: name, alias, noLinkLocal: false, why },
  ]
}

/** MAC and MTU as before. Most drivers take neither a MAC nor a name while the link is up. */
function settingOps(place: Op['in'], device: DeviceSpec, { name: dev, mac, mtu, up }: ObservedLink): readonly Op[] {
  const of = { in: place, dev } as const
  return [
    ...(up ? [{ ...of, kind: 'link.down', why: `set ${dev} down` } as const] : []),
    ...(mac === device.mac || device.mac === ''
      ? []
      : [{ ...of, kind: 'link.mac', mac: device.mac, why: `put the MAC of ${device.name} back` } as const]),
    ...(mtu === device.mtu
      ? []
      : [{ ...of, kind: 'link.mtu', mtu: device.mtu, why: `put the MTU of ${device.name} back` } as const]),
  ]
}

function nameOp(place: Op['in'], dev: string, name: string): Op {
  return { in: place, kind: 'link.name', dev, name, why: `call ${dev} ${name} again` }
}

function upOps({ name: dev, up }: DeviceSpec): readonly Op[] {
  return up ? [{ in: 'host', kind: 'link.up', dev, why: `set ${dev} up again` }] : []
}

function heldText({ name }: DeviceSpec, inPod: ObservedLink): string {
  return `${name} is in the pod still, as ${inPod.name}: the host has another interface of its name`
}

function missingText({ name, kind }: DeviceSpec, { ifName }: AttachmentKey, hasPod: boolean): string {
  if (hasPod) return `${name} is neither in the pod nor on the host: the pod or somebody else has removed or moved it`
  if (kind !== undefined) return `${name} is gone: a link of kind ${kind} is destroyed with the namespace that it is in`
  return (
    `${name} is not back on the host: the kernel moves it into its first network namespace, as ${ifName} or dev and ` +
    `a number, when nothing uses the namespace of the pod any more; its alias is ${name}: ip -d link`
  )
}

/** A link that has the name of a device as its alias, as upstream's. */
function specSeen(key: AttachmentKey, link: ObservedLink | undefined): AttachmentSpec | undefined {
  const { alias: name = '', mac = '', mtu = 0, kind } = link ?? {}
  if ((linkNameProblem(name) ?? unsafeNameProblem(name)) !== undefined) return undefined
  const device = { name, asked: '', mac, mtu, up: false, ...defined({ kind }) }
  const nothing = { ips: [], routes: [], defaultRoutes: [], podLinkDown: false, dad: false, selfHairpin: false }
  return { key, mode: hostDeviceMode, mtu, ...nothing, device, isPool: false, cooldownS: 0 }
}

// What can be no pod's interface.

function usable(query: DeviceQuery, device: Device | undefined): ObservedLink {
  const { link, several = [], isUplink, carries = [] } = device ?? {}
  if (several.length > 0)
    throw unusable(nameOf(query), `has several interfaces: ${several.join(', ')}`, ['name one of them: "device"'])
  if (link === undefined) throw missing(query, device?.strayed)
  const { name, master } = link
  const why =
    (name === 'lo' && ['is the loopback interface', 'every pod has its own; use an interface of the machine']) ||
    (isPodLinkName(name) && ['is the end of a pod of trestle', 'use an interface of the machine']) ||
    (isUplink && ['has the default route of the node, which would lose its network', 'use another interface']) ||
    (master !== undefined && [`is a port of ${master}`, `use mode bridge, or ip link set ${name} nomaster`]) ||
    (carries.length > 0 && [`carries ${carries.join(', ')}, which would go with it`, 'remove these first, or use one'])
  if (why) throw unusable(name, why[0] ?? '', why.slice(1))
  return link
}

function nameOf({ key, value = '' }: DeviceQuery): string {
  return key === 'device' ? value : `${key} ${value}`
}

function missing(query: DeviceQuery, strayed: string | undefined): CniError {
  const { key, value = '' } = query
  const back = strayed === undefined ? '' : `${strayed} came from there: ip link set ${strayed} name ${value}; `
  return new CniError('device-not-there', `${key}: the node has no interface for ${value}`, {
    details: `${back}see what it has: ip -br link; a device of another driver or namespace is not on the list`,
  })
}

function unusable(what: string, why: string, cures: readonly string[], cause?: Error): CniError {
  return new CniError('device-unusable', `mode ${hostDeviceMode}: ${what} ${why}`, {
    details: cures.join('\n'),
    ...(cause && { cause }),
  })
}

/** Another attachment has the device, or has put its interface on it. `holder`: in words. */
export function deviceInUse(query: DeviceQuery, holder: string): CniError {
  return new CniError('device-in-use', `${query.key}: ${query.value} is in use by ${holder}`, {
    details: 'one pod at a time can have a device: remove that pod, or give this one another device',
  })
}

/** Whether the attachment has the device that is asked for, or a macvlan on `link`. */
export function hasDevice(
  { device, macvlan }: Pick<AttachmentSpec, 'device' | 'macvlan'>,
  { value }: DeviceQuery,
  link: ObservedLink | undefined,
): boolean {
  if (link !== undefined) return macvlan?.master === link.name
  return device !== undefined && [device.name, device.asked, device.mac].some((each) => each !== '' && each === value)
}

/** The kernel keeps some links where they are: bridges, tunnels' own, Wi-Fi. Another call may have moved it. */
function refusalOf(_: AttachmentSpec, { op, reason, error }: Refused): CniError | undefined {
  if (op.kind !== 'device.move' || reason === 'denied') return undefined
  const details = error instanceof CniError ? [error.details ?? ''] : []
  if (reason === 'absent') return missing({ key: 'device', value: op.dev }, undefined)
  return unusable(op.dev, 'can be in no pod: the kernel keeps it in its namespace', details, error)
}

export const hostDevice: InterfaceDriver<HostDeviceNetConf> = {
  ...inPodAlone,
  hostOps,
  nameOps,
  podOps: (spec) => interfacePodOps(spec, false),
  homecoming,
  specSeen,
  refusalOf,
  deviceOf: ({ device }) => device,
  partsOf,
}
