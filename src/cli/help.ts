// SPDX-License-Identifier: Apache-2.0
// The texts of help, from the commands themselves.

import type { Command, Option } from './command.ts'

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
    ...Object.entries(commonOptions).map(([name, option]) => optionLine(name, option)),
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
  const options = Object.entries({ ...command.options, ...commonOptions })
  return [
    `usage: trestle ${usageOf(command)} [options]`,
    '',
    command.description,
    '',
    'Options:',
    ...options.map(([name, option]) => optionLine(name, option)),
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

function optionLine(name: string, option: Option): string {
  const short = option.short === undefined ? '    ' : `-${option.short}, `
  const value = option.value === undefined ? '' : ` ${option.value}`
  return `  ${`${short}--${name}${value}`.padEnd(22)}  ${option.help}`
}
