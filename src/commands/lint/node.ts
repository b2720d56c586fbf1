// SPDX-License-Identifier: Apache-2.0
// What an ADD of a configuration would refuse on this node. Examined by root where the plugins are installed: a
// configuration for another machine is not compared.

import { spawnSync } from 'node:child_process'
import { readCall } from '../../cni/call.ts'
import { CniError } from '../../cni/errors.ts'
import { readConfig } from '../../config/read-config.ts'
import { driverOf, makesInterface } from '../../drivers/drivers.ts'
import { readDocuments, readLinks } from '../../kernel/look.ts'
import type { ObservedLink } from '../../kernel/observed.ts'
import { toolPath } from '../../process/runner.ts'
import { isDead, readNetwork, recordsOf } from '../../state/records.ts'
import { decideNetwork } from '../../verbs/decide-network.ts'
import { orElse } from '../if-there.ts'
import type { PluginEntry } from '../network-list.ts'
import { asOwn } from '../own-type.ts'
import type { Found } from './finding.ts'
import type { NetworkHead } from './own-plugin.ts'

export type NodeLinks = ReadonlyMap<string, ObservedLink>

/** The links of the node, read once; undefined if they cannot be seen, or for other users than root. */
export function openNode(): () => NodeLinks | undefined {
  let seen: NodeLinks | undefined | 'not yet' = 'not yet'
  return () => {
    if (seen === 'not yet') seen = process.geteuid?.() === 0 ? hostLinks() : undefined
    return seen
  }
}

function hostLinks(): NodeLinks | undefined {
  const env = { PATH: toolPath(), LC_ALL: 'C' }
  const { status, stdout } = spawnSync('ip', ['-j', '-d', 'addr', 'show'], { env, encoding: 'utf8', timeout: 10_000 })
  return status === 0 ? readLinks(readDocuments(stdout)) : undefined
}

const ids: Readonly<Record<string, string>> = { 'network-changed': 'network-changed', 'range-in-use': 'range-in-use' }

/** What an ADD refuses with 110: a range that a link of the node has, or a network that changes under its pods. */
export function refusedOnNode({ conf, steps }: PluginEntry, { name }: NetworkHead, links: NodeLinks): readonly Found[] {
  const sent = { ...asOwn({ ...conf, type: 'trestle' }), name, cniVersion: '1.1.0' }
  const env = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'x', CNI_NETNS: '/x', CNI_IFNAME: 'eth0' }
  const read = orElse(() => readConfig(JSON.stringify(sent), readCall(env)), undefined)
  if (read === undefined || !makesInterface(read)) return []
  const wanted = driverOf(read).networkOf(read, [], { mtu: 1500, machineId: '' })
  const live = recordsOf(wanted.name).filter((record) => !isDead(record))
  const around = {
    others: [],
    host: { links, routes: [] },
    machineId: '',
    before: readNetwork(wanted),
    live: live.flatMap(({ spec }) => spec ?? []),
  }
  try {
    decideNetwork(wanted, around)
    return []
  } catch (error) {
    if (!(error instanceof CniError)) throw error
    const id = ids[error.id]
    const key = conf['ipam'] === undefined ? 'podcidr' : 'ipam'
    const at = id === 'range-in-use' ? [...steps, key] : steps
    return id === undefined ? [] : [{ id, message: error.message, cure: error.details, steps: at }]
  }
}
