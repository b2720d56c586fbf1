// SPDX-License-Identifier: Apache-2.0
// The keys of the upstream tuning plugin, and the MAC of the pod's interface, whose sources differ
// between the upstream bridge and tuning plugins.

import { defined } from '../cni/defined.ts'
import { CniError } from '../cni/error.ts'
import { configError, type KeyPath, notA, quote } from '../cni/invalid-config.ts'
import type { Invocation } from '../cni/invocation.ts'
import { macProblem, parseMac } from '../cni/mac-address.ts'
import type { TuningConf } from '../config/net-conf.ts'
import type { RawConfig } from '../config/schema.ts'

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
  const repeated = maps.some((map) => map !== undefined) ? repeatedKey(stdin, 'sysctl') : undefined
  if (repeated !== undefined) throw duplicated(['tuning', 'sysctl'], repeated, repeated)
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

function macSources(raw: RawConfig, invocation: Invocation) {
  return {
    env: { text: invocation.args.mac },
    args: { text: raw.args?.cni?.mac, path: ['args', 'cni', 'mac'] },
    runtime: { text: raw.runtimeConfig?.mac, path: ['runtimeConfig', 'mac'] },
  }
}

/** The pod interface's MAC as the upstream bridge chooses it: CNI_ARGS < args.cni < runtimeConfig. */
export function readPodMac(raw: RawConfig, invocation: Invocation): string | undefined {
  const { env, args, runtime } = macSources(raw, invocation)
  return lastMac([env, args, runtime])
}

/**
 * What tuning changes; undefined without a `tuning` key, even `{}`. `args.cni` alone switches nothing on: Multus passes
 * on what a pod's author writes there (`cni-args`), and with the upstream chain it reaches a tuning plugin or nobody.
 * Keys of `sysctl` become paths below /proc/sys, with the interface's name in place of IFNAME.
 * `mac` as the upstream tuning chooses it: config < CNI_ARGS < runtimeConfig < args.cni.
 * `stdin`: the configuration as it came. Throws CniError invalidConfig.
 */
export function readTuning(raw: RawConfig, invocation: Invocation, stdin: string): TuningConf | undefined {
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

const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g

/**
 * The first key that an object under the key `name`, in any case of letters, has twice; undefined for none. `text` must
 * be JSON.
 */
function repeatedKey(text: string, name: string): string | undefined {
  const open: { readonly name: string; readonly keys: Set<string> }[] = []
  let [key, last] = ['', '']
  for (const [word] of text.matchAll(token)) {
    if (word === ':') {
      key = JSON.parse(last) as string
      const object = open.at(-1)
      if (object?.name.toLowerCase() === name && object.keys.has(key)) return key
      object?.keys.add(key)
    } else if (word === '{' || word === '[') {
      open.push({ name: key, keys: new Set() })
      key = ''
    } else if (!word.startsWith('"')) {
      if (word !== ',') open.pop()
      key = ''
    }
    last = word
  }
  return undefined
}
