// SPDX-License-Identifier: Apache-2.0
// tuning: sysctls of the pod and settings of its interface, with the keys of the reference tuning plugin; and the MAC,
// whose sources differ between the reference bridge and tuning plugins.

import { macProblem, parseMac } from '../cni/addresses.ts'
import type { Call } from '../cni/call.ts'
import { CniError, Code, configError, type KeyPath, notA, quote } from '../cni/errors.ts'
import { asObject, defined, type JsonObject } from '../cni/json.ts'
import type { OwnConf, TuningConf } from '../config/network-conf.ts'
import type { RawConfig } from '../config/schema.ts'
import type { LinkSettings, Spec, TuningSpec } from '../drivers/spec.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import { type Op, setLink, setSysctl } from '../kernel/operation.ts'
import type { Feature } from './feature.ts'

type Sources = Pick<RawConfig, 'tuning' | 'args' | 'runtimeConfig'>
type SysctlMap = Readonly<Record<string, string>>

/**
 * The configuration without the keys of `args.cni` that only tuning reads, where there is no `tuning` key: what is for
 * nobody is ignored, right or wrong. Multus passes on there what a pod's author writes.
 */
export function withoutUnreadArgs(root: JsonObject): JsonObject {
  const args = asObject(root['args'])
  if (root['tuning'] !== undefined || args['cni'] === undefined) return root
  const { ips, mac } = asObject(args['cni'])
  return { ...root, args: { ...args, cni: defined({ ips, mac }) } }
}

