// SPDX-License-Identifier: Apache-2.0
// `trestle restore`: makes bridges, ports, rules and limits again that are in the state and missing on the host.

import { openContext } from '../../commands/call/context.ts'
import { type Restored, restore } from '../../commands/verbs/restore.ts'
import { type Command, exitCode, type Input } from '../shell/command.ts'
import { print } from '../shell/output.ts'
import { requireRoot, thisProgram } from '../shell/self.ts'

export const restoreCommand: Command = {
  name: 'restore',
  words: '',
  maxWords: 0,
  summary: 'rebuild bridges, ports, rules and limits from state after a flush',
  description: [
    'Compares the state of every network with the host and makes missing parts again: bridges and their ports,',
    'nftables rules, bandwidth limits, forwarding. restore leaves intact parts alone, and a second run changes',
    'nothing. With --dry-run it only lists missing parts, with exit code 1. Exit code 1 also means that a live pod',
    'has lost its interface, or a bridge that nothing tells. DEL or `trestle gc` removes the rest of a pod whose',
    'namespace is gone.',
  ].join('\n'),
  options: {
    'dry-run': { type: 'boolean', help: 'list missing parts, change nothing' },
    'systemd-unit': { type: 'boolean', help: 'print a unit that runs restore after a firewall starts or reloads' },
  },
  examples: [
    'trestle restore',
    'trestle restore --dry-run',
    'trestle restore -o json',
    'trestle restore --systemd-unit',
  ],
  run,
}

async function run(input: Input): Promise<number> {
  const { values } = input
  if (values['systemd-unit'] === true) {
    const { file, args } = thisProgram()
    const unit = restoreUnit([file, ...args, 'restore'])
    return print(input, { command: 'restore', document: { unit }, text: unit, code: exitCode.fine })
  }
  requireRoot('restore', 'restore reads the state and the rules of the node')
  const isDry = values['dry-run'] === true
  const restored = await restore(openContext(new AbortController().signal), !isDry)
  const { missing, lost, ended, unplaced, elsewhere } = restored
  const isOpen = (isDry && missing.length > 0) || lost.length + unplaced.length + elsewhere.length > 0
  const code = isOpen ? exitCode.findings : exitCode.fine
  const document = { applied: !isDry, missing, lost, ended, unplaced, elsewhere }
  return print(input, { command: 'restore', document, text: asText(restored, isDry), code })
}

function asText({ missing, lost, ended, unplaced, elsewhere }: Restored, isDry: boolean): string {
  const verb = isDry ? 'missing ' : 'restored'
  const lines = [
    ...missing.map((text) => `  ${verb}  ${text}\n`),
    ...lost.map((text) => `  lost      ${text}: the interface or its bridge is gone, recreate the pod\n`),
    ...ended.map((text) => `  ended     ${text}: the namespace is gone; DEL or trestle gc removes the rest\n`),
    ...unplaced.map(
      (text) => `  unplaced  ${text}: on no bridge; the next ADD of the network (trestle add) puts it back\n`,
    ),
    ...elsewhere.map((text) => `  left      ${text}: belongs to another host network namespace\n`),
  ]
  const more = [
    ...(ended.length > 0 ? [`, ${ended.length} ended`] : []),
    ...(unplaced.length > 0 ? [`, ${unplaced.length} unplaced`] : []),
  ].join('')
  return `${lines.join('')}${missing.length} ${verb.trim()}, ${lost.length} lost${more}\n`
}

// The unit that runs `trestle restore` after each start, restart or reload of a firewall (systemd.unit(5)).
//
// `After=` orders the unit behind the firewall's job, a reload included. `WantedBy=` starts, `PartOf=` restarts and
// `ReloadPropagatedFrom=` reloads the unit with the firewall; the last two need an active unit, hence
// `RemainAfterExit=`. systemd ignores firewalls that are not installed.

/** Services whose start, restart or reload flushes or rebuilds foreign rules. */
const firewalls = ['nftables.service', 'firewalld.service', 'docker.service']

/** The text of trestle-restore.service. `words`: the command line, with the program's absolute path first. */
export function restoreUnit(words: readonly string[]): string {
  const command = words.map(quoted).join(' ')
  const all = firewalls.join(' ')
  return `[Unit]
Description=Restore pod networks after a firewall flushed their rules
After=${all}
PartOf=${all}
ReloadPropagatedFrom=${all}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=${command}
ExecReload=${command}
# Exit code 1: a pod's own interface is gone, say. The rest is restored.
SuccessExitStatus=1

[Install]
WantedBy=multi-user.target ${all}
`
}

/** A word of a command line, quoted if necessary, without specifiers and variables (systemd.service(5)). */
function quoted(word: string): string {
  const literal = word.replaceAll('%', '%%').replaceAll('$', '$$$$')
  return /^[\w./%:@+=-]+$/.test(literal) ? literal : `"${literal.replace(/[\\"]/g, '\\$&')}"`
}
