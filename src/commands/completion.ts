// SPDX-License-Identifier: Apache-2.0
// `trestle completion`: a script for bash, zsh or fish, which asks this program for the words that may come next.

import { namesIn } from '../state/files.ts'
import { networkNames } from './by-hand/nets.ts'
import { type Command, exitCode, type Input, type Option, optionsOf, UsageError } from './command.ts'
import { type Output, print } from './output.ts'

/** The hidden command that the scripts call. */
export const completeWord = '__complete'

/** A candidate that stands for the names of files. */
const files = ':files'

const scripts = {
  bash: `# bash completion of trestle
_trestle() {
  local word=\${COMP_WORDS[COMP_CWORD]} found
  found=$(trestle ${completeWord} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)
  COMPREPLY=($(compgen -W "\${found//${files}/}" -- "$word"))
  if [[ $found == *${files}* ]]; then COMPREPLY+=($(compgen -f -- "$word")); fi
}
complete -F _trestle trestle
`,
  zsh: `#compdef trestle
# zsh completion of trestle
_trestle() {
  local -a found
  found=("\${(@f)$(trestle ${completeWord} "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if (( \${found[(Ie)${files}]} )); then _files; fi
  found=("\${(@)\${(@)found:#${files}}/$'\\t'/:}")
  _describe word found
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _trestle "$@"; else compdef _trestle trestle; fi
`,
  fish: `# fish completion of trestle
function __trestle_words
  set -l words (commandline -opc)
  trestle ${completeWord} $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c trestle -f -a '(__trestle_words | string match -v ${files})'
complete -c trestle -n '__trestle_words | string match -q ${files}' -F
`,
} as const

type Shell = keyof typeof scripts
const shells = Object.keys(scripts) as readonly Shell[]

export const completionCommand: Command = {
  name: 'completion',
  words: 'SHELL',
  maxWords: 1,
  choices: shells,
  summary: 'print the completion script for bash, zsh or fish',
  description: [
    'Prints a script for SHELL (bash, zsh, fish) that completes commands, options, networks and pods.',
    '  bash: trestle completion bash >/usr/share/bash-completion/completions/trestle',
    '  zsh:  trestle completion zsh >/usr/local/share/zsh/site-functions/_trestle',
    '  fish: trestle completion fish >/usr/share/fish/vendor_completions.d/trestle.fish',
    'For one session: source <(trestle completion bash).',
  ].join('\n'),
  options: {},
  examples: ['trestle completion bash', 'source <(trestle completion zsh)'],
  run: (input) => run(input),
}

function run(input: Input): number {
  const shell = shells.find((each) => each === input.words[0])
  if (shell === undefined) throw new UsageError(`name a shell: ${shells.join(', ')}`)
  const script = scripts[shell]
  return print(input, { command: 'completion', document: { shell, script }, text: script, code: exitCode.fine })
}

/** Prints the candidates for the last word of a command line: a line each, with its meaning behind a tab. */
export function printCandidates(words: readonly string[], commands: readonly Command[], output: Output): number {
  output.out(
    candidatesOf(words, commands)
      .map((line) => `${line}\n`)
      .join(''),
  )
  return exitCode.fine
}

function candidatesOf(words: readonly string[], commands: readonly Command[]): readonly string[] {
  const names = commands.map(({ name, summary }) => `${name}\t${summary}`)
  if (words.length < 2) return names
  const command = commands.find(({ name }) => name === words[0])
  if (command === undefined) return []
  const options = Object.entries(optionsOf(command))
  const value = options.find((entry) => optionNames(entry).includes(words.at(-2) ?? ''))?.[1].value
  if (value !== undefined) return value === 'FORMAT' ? ['text', 'json'] : /FILE|DIR|SOCKET/.test(value) ? [files] : []
  if (words.at(-1)?.startsWith('-')) {
    return options.flatMap((entry) => optionNames(entry).map((name) => `${name}\t${entry[1].help}`))
  }
  return [
    ...(/\bCOMMAND\b/.test(command.words) ? names : (command.choices ?? [])),
    ...(/\bNET\b/.test(command.words) ? networkNames() : []),
    // bash expands its candidates as a shell: names with more than these characters are not offered.
    ...(/\bPOD\b/.test(command.words) ? namesIn('/run/netns').filter((name) => /^[\w.-]+$/.test(name)) : []),
    ...(/FILE|DIR|CONFLIST|CMD/.test(command.words) ? [files] : []),
  ]
}

/** The long option with its dashes, and the short one. */
function optionNames([name, { short }]: readonly [string, Option]): readonly string[] {
  return [`--${name}`, ...(short === undefined ? [] : [`-${short}`])]
}
