// SPDX-License-Identifier: Apache-2.0
// `trestle ps`: who has which address on this node, and how full each range is.

import { openRemovingContext } from '../verbs/context.ts'
import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { lookAtPicture, type PodInterface } from './network-picture.ts'
import { print } from './output.ts'
import { countText } from './pools.ts'
import { ageOf } from './record/record-text.ts'
import { requireRoot } from './self.ts'
import { tableText } from './table.ts'

export const psCommand: Command = {
  name: 'ps',
  words: '[WHICH]',
  maxWords: 1,
  summary: 'list the pods of this node: addresses, host ports, links, networks',
  description: [
    'Every interface of every pod, of other plugins as far as libcni remembers them, and how many addresses of each',
    'range are taken. WHICH is an address, a name, a host port, a link or the beginning of a container id. Exit code',
    '1: nothing has it.',
  ].join('\n'),
  options: {},
  examples: ['trestle ps', 'trestle ps 10.244.1.7', 'trestle ps shop/web', 'trestle ps -o json'],
  run,
}

async function run(input: Input): Promise<number> {
  requireRoot('ps', 'it reads the state of the node')
  const [which] = input.words
  if (which === '') throw new UsageError('WHICH is empty')
  const { pods, pools } = await lookAtPicture(openRemovingContext().machine)
  const shown = which === undefined ? pods : pods.filter((pod) => hasWord(pod, which))
  const rows = shown.map((pod) => [
    pod.pod,
    pod.containerId.slice(0, 13),
    pod.ifName,
    pod.addresses.join(' ') || '-',
    pod.ports.join(', ') || '-',
    pod.link ?? '-',
    pod.isOurs ? pod.network : `${pod.network} (not trestle)`,
    pod.since === undefined ? '-' : ageOf(Date.now() - Date.parse(pod.since)),
  ])
  const head = ['POD', 'CONTAINER', 'INTERFACE', 'ADDRESSES', 'HOST PORTS', 'LINK', 'NETWORK', 'AGE']
  const table = rows.length === 0 ? `no pod${which === undefined ? '' : ` with ${which}`}\n` : tableText(head, rows)
  const poolRows = pools.map(({ network, range, taken, total }) => [
    network,
    range,
    `${taken}`,
    countText(total - taken),
  ])
  const ranges = poolRows.length === 0 || which !== undefined ? '' : `\n${tableText(poolHead, poolRows)}`
  const document = { pods: shown, pools }
  const code = which !== undefined && shown.length === 0 ? exitCode.findings : exitCode.fine
  return print(input, { command: 'ps', document, text: `${table}${ranges}`, code })
}

const poolHead = ['NETWORK', 'RANGE', 'TAKEN', 'FREE']

/** `asked`: an address may have its length behind it. */
function hasWord(pod: PodInterface, asked: string): boolean {
  const word = asked.replace(/\/\d+$/, '')
  const [namespace, name] = pod.pod.split('/')
  const exact = [pod.pod, namespace, name, pod.ifName, pod.link, pod.network, ...pod.addresses]
  const ports = pod.ports.map((port) => port.split(' ')[0] ?? '')
  const isPort = ports.some((port) => port === word || port.startsWith(`${word}/`) || port.includes(`:${word}/`))
  const isId = word.length >= 4 && pod.containerId.replace('cnitool-', '').startsWith(word.replace('cnitool-', ''))
  return exact.includes(asked) || exact.includes(word) || isPort || isId
}
