// SPDX-License-Identifier: Apache-2.0
// mode `host-device`: an existing link of the host becomes the pod's interface, and comes home under its own name with the
// DEL. When the namespace ends first, the kernel brings a device of the machine home and destroys a virtual one.

import { unsafeNameProblem } from '../cni/addresses.ts'
import { CniError, Code } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { DeviceQuery, HostDeviceConf } from '../config/network-conf.ts'
import { tuningOfOther } from '../features/tuning.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import { type Op, setLink } from '../kernel/operation.ts'
import type { Decided, Device, Driver, Parts } from './driver.ts'
import { inPodAlone } from './interface.ts'
import { isPodLinkName, temporaryLinkName } from './names.ts'
import type { AttachmentId, DeviceSpec, LinkSettings, Spec } from './spec.ts'

function partsOf(conf: HostDeviceConf, { id, routes, defaultRoutes, device }: Decided): Parts {
  const query = conf.device ?? { key: 'device', value: '' }
  const shared = { routes, defaultRoutes }
  if (device?.driver !== undefined) return { ...shared, ...partsOfProgramDevice(conf, query, device.driver) }
  const link = usableDevice(query, device)
  const asked = conf.tuning?.mac ?? conf.mac
  const mtu = conf.tuning?.mtu ?? (conf.mtu === 'auto' ? undefined : conf.mtu)
  const settings = { sysctl: {}, promisc: false, ...conf.tuning, ...defined({ mtu }) }
  const tuning = tuningOfOther({ tuning: settings }, asked === link.mac ? undefined : asked, link)
  // An alias that no batch carries is not brought back.
  const alias = /^[\w .:/@+-]+$/.test(link.alias ?? '') ? link.alias : undefined
  const { name, mac, up, kind } = link
  return {
    ...shared,
    pod: { name: id.ifName, mac: asked ?? mac, mtu: mtu ?? link.mtu },
    device: { name, mac, mtu: link.mtu, up, ...defined({ kind, alias }) },
    ...defined({ tuning }),
  }
}

/** A device that a program of the pod drives itself: there is no link, and nothing to set. */
function partsOfProgramDevice(conf: HostDeviceConf, { key, value = '' }: DeviceQuery, driver: string) {
  const unmet = (['tuning', 'sbr', 'mac'] as const).find((each) => conf[each] !== undefined)
  if (unmet !== undefined) {
    const cure = `leave "${unmet}" out, or bind the device to its network driver`
    throw unusable(`${key} ${value}`, `has the driver ${driver} and no interface, which "${unmet}" needs`, cure)
  }
  return { device: { name: value, mac: '', mtu: 0, up: false, driver }, isLeftDown: true }
}

/** Moves the device under a name that no link of the pod has; its alias is its name, as with the reference. */
function hostOps({ id, device }: Spec): readonly Op[] {
  if (device === undefined || device.driver !== undefined) return []
  const { name: dev } = device
  const set = { netns: 'pod', name: temporaryLinkName(id), alias: dev } as const
  return [setLink('host', dev, set, `move ${dev} into the pod`)]
}

function nameOps({ id, device }: Spec): readonly Op[] {
  if (device === undefined || device.driver !== undefined) return []
  const dev = temporaryLinkName(id)
  return [setLink('pod', dev, { name: id.ifName }, `call ${device.name} ${id.ifName}`)]
}

/** How the device gets home. `missing`: it is in neither namespace, or held; `isAwaited`: the kernel is to bring it. */
export interface Homecoming {
  readonly ops: readonly Op[]
  readonly missing?: string
  /** It is in the pod and cannot come home now. */
  readonly isStuck?: true
  readonly isAwaited?: boolean
}

type Links = ReadonlyMap<string, ObservedLink>

/** By a look at the links of the host and of the pod, whose namespace may be gone. */
export function homecomingOf(
  { id, device, tuning }: Spec & { readonly device: DeviceSpec },
  host: Links,
  pod: Links | undefined,
): Homecoming {
  const before = tuning?.before ?? {}
  const inPod = pod && findDeviceLink(pod, device, [id.ifName, temporaryLinkName(id)])
  const atHome = host.get(device.name)
  if (inPod !== undefined && atHome !== undefined) {
    const missing = `${device.name} is in the pod still, as ${inPod.name}: the host has another interface of its name`
    return { ops: [], isStuck: true, missing }
  }
  if (inPod !== undefined)
    return { ops: [...opsInPod(device, inPod, pod?.has(device.name) === true, before), ...upOps(device)] }
  if (atHome !== undefined) return { ops: atHome.up || !isDevice(device, atHome) ? [] : upOps(device) }
  const stray = findDeviceLink(host, device, [])
  if (stray === undefined) {
    const isAwaited = pod === undefined && device.kind === undefined
    return { ops: [], missing: missingText(device, id, pod !== undefined), isAwaited }
  }
  return { ops: [...restoreOps('host', device, stray, before), renameOp('host', stray.name, device), ...upOps(device)] }
}

