// SPDX-License-Identifier: Apache-2.0
// `trestle add`: attaches a pod to a network by hand. A failed ADD is followed by DEL, as runtimes do.

import { CniError, toCniError } from '../../cni/errors.ts'
import { parseObject } from '../../cni/json.ts'
import { readResult } from '../../cni/results.ts'
import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { failureOf } from '../failure.ts'
import type { NetworkList } from '../network-list.ts'
import { print } from '../output.ts'
import { type Attachment, addList, delList, type Runtime } from '../plugin-runtime.ts'
import { capabilityArgsOf, capabilityOptions, checkDeclared } from '../pod-options.ts'
import { requireRoot } from '../self.ts'
import { tableText } from '../table.ts'
import { askedIfName, ifNameOption, networkAndPod } from './attached.ts'
import { forgetAttachment, keepAttachment, podIpsOf } from './libcni-cache.ts'
import { type Network, networkNamed } from './network.ts'
import { explained, openRunners, type Runners, runtimeFor, tellNotInstalled } from './plugin-calls.ts'
import { attachmentsOf, containerIdOf, inodeOf, isThere, makePod, type Pod, refuseForeign, removePod } from './pod.ts'

export const addCommand: Command = {
  name: 'add',
  words: 'NET POD',
  maxWords: 2,
  summary: 'attach a pod to a network by hand, and make the pod if there is none',
  description: [
    'Runs ADD of every plugin of the network NET (`trestle nets`) in the namespace POD, a name as of `ip netns` or an',
    'absolute path; a name that is missing is made. After a failure DEL is run. Variables as of cnitool: NETCONFPATH,',
    'CNI_PATH, CAP_ARGS, CNI_ARGS.',
  ].join('\n'),
  options: {
    ...capabilityOptions,
    ...ifNameOption,
  },
  examples: [
    'trestle add pods web --port 8080:80',
    `trestle add storage web --ifname net1 --cap 'mac="02:00:00:00:00:09"'`,
    'NETCONFPATH=/root/net.d trestle add new /run/netns/web -o json',
  ],
  run,
}

/** What an ADD is about. `isNew`: the namespace is made for it. */
interface Asked {
  readonly network: Network
  readonly pod: Pod
  readonly attachment: Attachment
  readonly isNew: boolean
}

async function run(input: Input): Promise<number> {
  const { name, pod } = networkAndPod(input)
  requireRoot('add', 'it makes links in network namespaces')
  const network = networkNamed(name)
  const asked = askedArgs(input, network.list)
  const runners = openRunners(input)
  const runtime = runtimeFor(network.list, runners.run)
  tellNotInstalled(input, runtime)
  const isNew = !isThere(pod)
  refuseForeign(pod)
  const place = placeFor(pod, askedIfName(input) ?? 'eth0')
  if (!isNew) await requireFree(runners, pod, place)
  const about = { network, pod, attachment: { ...place, ...asked }, isNew }
  // One that another command makes at this moment is not ours to remove.
  if (isNew) await makePod(runners.undo, pod)
  try {
    const result = await addList(runtime, about.attachment)
    // The first attachment of a namespace that `add` made says so; a later one takes it over.
    const madeInode = isNew ? inodeOf(place.netns) : attachmentsOf(pod).find((each) => each.madeInode)?.madeInode
    const kept = { network: name, ...about.attachment, ...(madeInode === undefined ? {} : { madeInode }) }
    keepAttachment(kept, network.config, result)
    return printAdded(input, about, result)
  } catch (error) {
    const after = isOfAnother(error) ? [] : await undoAdd(runners, runtime, about)
    throw explained(error, `ADD of ${name} in ${pod.word}`, after)
  }
}

type Args = Required<Pick<Attachment, 'args' | 'capabilityArgs'>>

/**
 * What a runtime adds for the pod: CAP_ARGS and CNI_ARGS of the environment, and the options. Throws UsageError for
 * values that no runtime would send.
 */
function askedArgs({ values }: Input, list: NetworkList): Args {
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

/** A plugin of trestle has an attachment of these ids that libcni's files do not have: DEL would remove that. */
function isOfAnother(error: unknown): boolean {
  return error instanceof CniError && (error.id === 'already-attached' || error.id === 'attachment-busy')
}

/** The ids of a new attachment. Throws CniError 103 where the pod has an attachment with this interface. */
function placeFor(pod: Pod, ifName: string) {
  const before = attachmentsOf(pod)
  const netns = before[0]?.netns ?? pod.paths[0]
  const taken = before.find((each) => each.ifName === ifName)
  if (taken === undefined) return { containerId: containerIdOf(netns), netns, ifName }
  const isOver = inodeOf(netns) === undefined
  const has = isOver ? `an earlier ${pod.word} had ${ifName}` : `${pod.word} has ${ifName} already`
  const other = isOver ? '' : `; a second network needs another name, like --ifname net${before.length}`
  throw failureOf('already-attached', `${has}, of network ${taken.network}`, {
    details: `\`trestle del ${taken.network} ${pod.word}\` removes it${other}`,
  })
}

/** Throws CniError 4 where the pod has the interface by another program: the undo of a failed ADD would remove it. */
async function requireFree({ run }: Runners, pod: Pod, { netns, ifName }: Attachment): Promise<void> {
  const shown = await run({ file: 'nsenter', args: [`--net=${netns}`, '--', 'ip', 'link', 'show', 'dev', ifName] })
  if (shown.code !== 0 || ifName === 'lo') return
  const details = 'use another name, like --ifname net1'
  throw failureOf('interface-name-taken', `${pod.word} has an interface ${ifName} already`, { details })
}

/** DEL after a failed ADD, and the end of a namespace that was made for it. Returns lines for people. */
async function undoAdd({ undo }: Runners, runtime: Runtime, about: Asked): Promise<readonly string[]> {
  const { network, pod, attachment, isNew } = about
  const failure = await delList({ ...runtime, run: undo }, attachment, undefined).catch((error: unknown) => error)
  forgetAttachment({ network: network.list.name, ...attachment })
  const isGone = isNew && isThere(pod)
  if (isGone) await removePod(undo, pod)
  return [
    failure === undefined
      ? 'DEL was run: nothing is left of this ADD'
      : `DEL failed, too: ${toCniError(failure).message}`,
    ...(isGone ? [`the namespace ${pod.word} that was made for it is gone again`] : []),
  ]
}

function printAdded(input: Input, { network, pod, attachment, isNew }: Asked, result: unknown): number {
  const { containerId, netns, ifName } = attachment
  const addresses = podIpsOf(readResult(result, '0.1.0'))
  const [first = ['-', '-'], ...others] = addresses.map(({ address, gateway = '-' }) => [address, gateway])
  const name = network.list.name
  const rows = [[pod.word, name, ifName, ...first], ...others.map((row) => ['', '', '', ...row])]
  const table = tableText(['POD', 'NETWORK', 'INTERFACE', 'ADDRESS', 'GATEWAY'], rows)
  const made = `made the namespace ${netns}; \`trestle del ${name} ${pod.word}\` removes it with its last network\n`
  const document = { network: name, pod: pod.word, netns, containerId, ifName, madeNamespace: isNew, result }
  return print(input, { command: 'add', document, text: `${table}${isNew ? made : ''}`, code: exitCode.fine })
}
