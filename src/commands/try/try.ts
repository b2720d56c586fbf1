// SPDX-License-Identifier: Apache-2.0
// `trestle try`: a network tried with temporary pods, in private namespaces (try/inside.ts).

import type { CniError } from '../../cni/errors.ts'
import { type Command, exitCode, type Input } from '../command.ts'
import { failureOf } from '../failure.ts'
import { readFileAs } from '../input-file.ts'
import { readNetworkList } from '../network-list.ts'
import { missingPlugins, pluginPath } from '../plugin-runtime.ts'
import { requireRoot, thisProgram } from '../self.ts'
import { runUnshared } from '../unshared.ts'
import { type InsideInput, podRanges } from './inside.ts'

/** Two families, host ports, and the defaults of a pod network. */
const defaultNetwork = JSON.stringify({
  cniVersion: '1.1.0',
  name: 'try',
  plugins: [
    {
      type: 'trestle',
      bridge: 'try0',
      podcidr: podRanges,
      capabilities: { portMappings: true },
    },
  ],
})

export const tryCommand: Command = {
  name: 'try',
  words: '[CONFLIST]',
  maxWords: 1,
  summary: 'test a network with temporary pods in private namespaces',
  description: [
    'Makes two temporary pods in private namespaces and runs this program as their CNI plugin: ADD, TCP from',
    'pod to gateway, pod, outside and host port, CHECK, DEL, and that nothing is left. Nothing of the machine',
    'is touched: links, rules and state are private, and gone at the end. Needs root.',
    '',
    'CONFLIST is a .conflist or .conf file, or - for standard input; without it a dual-stack network is tried.',
    'Plugins of other types are looked up in CNI_PATH (default /opt/cni/bin). A CONFLIST that has the capability',
    'ipRanges and no ranges gets those of the dual-stack network. Pods of macvlan are on the uplink of the private',
    'node, whatever `master` says, and have a router behind it. A device of host-device is not there.',
  ].join('\n'),
  options: {},
  examples: ['trestle try', 'trestle try /etc/cni/net.d/10-pods.conflist', 'trestle try - -o json <net.conflist'],
  run,
}

async function run({ words, isJson, output }: Input): Promise<number> {
  const network = words[0] === undefined ? readNetworkList(defaultNetwork) : readFileAs(words[0], readNetworkList)
  const cniPath = pluginPath()
  const [missing] = missingPlugins({ network, cniPath, own: 'this' })
  if (missing !== undefined) {
    throw couldNot(`the plugin "${missing}" is not in ${cniPath}`, 'set CNI_PATH to the directories of the plugins')
  }
  requireRoot('try', 'it makes network namespaces')
  const programs = [...cniPath.split(':'), thisProgram().file]
  // A master is the uplink of the private node.
  const masters = network.plugins.map(({ master }) => master).filter((name) => typeof name === 'string')
  const node = { programs, uplink: masters[0] ?? 'uplink', mtu: 1500, links: masters, ranges: JSON.stringify(network) }
  const input: InsideInput = { ...node, network, cniPath, isJson, hasColour: output.hasColour }
  const { code, why } = await runUnshared('__try-inside', input, 'inherit')
  if (code === exitCode.fine || code === exitCode.findings) return code
  throw couldNot('the private namespaces could not be made or used', why)
}

function couldNot(why: string, hint: string): CniError {
  return failureOf('try-not-possible', `try: ${why}`, { details: hint })
}