/** By its alias, which a pod may have changed, else by a name that it had. A pod can make no link without a kind. */
function findDeviceLink(links: Links, device: DeviceSpec, names: readonly string[]): ObservedLink | undefined {
  const candidates = [...links.values()].filter((link) => isDevice(device, link))
  const found =
    candidates.find(({ alias }) => alias === device.name) ?? candidates.find(({ name }) => names.includes(name))
  if (found === undefined || unsafeNameProblem(found.name) === undefined) return found
  // A pod may call it what no batch carries: iproute2 takes its number, too (lib/ll_map.c, ll_idx_a2n).
  return { ...found, name: `if${found.index}` }
}

function isDevice(device: DeviceSpec, { name, kind, mac, alias }: ObservedLink): boolean {
  // Without a record its alias is all that is known.
  if (device.mac === '') return alias === device.name
  if (name === 'lo' || kind !== device.kind) return false
  // A virtual link may have taken the name of one that has ended.
  return kind === undefined || name !== device.name || mac === device.mac
}

/** It gets its name in the pod where that is free: programs of the host then see no other one. */
function opsInPod(device: DeviceSpec, link: ObservedLink, isNameTaken: boolean, before: LinkSettings): readonly Op[] {
  const isRenamed = link.name === device.name || !isNameTaken
  const dev = isRenamed ? device.name : link.name
  const set = { netns: 'host', name: device.name, alias: device.alias ?? '' } as const
  return [
    ...restoreOps('pod', device, link, before),
    ...(isRenamed && link.name !== device.name ? [renameOp('pod', link.name, device, link.alias)] : []),
    setLink('pod', dev, set, `move ${device.name} back to the host`),
  ]
}

function restoreOps(place: Op['place'], device: DeviceSpec, link: ObservedLink, before: LinkSettings): readonly Op[] {
  const { name: dev, mac, mtu, up } = link
  const { promisc, allmulti, txQLen } = before
  const set = {
    ...defined({ promisc, allmulti, txQLen }),
    ...(up ? { up: false } : {}),
    ...(mac === device.mac || device.mac === '' ? {} : { mac: device.mac }),
    ...(mtu === device.mtu || device.mtu === 0 ? {} : { mtu: device.mtu }),
  }
  if (Object.keys(set).length === 0) return []
  return [setLink(place, dev, set, `put the settings of ${device.name} back`)]
}

function renameOp(place: Op['place'], dev: string, device: DeviceSpec, alias = device.alias ?? ''): Op {
  return setLink(place, dev, { name: device.name, alias }, `call ${dev} ${device.name} again`)
}

function upOps({ name: dev, up }: DeviceSpec): readonly Op[] {
  return up ? [setLink('host', dev, { up: true }, `set ${dev} up again`)] : []
}

function missingText({ name, kind }: DeviceSpec, { ifName }: AttachmentId, hasPod: boolean): string {
  if (hasPod) return `${name} is neither in the pod nor on the host: the pod or somebody else has removed or moved it`
  if (kind !== undefined) return `${name} is gone: a link of kind ${kind} is destroyed with the namespace that it is in`
  const when = "when nothing uses the pod's namespace any more"
  return `${name} is not back on the host: ${when} the kernel brings it, as ${ifName} or dev and a number, alias ${name}`
}

function usableDevice(query: DeviceQuery, device: Device | undefined): ObservedLink {
  const { link, several = [], isUplink, carries = [] } = device ?? {}
  const asked = query.key === 'device' ? (query.value ?? '') : `${query.key} ${query.value ?? ''}`
  if (several.length > 0)
    throw unusable(asked, `has several interfaces: ${several.join(', ')}`, 'name one of them: "device"')
  if (link === undefined) throw missingDevice(query)
  const { name, master } = link
  const other = 'use another interface of the machine'
  if (name === 'lo') throw unusable(name, 'is the loopback interface', other)
  if (isPodLinkName(name)) throw unusable(name, 'is the end of a pod of trestle', other)
  if (isUplink) throw unusable(name, 'has the default route of the node, which would lose its network', other)
  if (master !== undefined)
    throw unusable(name, `is a port of ${master}`, `ip link set ${name} nomaster, or mode bridge`)
  if (carries.length === 0) return link
  throw unusable(name, `carries ${carries.join(', ')}, which would go with it`, 'remove these first, or use one')
}

function missingDevice({ key, value = '' }: DeviceQuery): CniError {
  return new CniError(Code.invalidConfig, 'device-not-there', `${key}: the node has no interface for ${value}`, {
    details: `see what it has: ip -d link; one that came back from a pod under another name has the alias ${value}`,
  })
}

function unusable(what: string, why: string, cure: string, cause?: Error): CniError {
  const message = `mode host-device: ${what} ${why}`
  return new CniError(Code.invalidConfig, 'device-unusable', message, { details: cure, cause })
}

export const hostDevice: Driver<HostDeviceConf> = {
  ...inPodAlone,
  deviceOf: ({ device }) => device,
  partsOf,
  hostOps,
  nameOps,
  // The kernel keeps some links where they are: bridges, tunnels' own, Wi-Fi.
  refusalOf: (_, { op, reason, error }) => {
    if (op.kind !== 'link.set' || op.set.netns !== 'pod' || reason === 'denied') return undefined
    if (reason === 'absent') return missingDevice({ key: 'device', value: op.dev })
    return unusable(op.dev, 'can be in no pod: the kernel keeps it in its namespace', error.details ?? '', error)
  },
}
