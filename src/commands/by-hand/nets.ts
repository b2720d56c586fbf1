// SPDX-License-Identifier: Apache-2.0
// `trestle nets`: the networks of the configuration directory, and the attachments that were made by hand.

import { type Command, exitCode, type Input } from '../command.ts'
import { orElse } from '../if-there.ts'
import { print } from '../output.ts'
import { tableText } from '../table.ts'
import { type CachedAttachment, cachedAttachments, podIpsOf } from './libcni-cache.ts'
import { configurationDirectory, howToBegin, type Network, networksIn } from './network.ts'
import { inodeOf, isByHand } from './pod.ts'

export const netsCommand: Command = {
  name: 'nets',
  words: '',
  maxWords: 0,
  summary: 'list the networks for `add`, and the pods that were attached by hand',
  description: [
    'The networks of /etc/cni/net.d (NETCONFPATH), and the attachments of `trestle add` and cnitool. Exit code 1: a',
    'file is not used.',
  ].join('\n'),
  options: {},
  examples: ['trestle nets', 'NETCONFPATH=/root/net.d trestle nets -o json'],
  run,
}

function run(input: Input): number {
  const directory = configurationDirectory()
  const all = networksIn(directory)
  const networks = all.filter((each): each is Network => 'list' in each)
  const broken = all.flatMap((each) => ('problem' in each ? [each] : []))
  const unused = networks.filter(({ list }, at) => networks.findIndex((each) => each.list.name === list.name) !== at)
  // Everybody may read the configurations, and only root what libcni keeps.
  const known = orElse(() => cachedAttachments(), undefined)
  const attached = (known ?? []).filter(isByHand)
  const text = [
    networks.length === 0 ? `there is no network in ${directory}; ${howToBegin}\n` : networkTable(networks),
    ...unused.map(({ file, list }) => `not used: ${file}, since an earlier file has the name ${list.name}, too\n`),
    ...broken.map(({ problem }) => `not usable: ${problem}\n`),
    ...(attached.length === 0 ? [] : ['\n', podTable(attached)]),
    ...(known === undefined ? ['\nthe pods are not shown: run it as root\n'] : []),
  ].join('')
  const document = {
    directory,
    networks: networks.map(({ file, list }) => ({ file, ...list })),
    broken,
    attachments: attached.map(({ list: _, ...each }) => each),
  }
  const isFine = unused.length === 0 && broken.length === 0
  return print(input, { command: 'nets', document, text, code: isFine ? exitCode.fine : exitCode.findings })
}

/** The names of the networks of the configuration directory; none where it cannot be read. */
export function networkNames(): readonly string[] {
  const found = orElse(() => networksIn(configurationDirectory()), [])
  return found.flatMap((each) => ('list' in each ? [each.list.name] : []))
}

function networkTable(networks: readonly Network[]): string {
  const rows = networks.map(({ file, list }) => {
    const { name, cniVersion, plugins } = list
    const declared = plugins.flatMap(({ capabilities = {} }) =>
      Object.keys(capabilities).filter((key) => capabilities[key]),
    )
    const types = plugins.map(({ type }) => type).join(', ')
    return [name, cniVersion, types, [...new Set(declared)].join(', ') || '-', file]
  })
  return tableText(['NETWORK', 'VERSION', 'PLUGINS', 'CAPABILITIES', 'FILE'], rows)
}

function podTable(attached: readonly CachedAttachment[]): string {
  const rows = attached.map(({ network, containerId, ifName, netns, result }) => {
    const pod = netns.replace(/^(?:\/var)?\/run\/netns\//, '')
    const addresses = podIpsOf(result).map(({ address }) => address)
    return [
      inodeOf(netns) === undefined ? `${pod} (gone)` : pod,
      network,
      ifName,
      addresses.join(', ') || '-',
      containerId,
    ]
  })
  return tableText(['POD', 'NETWORK', 'INTERFACE', 'ADDRESS', 'ID'], rows)
}
