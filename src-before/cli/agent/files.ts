// SPDX-License-Identifier: Apache-2.0
// The round's files: the executable, the configuration, and obstacles to both.

import { existsSync, lstatSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { isSea } from 'node:sea'
import type { Mode } from '../../model/attachment.ts'
import {
  conflistText,
  emptyTemplate,
  otherTypes,
  rangesIn,
  type Template,
  withoutRanges,
} from '../../plan/agent/conflist.ts'
import { bridgeKey } from '../../plan/agent/new-pods.ts'
import type { Problem } from '../../plan/agent/problem.ts'
import { readableText, readText, writeSynced } from '../../system/files/files.ts'
import { isOnHost } from '../../system/process/programs.ts'
import type { Run } from '../../system/process/runner.ts'
import { sweepTemporaries } from '../../system/store/sweep.ts'
import { namesIfThere } from '../node/if-there.ts'
import { isOwnType } from '../node/own-type.ts'
import { settleProgram } from './program.ts'
import type { RoundInput } from './round.ts'
import { lookAtTemplate } from './template.ts'

type FilesInput = Pick<RoundInput, 'settings' | 'log' | 'metrics' | 'known'>

/** Puts the executable in place. Returns a problem if the host cannot run it. */
export async function settleExecutable({ settings, log, metrics }: FilesInput, run: Run): Promise<readonly Problem[]> {
  const { binDir, hostRoot, node } = settings
  const program = `${binDir}/trestle`
  // An unpacked agent, in development, has no executable to install.
  if (!isSea() || process.execPath === program) return []
  const isNew = !existsSync(program)
  const { changed, refused } = await settleProgram({ binDir, hostRoot, own: process.execPath, run })
  if (changed.length > 0) {
    metrics.repairs.inc()
    log(isNew ? 'info' : 'warning', isNew ? 'executable installed' : 'executable replaced', { files: changed })
  }
  if (refused === undefined) return []
  return [{ id: 'ProgramFails', node, text: `the host cannot run this version, ${program} stays as it is: ${refused}` }]
}

/** Reads a changed template. Returns its problems. */
export function settleTemplate(
  { settings, log, known }: FilesInput,
  { mode, podCidrs }: Pick<NewPods, 'mode' | 'podCidrs'>,
): readonly Problem[] {
  const before = known.template
  known.template = lookAtTemplate({ ...settings, mode }, podCidrs, before)
  const { seen, wrong, remarks } = known.template
  if (before?.seen !== seen) for (const remark of remarks) log('warning', 'template', { remark })
  if (wrong === undefined) return []
  return [{ id: 'BadTemplate', node: settings.node, text: `${wrong}: the configuration does not follow the template` }]
}

/** What the configuration of new pods has. */
interface NewPods {
  readonly template: Template
  readonly mode: Mode
  readonly bridge: string | undefined
  readonly podCidrs: readonly string[]
}

/** Writes the configuration. Returns problems that keep the runtime from using it. */
export function settleConfiguration({ settings, log }: FilesInput, pods: NewPods): readonly Problem[] {
  const { confDir, confName, network, cniVersion } = settings
  const { mode, bridge, podCidrs, template } = pods
  const file = `${confDir}/${confName}`
  const facts = { name: network, mode, cniVersion, podCidrs, bridge: bridge && bridgeKey(bridge), template }
  if (writeConfiguration(file, conflistText(facts))) log('info', 'configuration written', { file, podCidrs })
  return otherConfigurations(settings)
}

/** The ranges of the written configuration; undefined without one. */
export function writtenRanges({ confDir, confName }: RoundInput['settings']): readonly string[] | undefined {
  const text = readableText(`${confDir}/${confName}`)
  return text === undefined ? undefined : rangesIn(text)
}

/** Takes the ranges out of the configuration. Without a configuration containerd would remove no pod. */
export function withdrawRanges({ settings, log }: FilesInput): readonly Problem[] {
  const file = `${settings.confDir}/${settings.confName}`
  const text = readableText(file)
  if (text === undefined) return []
  if (rangesIn(text).length > 0 && writeConfiguration(file, withoutRanges(text)))
    log('warning', 'configuration written', { file, podCidrs: [] })
  return otherConfigurations(settings)
}

function otherConfigurations({ node, confDir, confName }: RoundInput['settings']): readonly Problem[] {
  const [first, ...more] = sortsBefore(confDir, confName)
  if (first === undefined) return []
  const others = [first, ...more].join(', ')
  const text = `${confDir} has ${others} before ${confName}: the runtime uses ${first}; remove what is not wanted`
  return [{ id: 'OtherConfiguration', node, text }]
}

/** Programs missing on the host: every pod needs them there, and not in the agent's container. */
export function missingPrograms({ settings, known }: FilesInput): readonly Problem[] {
  const { node, binDir } = settings
  const tools = ['ip', 'nft', 'tc'].filter((tool) => !isOnHost(tool))
  const plugins = otherTypes(known.template?.good ?? emptyTemplate).filter((type) => !isPluginThere(type, settings))
  const problem = (lacks: string, cure: string): Problem => {
    return { id: 'NoProgram', node, text: `${lacks}: pods get no network; ${cure}` }
  }
  return [
    ...(tools.length > 0
      ? [problem(`the host has no ${tools.join(', ')}`, 'install nftables and iproute2 there')]
      : []),
    ...(plugins.length > 0
      ? [problem(`${binDir} has no ${plugins.join(', ')}`, 'install the plugin there, or take it out of the template')]
      : []),
  ]
}

/** Plugin directories of packages, which a runtime may search beside the agent's: Debian, Fedora and Arch. */
const packaged = ['/opt/cni/bin', '/usr/lib/cni', '/usr/libexec/cni']

/** Whether the host has a plugin. A link's target is a path of the host, so it is not followed. */
function isPluginThere(type: string, { binDir, hostRoot }: RoundInput['settings']): boolean {
  if (isOwnType(type)) return true
  const directories = [binDir, ...packaged.map((directory) => `${hostRoot}${directory}`)]
  return directories.some((directory) => lstatSync(`${directory}/${type}`, { throwIfNoEntry: false }) !== undefined)
}

// The runtime's configuration file, written last and as a whole.

/** Writes the configuration if the file differs. Returns whether it did. */
function writeConfiguration(file: string, text: string): boolean {
  const found = readText(file)
  if (found !== undefined && found !== 'unreadable' && found.text === text) return false
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  sweepTemporaries(dirname(file))
  writeSynced(file, text)
  return true
}

/** Configuration files that sort before trestle's; a runtime uses the first file (libcni, ConfFiles). */
function sortsBefore(directory: string, name: string): readonly string[] {
  const names = namesIfThere(directory).filter((each) => /\.(conf|conflist|json)$/.test(each))
  return names.filter((each) => each < name).sort()
}
