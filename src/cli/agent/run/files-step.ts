// SPDX-License-Identifier: Apache-2.0
// The round's part in directories: the executable, the configuration, and what stands in their way.

import { existsSync } from 'node:fs'
import { isSea } from 'node:sea'
import { conflistText } from '../../../plan/agent/conflist.ts'
import type { Problem } from '../../../plan/agent/problem.ts'
import { installProgram, isSameProgram, sortsBefore, writeConfiguration } from '../node/configuration.ts'
import type { RoundInput } from './round.ts'

/** Puts executable and configuration in place; the configuration only where the node has ranges. Returns what is wrong. */
export function settleFiles(
  { settings, log, metrics }: Pick<RoundInput, 'settings' | 'log' | 'metrics'>,
  podCidrs: readonly string[] | undefined,
): readonly Problem[] {
  const { binDir, confDir, confName, network, mode, cniVersion } = settings
  const program = `${binDir}/trestle`
  // Unpacked, in development, there is no executable of ours to put there.
  if (isSea() && process.execPath !== program && !isSameProgram(program, process.execPath)) {
    const isNew = !existsSync(program)
    installProgram(program, process.execPath)
    metrics.repairs.inc()
    log(isNew ? 'info' : 'warning', isNew ? 'executable installed' : 'executable replaced', { file: program })
  }
  if (podCidrs === undefined) return []
  const file = `${confDir}/${confName}`
  if (writeConfiguration(file, conflistText({ name: network, mode, cniVersion, podCidrs })))
    log('info', 'configuration written', { file, podCidrs })
  return [...otherConfigurations(settings), ...missingPrograms(settings)]
}

function otherConfigurations({ node, confDir, confName }: RoundInput['settings']): readonly Problem[] {
  const [first, ...more] = sortsBefore(confDir, confName)
  if (first === undefined) return []
  const others = [first, ...more].join(', ')
  const text = `${confDir} has ${others} before ${confName}: the runtime uses ${first}; remove what is not wanted`
  return [{ id: 'OtherConfiguration', node, text }]
}

const programDirs = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** The plugin runs on the host, not in the agent's container. */
function missingPrograms({ node, hostRoot }: RoundInput['settings']): readonly Problem[] {
  const isThere = (tool: string) => programDirs.some((directory) => existsSync(`${hostRoot}${directory}/${tool}`))
  const missing = ['ip', 'nft', 'tc'].filter((tool) => !isThere(tool))
  if (missing.length === 0) return []
  const text = `the host has no ${missing.join(', ')}: pods get no network; install nftables and iproute2 there`
  return [{ id: 'NoProgram', node, text }]
}
