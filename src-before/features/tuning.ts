// SPDX-License-Identifier: Apache-2.0
// What the upstream tuning plugin sets on the pod's interface, as operations (docs/design.md, "Upstream tuning").

import type * as z from 'zod/mini'
import { placesOf } from '../../src/commands/lint/json-places.ts'
import { macProblem, parseMac } from '../cni/address.ts'
import type { JsonObject } from '../cni/config-head.ts'
import { CniError, configError, type KeyPath, notA, quote } from '../cni/error.ts'
import { flag, group, isMtu, MAX_MTU, MIN_MTU, text, textMap, typedField, uint32 } from '../cni/fields.ts'
import type { Invocation } from '../cni/invocation.ts'
import { asObject, defined } from '../cni/json.ts'
import type { LinkSettings, TuningSpec } from '../model/attachment.ts'
import type { ObservedLink } from '../model/observed.ts'
import type { Op } from '../model/op.ts'
import { type Feature, onPodLink } from './feature.ts'

/** Keys of the upstream tuning plugin that `args.cni` may give as well. */
export const argsTuningKeys = {
  sysctl: textMap,
  mac: text,
  promisc: flag,
  mtu: typedField<number>(
    'number',
    { what: 'an MTU', hint: `use a number from ${MIN_MTU} to ${MAX_MTU}` },
    (value) => value === 0 || isMtu(value),
  ),
  txQLen: uint32,
  allmulti: flag,
}

export const tuningKeys = group({ ...argsTuningKeys, dataDir: text })

type RawTuning = z.output<typeof tuningKeys>

/** `mac` is the interface's own as well. */
export const keysOfTuningAlone = Object.keys(argsTuningKeys).filter((key) => key !== 'mac')

/**
 * A configuration without the keys of `args.cni` that only tuning reads, where there is no `tuning` key: data that is
 * for nobody is ignored, right or wrong (CONVENTIONS.md).
 */
export function withoutUnreadArgs(root: JsonObject): JsonObject {
  const args = asObject(root['args'])
  if (root['tuning'] !== undefined || args['cni'] === undefined) return root
  const cni = Object.entries(asObject(args['cni'])).filter(([key]) => !keysOfTuningAlone.includes(key))
  return { ...root, args: { ...args, cni: Object.fromEntries(cni) } }
}

interface RawSources {
  readonly tuning?: RawTuning | undefined
  readonly args?: { readonly cni?: Omit<RawTuning, 'dataDir'> | undefined } | undefined
  readonly runtimeConfig?: { readonly mac?: string | undefined } | undefined
}

export interface TuningConf {
  readonly sysctl: Readonly<Record<string, string>>
  readonly mac?: string
  readonly promisc: boolean
  readonly mtu?: number
  readonly txQLen?: number
  readonly allmulti?: boolean
}

interface Tuned {
  readonly tuning?: TuningConf
}

/** The settings that are made after the interface; its MAC is part of its creation. Undefined where there are none. */
export function tuningSpec({ tuning }: Tuned): TuningSpec | undefined {
  if (tuning === undefined) return undefined
  const { txQLen, allmulti, promisc } = tuning
  return {
    sysctl: tuning.sysctl,
    promisc,
    ...(txQLen === undefined ? {} : { txQLen }),
    ...(allmulti === undefined ? {} : { allmulti }),
  }
}

/** The same for an interface that is not ours (`mac`: wanted), with what is to be put back later. */
export function chainedTuningSpec(conf: Tuned, mac: string | undefined, link: ObservedLink): TuningSpec | undefined {
  const made = tuningSpec(conf) ?? { sysctl: {}, promisc: false }
  const mtu = conf.tuning?.mtu
  const before: LinkSettings = {
    ...(mac === undefined ? {} : { mac: link.mac }),
    ...(mtu === undefined ? {} : { mtu: link.mtu }),
    ...(made.promisc ? { promisc: link.promisc } : {}),
    ...(made.allmulti === undefined ? {} : { allmulti: link.allmulti }),
    // ip does not print a queue length of 0 (iproute2 ip/ipaddress.c, print_queuelen).
    ...(made.txQLen === undefined ? {} : { txQLen: link.txqlen ?? 0 }),
  }
  const isEmpty = Object.keys(before).length === 0 && Object.keys(made.sysctl).length === 0
  if (isEmpty) return undefined
  return { ...made, ...(mac === undefined ? {} : { mac }), ...(mtu === undefined ? {} : { mtu }), before }
}