/** What tuning changes; undefined without a `tuning` key. `stdin`: the configuration as it came. Throws CniError 7. */
export function readTuning(raw: Sources, call: Call, stdin: string): TuningConf | undefined {
  const { tuning } = raw
  if (tuning === undefined) return undefined
  const cni = raw.args?.cni ?? {}
  refuseRepeated(stdin)
  const [env, args, runtime] = macSources(raw, call)
  return {
    sysctl: {
      ...readSysctls(tuning.sysctl, call.ifName, ['tuning', 'sysctl']),
      ...readSysctls(cni.sysctl, call.ifName, ['args', 'cni', 'sysctl']),
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

/** The reference refuses a key that is there twice; JSON.parse hides that where both have one spelling. */
function refuseRepeated(stdin: string): void {
  for (const [, body = ''] of stdin.matchAll(/"sysctl"\s*:\s*\{([^{}]*)\}/gi)) {
    const seen = new Set<string>()
    for (const [, key = ''] of body.matchAll(/"((?:[^"\\]|\\.)*)"\s*:/g)) {
      if (seen.has(key)) throw duplicated(['tuning', 'sysctl'], key, key)
      seen.add(key)
    }
  }
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

/** A key as its path below /proc/sys: dots or slashes, below `net`. IFNAME stands for the pod's interface. */
function sysctlPath(key: string, ifName: string, path: KeyPath): string {
  const parts = key.split(/[./]+/).filter(Boolean)
  const isSafe = !key.includes('..') && parts.every((part) => /^[A-Za-z0-9_@:+-]+$/.test(part))
  if (parts[0] !== 'net' || parts.length < 3 || !isSafe) {
    const hint = 'use a key below net, like "net.ipv4.conf.IFNAME.arp_filter"'
    throw configError(path, `invalid net sysctl key: ${quote(key)}`, { id: 'sysctl-key', hint })
  }
  return parts.join('/').replace('IFNAME', () => ifName || 'IFNAME')
}

function duplicated(path: KeyPath, key: string, once: string): CniError {
  const message = `duplicated sysctl keys are not allowed: ${quote(key)}`
  return configError(path, message, { id: 'sysctl-repeated', hint: `use ${once} once` })
}

/**
 * Refuses a sysctl that switches IPv6 off where the pod gets an IPv6 address: the ADD would answer with an address that
 * is not there. `addresses`: the key that gives it. Throws CniError 7.
 */
export function refuseDisabledIpv6({ sysctl }: Pick<TuningConf, 'sysctl'>, ifName: string, addresses: string): void {
  for (const name of ['all', 'default', ifName]) {
    if (sysctl[`net/ipv6/conf/${name}/disable_ipv6`]?.trim() !== '1') continue
    const message = `net.ipv6.conf.${name}.disable_ipv6 is 1, and ${addresses} gives the pod an IPv6 address`
    const hint = `leave the sysctl out, or the IPv6 range of ${addresses}`
    throw configError(['tuning', 'sysctl'], message, { id: 'sysctl-disables-ipv6', hint })
  }
}

/** `path`: absent for CNI_ARGS. */
type MacSource = { readonly text: string | undefined; readonly path?: KeyPath }

function macSources(raw: Sources, call: Call): readonly [MacSource, MacSource, MacSource] {
  const inArgs = { text: raw.args?.cni?.mac, path: ['args', 'cni', 'mac'] }
  return [{ text: call.args.mac }, inArgs, { text: raw.runtimeConfig?.mac, path: ['runtimeConfig', 'mac'] }]
}

/** The MAC of the last source that has one; every source is checked. */
function lastMac(sources: readonly MacSource[]): string | undefined {
  let last: string | undefined
  for (const { text, path } of sources) {
    if (text === undefined || text === '') continue
    const problem = macProblem(text)
    if (problem === undefined) last = parseMac(text)
    else if (path !== undefined) throw notA(path, text, { id: 'mac-address', ...problem })
    else {
      const message = `CNI_ARGS MAC: ${quote(text)} is not ${problem.what}`
      throw new CniError(Code.invalidEnvironment, 'cni-args-invalid', message, { details: problem.hint })
    }
  }
  return last
}

/**
 * The MAC as the reference bridge chooses it: CNI_ARGS < args.cni < runtimeConfig. On another plugin's interface only
 * the runtime's counts: a pod's author may write the others.
 */
export function readMac(raw: Sources, call: Call, isChained: boolean): string | undefined {
  const sources = macSources(raw, call)
  const mac = lastMac(sources)
  return isChained ? lastMac([sources[2]]) : mac
}

/** Of an interface that trestle makes: MAC and MTU are part of making it. */
export function tuningOf({ tuning }: Pick<OwnConf, 'tuning'>): TuningSpec | undefined {
  if (tuning === undefined) return undefined
  const { sysctl, promisc, txQLen, allmulti } = tuning
  return { sysctl, settings: defined({ promisc: promisc || undefined, txQLen, allmulti }) }
}

/** The same for an interface that is not ours, with what DEL puts back. `mac`: undefined where it is right already. */
export function tuningOfOther(
  { tuning }: Pick<OwnConf, 'tuning'>,
  mac: string | undefined,
  link: ObservedLink,
): TuningSpec | undefined {
  const { sysctl = {}, promisc = false, mtu, txQLen, allmulti } = tuning ?? {}
  const settings: LinkSettings = defined({ mac, mtu, promisc: promisc || undefined, txQLen, allmulti })
  if (Object.keys(settings).length === 0 && Object.keys(sysctl).length === 0) return undefined
  const before: LinkSettings = defined({
    mac: mac === undefined ? undefined : link.mac,
    mtu: mtu === undefined ? undefined : link.mtu,
    promisc: promisc ? link.promisc : undefined,
    allmulti: allmulti === undefined ? undefined : link.allmulti,
    txQLen: txQLen === undefined ? undefined : link.txQLen,
  })
  return { sysctl, settings, before }
}

function settingOps(settings: LinkSettings, dev: string): readonly Op[] {
  if (Object.keys(settings).length === 0) return []
  return [setLink('pod', dev, settings, `set ${Object.keys(settings).join(', ')} of ${dev}`)]
}

export const tuning: Feature = {
  podLinkOps: ({ tuning: own, id }) => (own === undefined ? [] : settingOps(own.settings, id.ifName)),
  // A process of their own, after the interface that they may name.
  ops: ({ tuning: own }) =>
    Object.entries(own?.sysctl ?? {}).map(([key, value]) =>
      setSysctl('pod', key, value, 'last', `set ${key.replaceAll('/', '.')} in the pod`),
    ),
  // Sysctls stay, as with the reference: the pod may have changed them since.
  undo: ({ tuning: own, id, chained }: Spec) =>
    own?.before === undefined || chained === undefined ? [] : settingOps(own.before, id.ifName),
}
