// SPDX-License-Identifier: Apache-2.0
// `trestle completion`: the line by which a shell asks this program for the words that may come next. bash does the rest
// itself (complete -C), zsh as bash does, and both know files where this program has no word.

import { namesIn } from '../state/files.ts'
import { networkNames } from './by-hand/nets.ts'
import { type Command, exitCode, type Input, optionsOf, UsageError } from './command.ts'
import { type Output, print } from './output.ts'

/** The hidden command that shells call, with the line so far in COMP_LINE (bash(1), Programmable Completion). */
export const completeWord = '__complete'

const bash = `complete -o default -C 'trestle ${completeWord}' trestle\n`
const scripts: Readonly<Record<string, string>> = {
  bash,
  zsh: `autoload -U +X bashcompinit && bashcompinit\n${bash}`,
  fish: `complete -c trestle -a '(COMP_LINE=(commandline -cp) trestle ${completeWord})'\n`,
}

export const completionCommand: Command = {
  name: 'completion',
  words: 'SHELL',
  maxWords: 1,
  summary: 'print the completion of bash, zsh or fish',
  description: 'Prints what a shell runs to complete commands, options, networks and pods. SHELL is bash, zsh or fish.',
  options: {},
  examples: ['trestle completion bash >/usr/share/bash-completion/completions/trestle', 'trestle completion fish'],
  run: (input: Input) => {
    const [shell = ''] = input.words
    const text = scripts[shell]
    if (text === undefined) throw new UsageError(`name a shell: ${Object.keys(scripts).join(', ')}`)
    return print(input, { command: 'completion', document: { shell, script: text }, text, code: exitCode.fine })
  },
}

/** Prints the candidates for the last word of the line. */
export function complete(commands: readonly Command[], { out }: Output): number {
  const { COMP_LINE: line = '', COMP_POINT: at } = process.env
  const words = line
    .slice(0, at === undefined ? undefined : Number(at))
    .trimStart()
    .split(/\s+/)
    .slice(1)
  const last = words.at(-1) ?? ''
  for (const word of candidatesFor(words, commands)) if (word.startsWith(last)) out(`${word}\n`)
  return exitCode.fine
}

function candidatesFor(words: readonly string[], commands: readonly Command[]): readonly string[] {
  const names = commands.map(({ name }) => name)
  const command = commands.find(({ name }) => name === words[0])
  if (words.length < 2 || command === undefined) return words.length < 2 ? names : []
  if (['-o', '--output'].includes(words.at(-2) ?? '')) return ['text', 'json']
  if (words.at(-1)?.startsWith('-')) return Object.keys(optionsOf(command)).map((name) => `--${name}`)
  return (command.words.match(/[A-Z]+/g) ?? []).flatMap((word): readonly string[] => {
    if (word === 'COMMAND') return names
    if (word === 'SHELL') return Object.keys(scripts)
    if (word === 'NET') return networkNames()
    return word === 'POD' ? namesIn('/run/netns') : []
  })
}
