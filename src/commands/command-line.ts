// SPDX-License-Identifier: Apache-2.0
// The command line for people, in a bundle of its own: a runtime's call loads nothing of it.

import { agentCommand } from '../agent/settings.ts'
import { removeCallFiles } from '../process/killed-calls.ts'
import { bundleCommand } from './bundle.ts'
import { addCommand } from './by-hand/add-command.ts'
import { checkCommand, statusCommand } from './by-hand/check-command.ts'
import { delCommand } from './by-hand/del-command.ts'
import { execCommand } from './by-hand/exec.ts'
import { netsCommand } from './by-hand/nets.ts'
import {
  type Command,
  commandHelp,
  failed,
  isJsonAsked,
  overview,
  printHelp,
  runCommand,
  UsageError,
} from './command.ts'
import { complete, completeWord, completionCommand } from './completion.ts'
import { convertCommand } from './convert.ts'
import { doctorCommand } from './doctor/doctor.ts'
import { explainCommand } from './explain/explain.ts'
import { lastCommand } from './explain/last.ts'
import { gcCommand } from './gc-command.ts'
import { installCommand } from './install.ts'
import { lintCommand } from './lint/lint.ts'
import { mapCommand } from './map.ts'
import { nearestWord } from './nearest-word.ts'
import { type Output, standardOutput } from './output.ts'
import { planCommand, runPlan } from './plan.ts'
import { probeEnd } from './probe/ends.ts'
import { psCommand } from './ps.ts'
import { recordCommand } from './record/record-command.ts'
import { replayCommand, runReplay } from './replay/replay.ts'
import { restoreCommand } from './restore-command.ts'

import { runInside, tryCommand } from './try.ts'
import { uninstallCommand } from './uninstall-command.ts'
import { versionCommand } from './version.ts'

export const commands: readonly Command[] = [
  tryCommand,
  lintCommand,
  doctorCommand,
  psCommand,
  mapCommand,
  planCommand,
  netsCommand,
  addCommand,
  execCommand,
  checkCommand,
  delCommand,
  statusCommand,
  convertCommand,
  restoreCommand,
  gcCommand,
  agentCommand,
  installCommand,
  uninstallCommand,
  lastCommand,
  recordCommand,
  replayCommand,
  bundleCommand,
  explainCommand,
  completionCommand,
  versionCommand,
]

/** Internal commands, of `try` and `doctor --probe` mostly inside namespaces; help does not list them. */
const internal: Readonly<Record<string, (words: readonly string[], output: Output) => Promise<number>>> = {
  '__try-inside': (_, output) => runInside(output),
  '__replay-inside': () => runReplay(),
  '__plan-inside': () => runPlan(),
  '__probe-end': (words, output) => probeEnd(words, output),
  [completeWord]: async (_, output) => complete([...commands, helpCommand], output),
}

/** Runs the command of the arguments. Returns the exit code; never rejects. */
export async function main(args: readonly string[]): Promise<number> {
  try {
    return await run(args, standardOutput())
  } finally {
    removeCallFiles()
  }
}

export async function run(args: readonly string[], output: Output): Promise<number> {
  const [word = 'help', ...rest] = args
  const hidden = internal[word]
  if (hidden !== undefined) return await hidden(rest, output)
  const name = aliases[word] ?? word
  const command = [...commands, helpCommand].find((each) => each.name === name)
  if (command !== undefined) return await runCommand(command, rest, output)
  return failed(unknown(word), { command, isJson: isJsonAsked(args), output })
}

const aliases: Readonly<Record<string, string>> = {
  '--help': 'help',
  '-h': 'help',
  '--version': 'version',
  '-V': 'version',
}

/** `trestle help`, which its own list omits. */
const helpCommand: Command = {
  name: 'help',
  words: '[COMMAND]',
  maxWords: 1,
  summary: 'print all commands, or the help of one',
  description: 'Prints all commands, or the help of one.',
  options: {},
  examples: ['trestle help', 'trestle help gc'],
  run: (input) => {
    const [name] = input.words
    const command = commands.find((each) => each.name === name)
    if (name !== undefined && command === undefined) throw unknown(name)
    return command === undefined
      ? printHelp(input, overview(commands), commands)
      : printHelp(input, commandHelp(command), [command])
  },
}

function unknown(word: string): UsageError {
  if (word.startsWith('-')) return new UsageError(`"${word}" is no command: the command comes first, then its options`)
  const names = commands.map((command) => command.name)
  const meant = nearestWord(word, names)
  const hint = meant === undefined ? `commands are ${names.join(', ')}` : `did you mean "${meant}"?`
  return new UsageError(`there is no command "${word}"; ${hint}`)
}
