// SPDX-License-Identifier: Apache-2.0
// `trestle man`: the manual page of trestle or of a command, in the language of man(7), from the table of `--help`.

import {
  type Command,
  exitCode,
  exitCodes,
  type Input,
  optionsOf,
  optionWords,
  UsageError,
  usageOf,
} from '../shell/command.ts'
import { print } from '../shell/output.ts'
import { versionText } from '../version/version.ts'

/** `commands` is called when the command runs, since the list of all commands contains this command. */
export function manCommand(commands: () => readonly Command[]): Command {
  return {
    name: 'man',
    words: '[COMMAND]',
    maxWords: 1,
    summary: 'print the manual page of trestle or of a command',
    description: [
      'Prints a manual page for man(1): trestle(1), or of COMMAND, like trestle-add(1).',
      '  trestle man >/usr/local/share/man/man1/trestle.1',
    ].join('\n'),
    options: {},
    examples: ['trestle man | man -l -', 'trestle man add | man -l -'],
    run: (input) => run(input, commands()),
  }
}

function run(input: Input, commands: readonly Command[]): number {
  const [name] = input.words
  const command = commands.find((each) => each.name === name)
  if (name !== undefined && command === undefined) throw new UsageError(`there is no command "${name}"`)
  const text = command === undefined ? wholePage(commands) : commandPage(command)
  return print(input, { command: 'man', document: { page: text }, text, code: exitCode.fine })
}

function wholePage(commands: readonly Command[]): string {
  return lines([
    `.TH TRESTLE 1 "" "${escaped(versionText)}" "trestle"`,
    ['.SH NAME', 'trestle \\- a CNI plugin: one executable that gives a pod its network'],
    ['.SH SYNOPSIS', '.B trestle', '.I COMMAND', '[options]'],
    '.SH DESCRIPTION',
    escaped('A container runtime starts trestle with CNI_COMMAND; people start trestle with a command.'),
    '.SH COMMANDS',
    commands.flatMap((command) => [
      `.SS ${escaped(usageOf(command))}`,
      paragraphs(`${command.summary}.\n\n${command.description}`),
      optionList(command),
    ]),
    ['.SH EXIT STATUS', escaped(exitCodes)],
    ['.SH EXAMPLES', '.nf', ...commands.flatMap(({ examples }) => examples.slice(0, 1).map(escaped)), '.fi'],
  ])
}

function commandPage(command: Command): string {
  const { name, summary, description, examples } = command
  return lines([
    `.TH TRESTLE-${escaped(name.toUpperCase())} 1 "" "${escaped(versionText)}" "trestle"`,
    ['.SH NAME', escaped(`trestle-${name}`).concat(' \\- ', escaped(summary))],
    ['.SH SYNOPSIS', `.B trestle ${escaped(usageOf(command))}`, '[options]'],
    ['.SH DESCRIPTION', paragraphs(description)],
    ['.SH OPTIONS', optionList(command)],
    ['.SH EXIT STATUS', escaped(exitCodes)],
    ['.SH EXAMPLES', '.nf', ...examples.map(escaped), '.fi'],
    ['.SH SEE ALSO', '.BR trestle (1)'],
  ])
}

/** Lines of a description: a blank line ends a paragraph, and an indented line stays as it is. */
function paragraphs(text: string): readonly string[] {
  return text.split('\n').map((line) => {
    if (line === '') return '.PP'
    return line.startsWith(' ') ? `.br\n${escaped(line)}` : escaped(line)
  })
}

function optionList(command: Command): readonly string[] {
  return Object.entries(optionsOf(command)).flatMap(([name, option]) => [
    '.TP',
    `.B ${escaped(optionWords(name, option).trim())}`,
    escaped(option.help),
  ])
}

/** Escapes backslashes, dashes and dots at the start of a line, so that groff prints them (groff_man_style(7)). */
function escaped(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('…', '...')
    .replace(/^(?=[.'])/gm, '\\&')
}

function lines(parts: readonly (string | readonly (string | readonly string[])[])[]): string {
  return `${parts.flat(2).join('\n')}\n`
}
