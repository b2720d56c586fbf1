// SPDX-License-Identifier: Apache-2.0
// `trestle exec`: runs a program in the network namespace of a pod. The program takes this process's place, so that
// signals, terminal and exit code are its own.

import { findProgram, toolPath } from '../../process/runner.ts'
import { type Command, type Input, UsageError } from '../command.ts'
import { failureOf } from '../failure.ts'
import { requireRoot } from '../self.ts'
import { podOf, requireThere } from './pod.ts'

export const execCommand: Command = {
  name: 'exec',
  words: 'POD [--] CMD…',
  maxWords: Number.POSITIVE_INFINITY,
  startsProgram: true,
  summary: "run a program in a pod's network",
  description: [
    "Runs a program of this node in the network namespace POD, also of a runtime's pod. The exit code is the",
    "program's.",
  ].join('\n'),
  options: {},
  examples: ['trestle exec web ip addr', 'trestle exec web -- ping -c 1 10.241.0.1', 'trestle exec web sh'],
  run,
}

function run({ words }: Input): never {
  const [word, ...rest] = words
  // As with kubectl, `--` may stand between the pod and the program.
  const command = rest[0] === '--' ? rest.slice(1) : rest
  const [program = '-'] = command
  if (word === undefined || program.startsWith('-')) throw new UsageError('name a pod and a program')
  const pod = podOf(word)
  requireRoot('exec', 'it enters a network namespace')
  requireThere(pod)
  const nsenter = findProgram('nsenter')
  if (nsenter === undefined) throw failureOf('command-missing', 'cannot run nsenter: install util-linux')
  process.execve?.(nsenter, ['nsenter', `--net=${pod.paths[0]}`, '--', ...command], {
    ...process.env,
    PATH: toolPath(),
  })
  throw failureOf('command-not-started', `cannot run ${nsenter}`)
}
