// SPDX-License-Identifier: Apache-2.0
// `trestle check` and `trestle status`: what plugins say of an attachment, and of their readiness.

import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { failureOf } from '../failure.ts'
import { print } from '../output.ts'
import { checkList, statusList } from '../plugin-runtime.ts'
import { requireRoot } from '../self.ts'
import { attachedBy, ifNameOption, networkAndPod, networksOf } from './attached.ts'
import { networkNamed } from './network.ts'
import { explained, openRunners, requireVerb, runtimeFor } from './plugin-calls.ts'

export const checkCommand: Command = {
  name: 'check',
  words: 'NET POD',
  maxWords: 2,
  summary: "ask a network's plugins whether a pod still is as they made it",
  description:
    'Runs CHECK of every plugin with what was kept at ADD, by `trestle add` or cnitool. Exit code 1: the pod differs.',
  options: ifNameOption,
  examples: ['trestle check pods web', 'trestle check storage web -o json'],
  run: check,
}

async function check(input: Input): Promise<number> {
  requireRoot('check', 'it looks into network namespaces')
  const found = attachedBy(input)
  if (found === undefined) {
    const { pod } = networkAndPod(input)
    const details = '`trestle nets` lists the attachments by hand; nothing was run'
    throw failureOf('not-attached', `${pod.word} is not attached: ${networksOf(pod)}`, { details })
  }
  const { list, pod, attachment, prevResult } = found
  const document = { network: list.name, pod: pod.word, ifName: attachment.ifName, isDisabled: list.disableCheck }
  requireVerb(list, 'CHECK', '0.4.0')
  const text = list.disableCheck ? 'not checked: the network has disableCheck' : 'as its ADD made it'
  try {
    if (!list.disableCheck) await checkList(runtimeFor(list, openRunners(input).run), attachment, prevResult)
    const line = `${pod.word}, ${attachment.ifName} of network ${list.name}: ${text}\n`
    return print(input, { command: 'check', document, text: line, code: exitCode.fine })
  } catch (error) {
    throw explained(error, `CHECK of ${list.name} in ${pod.word}`)
  }
}

export const statusCommand: Command = {
  name: 'status',
  words: 'NET',
  maxWords: 1,
  summary: "ask a network's plugins whether they are ready for pods",
  description: [
    'Runs STATUS of every plugin of the network (CNI 1.1.0). Exit code 1: a plugin is not ready; 3: it could not be',
    'asked.',
  ].join('\n'),
  options: {},
  examples: ['trestle status pods'],
  run: status,
}

async function status(input: Input): Promise<number> {
  const [name] = input.words
  if (name === undefined) throw new UsageError('name a network')
  requireRoot('status', 'it asks plugins as a runtime does')
  const { list } = networkNamed(name)
  requireVerb(list, 'STATUS', '1.1.0')
  try {
    await statusList(runtimeFor(list, openRunners(input).run, 'installed'))
    const types = list.plugins.map(({ type }) => type)
    const text = `network ${list.name} is ready for pods: ${types.join(', ')}\n`
    return print(input, {
      command: 'status',
      document: { network: list.name, plugins: types },
      text,
      code: exitCode.fine,
    })
  } catch (error) {
    throw explained(error, `STATUS of ${list.name}`)
  }
}
