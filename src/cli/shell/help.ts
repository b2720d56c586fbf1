// SPDX-License-Identifier: Apache-2.0
// The texts of help, from the commands themselves.

import { type Command, exitCode, type Option } from './command.ts'

/** Options that every command has. */
export const commonOptions = {
  output: { type: 'string', short: 'o', value: 'FORMAT', help: 'text (default) or json; the exit code is the same' },
  help: { type: 'boolean', short: 'h', help: 'show this help' },
} as const satisfies Record<string, Option>

const exitCodes = `Exit codes: 0 fine, 1 findings, 2 usage, 3 could not look.`

/** Help without a command: every command on one line, and examples. */
export function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => usageOf(command).length))
  return [
    'trestle is a CNI plugin: one executable that gives a pod its network.',
    'A container runtime starts it with CNI_COMMAND set; people start it with a command:',
    '',
    ...commands.map((command) => `  trestle ${usageOf(command).padEnd(width)}   ${command.summary}`),
    '',
    'Options of every command:',
    ...optionLines(commonOptions),
    '',
    exitCodes,
    '',
    'Examples:',
    ...commands.flatMap((command) => command.examples.slice(0, 1)).map((example) => `  ${example}`),
    '',
  ].join('\n')
}

/** Help of one command. */
export function commandHelp(command: Command): string {
  return [
    `usage: trestle ${usageOf(command)} [options]`,
    '',
    command.description,
    '',
    'Options:',
    ...optionLines({ ...command.options, ...commonOptions }),
    '',
    exitCodes,
    '',
    'Examples:',
    ...command.examples.map((example) => `  ${example}`),
    '',
  ].join('\n')
}

function usageOf(command: Command): string {
  return `${command.name} ${command.words}`.trimEnd()
}

function optionLines(options: Command['options']): readonly string[] {
  const all = Object.entries(options).map(([name, option]) => ({ left: optionWords(name, option), help: option.help }))
  const width = Math.max(...all.map(({ left }) => left.length))
  return all.map(({ left, help }) => `  ${left.padEnd(width)}  ${help}`)
}

function optionWords(name: string, { short, value }: Option): string {
  return `${short === undefined ? '    ' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`
}

/** Help as data: what each command has. */
export function helpDocument(commands: readonly Command[]) {
  const all = commands.map(({ name, words, summary, description, options, examples }) => ({
    name,
    words,
    summary,
    description,
    options: Object.entries({ ...options, ...commonOptions }).map(([option, about]) => ({ name: option, ...about })),
    examples,
  }))
  return { formatVersion: 1, command: 'help', commands: all, exitCode: exitCode.fine }
}