/** Puts the link back as it was. Sysctls stay, as with upstream: they may have been the pod's own since. */
export function untunedLinkOps({ before = {} }: TuningSpec, dev: string): readonly Op[] {
  const { promisc, ...rest } = before
  const off: readonly Op[] =
    promisc === false ? [{ in: 'pod', kind: 'link.promisc', dev, on: false, why: `set ${dev} not promiscuous` }] : []
  return [...off, ...tunedLinkOps({ ...rest, promisc: false }, dev)]
}

/** Link settings, in the pod's batch; MAC and MTU of an interface of ours are part of its creation. */
export function tunedLinkOps(spec: LinkSettings, dev: string): readonly Op[] {
  const { txQLen, allmulti, promisc, mac, mtu } = spec
  return [
    ...(mac === undefined ? [] : [{ in: 'pod', kind: 'link.mac', dev, mac, why: `set the MAC of ${dev}` } as const]),
    ...(mtu === undefined ? [] : [{ in: 'pod', kind: 'link.mtu', dev, mtu, why: `set the MTU of ${dev}` } as const]),
    ...(promisc ? [{ in: 'pod', kind: 'link.promisc', dev, why: `set ${dev} promiscuous` } as const] : []),
    ...(allmulti === undefined
      ? []
      : [{ in: 'pod', kind: 'link.allmulti', dev, on: allmulti, why: `set allmulti of ${dev}` } as const]),
    ...(txQLen === undefined
      ? []
      : [{ in: 'pod', kind: 'link.txqlen', dev, length: txQLen, why: `set the queue length of ${dev}` } as const]),
  ]
}

/** Sysctls of the pod's namespace: a process of their own. */
export function tunedSysctlOps(spec: TuningSpec): readonly Op[] {
  return Object.entries(spec.sysctl).map(([key, value]) => ({
    in: 'pod',
    kind: 'sysctl.pod',
    key,
    value,
    why: `set ${key.replaceAll('/', '.')} in the pod`,
  }))
}

export const tuning: Feature = {
  podLinkOps: (spec) => onPodLink(spec, spec.tuning, tunedLinkOps),
  podSysctlOps: ({ tuning: settings }) => (settings === undefined ? [] : tunedSysctlOps(settings)),
  podTeardownOps: (spec) => onPodLink(spec, spec.tuning, untunedLinkOps),
}

// The keys of the upstream tuning plugin, and the MAC of the pod's interface, whose sources differ
// between the upstream bridge and tuning plugins.

type SysctlMap = Readonly<Record<string, string>>

/** A key as its path below /proc/sys. IFNAME stands for the pod's interface (upstream tuning, main.go). */
function sysctlPath(key: string, ifName: string, path: KeyPath): string {
  const parts = key
    .replaceAll('.', '/')
    .split('/')
    .filter((part) => part !== '')
  const isSafe = !key.includes('..') && parts.every((part) => /^[A-Za-z0-9_@:+-]+$/.test(part))
  if (parts[0] !== 'net' || parts.length < 3 || !isSafe) {
    const hint = 'use a key below net, like "net.ipv4.conf.IFNAME.arp_filter"'
    throw configError(path, `invalid net sysctl key: ${quote(key)}`, { id: 'sysctl-key', hint })
  }
  return parts.join('/').replace('IFNAME', () => ifName || 'IFNAME')
}

/** Upstream refuses a key that is there twice, also in the same spelling, which JSON.parse hides. */
function refuseRepeated(maps: readonly (SysctlMap | undefined)[], stdin: string): void {
  if (maps.every((map) => map === undefined)) return
  const isSysctl = ({ steps }: { steps: KeyPath }) => String(steps.at(-2)).toLowerCase() === 'sysctl'
  const key = placesOf(stdin).duplicates.find(isSysctl)?.steps.at(-1)
  if (key !== undefined) throw duplicated(['tuning', 'sysctl'], String(key), String(key))
}

