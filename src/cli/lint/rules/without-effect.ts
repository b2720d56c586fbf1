// SPDX-License-Identifier: Apache-2.0
// Keys of trestle that are accepted and do nothing: for iptables, or in this mode.

import { lookUp } from '../../../cni/json/json-keys.ts'
import { isObject } from '../../../cni/json/json-object.ts'
import type { Mode } from '../../../cni/model/net-conf.ts'
import { modeOf } from '../../../plan/modes/modes.ts'
import type { Found } from '../checks/finding.ts'
import { keyPathOf } from '../json/key-path.ts'
import type { PluginEntry } from './list.ts'

/** In every mode, with the reason. */
const everywhere: Readonly<Record<string, string>> = {
  log: 'this version does not log',
  record: 'this version does not record',
  ipMasqBackend: 'trestle always uses nftables',
  'portmap.backend': 'trestle always uses nftables',
  'portmap.markMasqBit': 'trestle marks no packets',
  'portmap.externalSetMarkChain': 'trestle marks no packets',
  'firewall.backend': 'trestle always uses nftables',
  'firewall.iptablesAdminChainName': 'trestle has no chain in iptables',
  'tuning.dataDir': 'what was there before is kept in /run/trestle',
}

/** Keys of `args.cni` that are for tuning; `mac` also is the interface's own. */
const tuningArgs = ['sysctl', 'promisc', 'mtu', 'txQLen', 'allmulti'].map((key) => ['args', 'cni', key])

/** What it reports of one plugin that runs in `mode`. A key that asks for nothing (false, 0, "") is no finding. */
export function keysWithoutEffect({ conf, steps }: PluginEntry, mode: Mode): readonly Found[] {
  const found = (path: readonly string[], reason: string): readonly Found[] => {
    const value = path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), conf)
    if ([undefined, null, false, 0, '', 'off'].includes(value as never)) return []
    const message = `${keyPathOf(path)} has no effect: ${reason}`
    return [{ id: 'no-effect', message, steps: [...steps, ...path] }]
  }
  const isTuned = isObject(lookUp(conf, 'tuning')) || modeOf({ mode }).unreadKeys.includes('tuning')
  const untuned = isTuned ? [] : tuningArgs
  return [
    ...untuned.flatMap((path) => found(path, 'args.cni changes sysctls and link settings only beside "tuning": {}')),
    ...Object.entries(everywhere).flatMap(([path, reason]) => found(path.split('.'), reason)),
    ...modeOf({ mode }).unreadKeys.flatMap((key) => found(key.split('.'), `with mode ${mode} it is not read`)),
  ]
}
