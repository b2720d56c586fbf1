// SPDX-License-Identifier: Apache-2.0
// Plugins as a person starts them, and their failures with cause and cure.

import { type Diagnosis, diagnoses } from '../../catalogue/diagnosis.ts'
import { CniError, toCniError } from '../../cni/errors.ts'
import { defined } from '../../cni/json.ts'
import { atLeast, type CniVersion, isSupported } from '../../cni/results.ts'
import { nowMs } from '../../process/clock.ts'
import type { Run } from '../../process/runner.ts'
import { runnerUntil } from '../../process/runner.ts'
import type { Input } from '../command.ts'
import { recognise } from '../explain/recognise.ts'
import { failureOf, PluginError } from '../failure.ts'
import type { NetworkList } from '../network-list.ts'
import { missingPlugins, pluginPath, type Runtime } from '../plugin-runtime.ts'

/** Plugins of others may wait for a daemon; kubelet gives a runtime two minutes. */
const pluginMs = 120_000

/** After a signal `run` rejects, when its program has ended by itself, and `undo` does not. */
export interface Runners {
  readonly run: Run
  readonly undo: Run
}

export function openRunners({ output }: Pick<Input, 'output'>): Runners {
  let signal: string | undefined
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => (signal ??= name))
  const undo: Run = async (command) => {
    const ran = await runnerUntil({ endsAtMs: nowMs() + pluginMs })(command)
    if (ran.code === 0 && ran.stderr !== '') output.err(ran.stderr)
    return ran
  }
  const refuseEnded = () => {
    if (signal !== undefined) throw failureOf('call-interrupted', `ended by ${signal}`)
  }
  const run: Run = async (command) => {
    refuseEnded()
    const ran = await undo(command)
    refuseEnded()
    return ran
  }
  return { run, undo }
}

/**
 * The plugins of a network, with this process's environment, as libcni starts them. `own`: the source of trestle
 * itself. Throws CniError 105 when a plugin is missing.
 */
export function runtimeFor(list: NetworkList, run: Run, own: 'installed' | 'either' = 'either'): Runtime {
  const cniPath = pluginPath()
  const [missing] = missingPlugins({ network: list, cniPath, own })
  if (missing !== undefined) {
    const details = 'set CNI_PATH to the directories of the plugins'
    throw failureOf('plugin-missing', `the plugin "${missing}" is not in ${cniPath}`, { details })
  }
  return { run, network: list, cniPath, own, env: defined(process.env) as Record<string, string> }
}

/** Says on stderr that a runtime would not find a plugin for which this program stands in. */
export function tellNotInstalled({ output }: Pick<Input, 'output'>, { network, cniPath }: Runtime): void {
  const [missing] = missingPlugins({ network, cniPath, own: 'installed' })
  if (missing === undefined) return
  const said = `"${missing}" is not in ${cniPath}: this program runs in its place; a runtime's ADD would fail`
  output.err(`trestle: ${said}\n`)
}

/** Throws CniError 1 where the network's version does not have the verb. */
export function requireVerb(list: NetworkList, verb: string, since: CniVersion): void {
  if (isSupported(list.cniVersion) && atLeast(list.cniVersion, since)) return
  const details = 'raise cniVersion in the configuration; `trestle lint` names what its plugins speak'
  const message = `${verb} came with CNI ${since}, and network ${list.name} has cniVersion ${list.cniVersion}`
  throw failureOf('verb-needs-newer-version', message, { details })
}

/** The failure of a call as a person reads it. `on`: the call; `after`: lines about its consequences. */
export function explained(thrown: unknown, on: string, after: readonly string[] = []): CniError {
  const failure = toCniError(thrown)
  const { code, id, message } = failure
  const known = causeOf(failure)
  const causes = known === undefined ? [] : [`cause: ${known.causes.join('; or ')}`, `cure:  ${known.cure}`]
  const details = [...(failure.details?.trimEnd().split('\n') ?? []), ...causes, ...after].join('\n')
  const by = failure instanceof PluginError ? `plugin ${failure.type}, code ${code}: ` : ''
  const error = new CniError(code, id, `${on}: ${by}${message}`, { details })
  return failure instanceof PluginError ? new PluginError(failure.type, error) : error
}

/** Errors of trestle that quote another program. */
const passedOn: readonly string[] = ['plugin-refused', 'plugin-failed', 'command-failed', 'internal-error']

/** The diagnosis of a failure: of the quoted program's words where they are known, else of trestle's own error. */
function causeOf({ id, message, details }: CniError): Diagnosis | undefined {
  const own = diagnoses().get(id)
  if (!passedOn.includes(id)) return own
  return recognise([message, details].filter(Boolean).join('\n')).errors.find(({ role }) => role === 'cause') ?? own
}
