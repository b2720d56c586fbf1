// SPDX-License-Identifier: Apache-2.0
// What a person asks of a network for a pod: words and options of the commands, and the variables of cnitool.

import { linkNameProblem, unsafeNameProblem } from '../../cni/addresses.ts'
import { parseObject } from '../../cni/json.ts'
import { type Input, type Option, UsageError } from '../command.ts'
import type { NetworkList } from '../network-list.ts'
import type { Attachment } from '../plugin-runtime.ts'
import { capabilityArgsOf, checkDeclared } from '../pod-options.ts'
import { type Network, networkNamed, networkOfFile } from './network.ts'
import { type Pod, podOf } from './pod.ts'

export const confOption = {
  conf: { type: 'string', value: 'FILE', help: 'take the network from FILE, and leave out NET' },
} as const satisfies Readonly<Record<string, Option>>

export const ifNameOption = {
  ifname: { type: 'string', short: 'i', value: 'NAME', help: "the pod's interface; default: CNI_IFNAME, else eth0" },
} as const satisfies Readonly<Record<string, Option>>

/** The network and the pod of `NET POD`, or of `--conf FILE POD`. */
export function networkAndPod({ words, values }: Input): {
  readonly network: () => Network
  readonly pod: Pod
  readonly name?: string
} {
  const file = values['conf'] as string | undefined
  const [first, second] = words
  const word = file === undefined ? second : first
  if (file !== undefined && second !== undefined) throw new UsageError('--conf FILE stands for NET: name the pod only')
  if (word === undefined || first === undefined) throw new UsageError('name a network and a pod')
  const pod = podOf(word)
  return file === undefined
    ? { network: () => networkNamed(first), pod, name: first }
    : { network: () => networkOfFile(file), pod }
}

/** The interface of the option or variable, if there is one. Throws UsageError for an invalid name. */
export function askedIfName({ values }: Input): string | undefined {
  const name = (values['ifname'] as string | undefined) ?? (process.env['CNI_IFNAME'] || undefined)
  const problem = name === undefined ? undefined : (linkNameProblem(name) ?? unsafeNameProblem(name))
  if (problem !== undefined) throw new UsageError(`--ifname ${JSON.stringify(name)}: ${problem}`)
  return name
}

type Args = Required<Pick<Attachment, 'args' | 'capabilityArgs'>>

/**
 * What a runtime adds for the pod: CAP_ARGS and CNI_ARGS of the environment, and the options. Throws UsageError for
 * values that no runtime would send.
 */
export function askedArgs({ values }: Input, list: NetworkList): Args {
  const options = capabilityArgsOf(values)
  checkDeclared(list.plugins, Object.keys(options))
  const inEnvironment = process.env['CAP_ARGS'] ? parseObject(process.env['CAP_ARGS']) : {}
  if (inEnvironment === undefined) throw new UsageError('CAP_ARGS: use a JSON object, like {"portMappings":[…]}')
  const args = (process.env['CNI_ARGS'] ?? '').split(';').filter((pair) => pair !== '')
  return {
    args: args.map((pair) => {
      const [key = '', value = '', ...more] = pair.split('=')
      if (key === '' || value === '' || more.length > 0) throw new UsageError('CNI_ARGS: use KEY=VALUE;KEY=VALUE')
      return [key, value] as const
    }),
    capabilityArgs: { ...inEnvironment, ...options },
  }
}
