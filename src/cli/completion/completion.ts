// SPDX-License-Identifier: Apache-2.0
// `trestle completion`: a script for bash, zsh or fish, from the same table as `--help`.

import { networkNames } from '../by-hand/nets.ts'
import { type Command, exitCode, type Input, type Option, optionsOf, UsageError } from '../shell/command.ts'
import { type Output, print } from '../shell/output.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** The word behind which the scripts find the networks of this node. */
export const networksWord = '__networks'

export function printNetworks(output: Output): number {
  output.out(
    networkNames()
      .map((name) => `${name}\n`)
      .join(''),
  )
  return exitCode.fine
}

/** `commands`: all, asked for late, since this one is among them. */
export function completionCommand(commands: () => readonly Command[]): Command {
  return {
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
    run: (input) => run(input, commands()),
  }
}

function run(input: Input, commands: readonly Command[]): number {
  const shell = shells.find((each) => each === input.words[0])
  if (shell === undefined) throw new UsageError(`name a shell: ${shells.join(', ')}`)
  const script = scripts[shell](commands)
  return print(input, { command: 'completion', document: { shell, script }, text: script, code: exitCode.fine })
}

const scripts: Readonly<Record<Shell, (commands: readonly Command[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

/** Shell commands that print the words of a command, a line each: fixed ones, or networks and pods. */
function wordsOf({ words, choices }: Command, all: readonly Command[]): string {
  const fixed = /\bCOMMAND\b/.test(words) ? all.map(({ name }) => name) : (choices ?? [])
  const sources = [
    ...(fixed.length === 0 ? [] : [`printf "%s\\n" ${fixed.join(' ')}`]),
    ...(/\bNET\b/.test(words) ? [`trestle ${networksWord}`] : []),
    ...(/\bPOD\b/.test(words) ? ['ip netns list | cut -d" " -f1'] : []),
  ]
  return sources.join('; ')
}

const takesFile = ({ value = '' }: Option) => /FILE|DIR|SOCKET/.test(value)
const hasFiles = ({ words }: Command) => /FILE|DIR|CONFLIST|CMD/.test(words)
const isFormat = ({ value }: Option) => value === 'FORMAT'

/** The long options of a command with their dashes, and the short ones. */
function namesOf([name, { short }]: readonly [string, Option]): readonly string[] {
  return [`--${name}`, ...(short === undefined ? [] : [`-${short}`])]
}

function bashScript(commands: readonly Command[]): string {
  const cases = commands.map((command) => {
    const options = Object.entries(optionsOf(command))
    const words = wordsOf(command, commands)
    const files = options.filter(([, option]) => takesFile(option)).flatMap(namesOf)
    return [
      `    ${command.name})`,
      `      options='${options.flatMap(namesOf).join(' ')}' files='${files.join(' ')}'`,
      ...(words === '' ? [] : [`      [[ $word == -* ]] || words=$({ ${words}; } 2>/dev/null)`]),
      ...(hasFiles(command) ? ['      any=1'] : []),
      '      ;;',
    ].join('\n')
  })
  return `# bash completion of trestle
_trestle() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} options= files= words= any=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '${commands.map(({ name }) => name).join(' ')}' -- "$word"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
  esac
  if [[ $before == -o || $before == --output ]]; then
    COMPREPLY=($(compgen -W 'text json' -- "$word"))
  elif [[ " $files " == *" $before "* ]]; then
    COMPREPLY=($(compgen -f -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [[ -n $any ]]; then COMPREPLY+=($(compgen -f -- "$word")); fi
  fi
}
complete -F _trestle trestle
`
}

function zshScript(commands: readonly Command[]): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  const told = (text: string) => text.replace(/[[\]:\\]/g, '\\$&')
  const cases = commands.map((command) => {
    const options = Object.entries(optionsOf(command)).flatMap((entry) => {
      const [, option] = entry
      const { value, help } = option
      const action = isFormat(option) ? '(text json)' : takesFile(option) ? '_files' : ' '
      const argument = value === undefined ? '' : `:${told(value)}:${action}`
      return namesOf(entry).map((name) => quoted(`${name}[${told(help)}]${argument}`))
    })
    const words = wordsOf(command, commands)
    const rest = [
      ...(words === '' ? [] : [`compadd -- \${(f)"$({ ${words}; } 2>/dev/null)"}`]),
      ...(hasFiles(command) ? ['_files'] : []),
    ]
    const ending =
      rest.length === 0 ? [] : [`      if [[ $state == rest && $PREFIX != -* ]]; then ${rest.join('; ')}; fi`]
    const all = [...options, ...(rest.length === 0 ? [] : ["'*: :->rest'"])]
    return [`    ${command.name})`, `      _arguments -s ${all.join(' ')}`, ...ending, '      ;;'].join('\n')
  })
  return `#compdef trestle
# zsh completion of trestle
_trestle() {
  local -a commands
  local context state state_descr line
  typeset -A opt_args
  commands=(
${commands.map(({ name, summary }) => `    ${quoted(`${name}:${told(summary)}`)}`).join('\n')}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
${cases.join('\n')}
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _trestle "$@"; else compdef _trestle trestle; fi
`
}

function fishScript(commands: readonly Command[]): string {
  const quoted = (text: string) => `'${text.replace(/[\\']/g, '\\$&')}'`
  const lines = commands.flatMap((command) => {
    const { name, summary } = command
    const seen = `-n '__fish_seen_subcommand_from ${name}'`
    const words = wordsOf(command, commands)
    return [
      `complete -c trestle -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`,
      ...(hasFiles(command) ? [`complete -c trestle ${seen} -F`] : []),
      ...(words === '' ? [] : [`complete -c trestle ${seen} -a ${quoted(`(begin; ${words}; end 2>/dev/null)`)}`]),
      ...Object.entries(optionsOf(command)).map(([option, about]) => {
        const names = `-l ${option}${about.short === undefined ? '' : ` -s ${about.short}`}`
        const kind = isFormat(about) ? " -xa 'text json'" : takesFile(about) ? ' -rF' : ' -x'
        const argument = about.value === undefined ? '' : kind
        return `complete -c trestle ${seen} ${names}${argument} -d ${quoted(about.help)}`
      }),
    ]
  })
  return ['# fish completion of trestle', 'complete -c trestle -f', ...lines, ''].join('\n')
}
