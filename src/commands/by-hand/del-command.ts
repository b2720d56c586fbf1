// SPDX-License-Identifier: Apache-2.0
// `trestle del`: detaches a pod from a network by hand.

import { type Command, exitCode, type Input } from '../command.ts'
import { print } from '../output.ts'
import { requireRoot } from '../self.ts'
import { attachedBy, detach, ifNameOption, networkAndPod, networksOf } from './attached.ts'
import { explained, openRunners } from './plugin-calls.ts'

export const delCommand: Command = {
  name: 'del',
  words: 'NET POD',
  maxWords: 2,
  summary: 'detach a pod from a network by hand',
  description: [
    'Runs DEL of every plugin with what was kept at ADD, by `trestle add` or cnitool. With the last network of a pod',
    'goes a namespace that `trestle add` made. A pod of a container runtime is refused.',
  ].join('\n'),
  options: ifNameOption,
  examples: ['trestle del pods web', 'trestle del storage web --ifname net1'],
  run,
}

async function run(input: Input): Promise<number> {
  requireRoot('del', 'it removes links from network namespaces')
  const { pod, name } = networkAndPod(input)
  const attached = attachedBy(input)
  if (attached === undefined) {
    const document = { network: name, pod: pod.word, removedNamespace: false }
    const text = `${pod.word} is not attached to ${name}: nothing to remove; ${networksOf(pod)}\n`
    return print(input, { command: 'del', document, text, code: exitCode.fine })
  }
  const { list, attachment } = attached
  const { ifName } = attachment
  try {
    const removedNamespace = await detach(openRunners(input).run, attached)
    const and = removedNamespace ? `, and the namespace ${pod.word} that add had made` : ''
    const document = { network: list.name, pod: pod.word, ifName, removedNamespace }
    const text = `removed ${ifName} of network ${list.name} from ${pod.word}${and}\n`
    return print(input, { command: 'del', document, text, code: exitCode.fine })
  } catch (error) {
    throw explained(error, `DEL of ${list.name} in ${pod.word}`, ['what is left stays known: repeat `trestle del`'])
  }
}