function duplicated(path: KeyPath, key: string, once: string): CniError {
  const more = { id: 'sysctl-repeated', hint: `use ${once} once` } as const
  return configError(path, `duplicated sysctl keys are not allowed: ${quote(key)}`, more)
}

function readSysctls(raw: SysctlMap | undefined, ifName: string, path: KeyPath): SysctlMap {
  const sysctl = new Map<string, string>()
  for (const [key, value] of Object.entries(raw ?? {})) {
    const file = sysctlPath(key, ifName, path)
    if (sysctl.has(file)) throw duplicated(path, key, file)
    sysctl.set(file, value)
  }
  return Object.fromEntries(sysctl)
}

interface MacSource {
  readonly text: string | undefined
  /** The key it is under; none in CNI_ARGS. */
  readonly path?: KeyPath
}

function macOf({ text, path }: MacSource): string | undefined {
  if (text === undefined || text === '') return undefined
  const problem = macProblem(text)
  if (problem === undefined) return parseMac(text)
  const { what, hint } = problem
  if (path !== undefined) throw notA(path, text, { id: 'mac-address', what, hint })
  throw new CniError('cni-args-invalid', `CNI_ARGS MAC: ${quote(text)} is not ${what}`, { details: hint })
}

/** The MAC of the last source that has one. Every source is checked. */
function lastMac(sources: readonly MacSource[]): string | undefined {
  return sources.map(macOf).findLast((mac) => mac !== undefined)
}

function macSources(raw: RawSources, invocation: Invocation) {
  return {
    env: { text: invocation.args.mac },
    args: { text: raw.args?.cni?.mac, path: ['args', 'cni', 'mac'] },
    runtime: { text: raw.runtimeConfig?.mac, path: ['runtimeConfig', 'mac'] },
  }
}

/**
 * The pod interface's MAC as the upstream bridge chooses it: CNI_ARGS < args.cni < runtimeConfig. `isChained`: another
 * plugin made the interface, whose MAC only the runtime may change: a pod's author may write the others (Multus).
 */
export function readPodMac(raw: RawSources, invocation: Invocation, isChained: boolean): string | undefined {
  const { env, args, runtime } = macSources(raw, invocation)
  const mac = lastMac([env, args, runtime])
  return isChained ? lastMac([runtime]) : mac
}

/**
 * What tuning changes; undefined without a `tuning` key, even `{}`. `args.cni` alone switches nothing on: Multus passes
 * on what a pod's author writes there (`cni-args`), and with the upstream chain it reaches a tuning plugin or nobody.
 * Keys of `sysctl` become paths below /proc/sys, with the interface's name in place of IFNAME.
 * `mac` as the upstream tuning chooses it: config < CNI_ARGS < runtimeConfig < args.cni.
 * `stdin`: the configuration as it came. Throws CniError invalidConfig.
 */
export function readTuning(raw: RawSources, invocation: Invocation, stdin: string): TuningConf | undefined {
  const { tuning } = raw
  if (tuning === undefined) return undefined
  const cni = raw.args?.cni ?? {}
  const { env, args, runtime } = macSources(raw, invocation)
  const { ifName } = invocation
  refuseRepeated([tuning.sysctl, cni.sysctl], stdin)
  return {
    sysctl: {
      ...readSysctls(tuning.sysctl, ifName, ['tuning', 'sysctl']),
      ...readSysctls(cni.sysctl, ifName, ['args', 'cni', 'sysctl']),
    },
    promisc: cni.promisc ?? tuning.promisc ?? false,
    ...defined({
      mac: lastMac([{ text: tuning.mac, path: ['tuning', 'mac'] }, env, runtime, args]),
      mtu: (cni.mtu ?? tuning.mtu) || undefined,
      txQLen: cni.txQLen ?? tuning.txQLen,
      allmulti: cni.allmulti ?? tuning.allmulti,
    }),
  }
}
