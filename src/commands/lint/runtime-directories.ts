// SPDX-License-Identifier: Apache-2.0
// The directories of the runtimes on this node, and findings about them. Pure.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isConfigurationName } from '../config-directory.ts'
import type { Finding } from '../findings.ts'
import { namesIfThere } from '../if-there.ts'
import { skipsFaultyFiles } from '../runtimes/ask-runtime.ts'
import { type NodeRuntime, runtimeText } from '../runtimes/node-runtimes.ts'
import { type CniSettings, defaultBinDir, defaultConfDir } from '../runtimes/runtime-settings.ts'
import { findingIn } from './finding.ts'

/** A directory with configurations that no runtime reads. */
export function unusedDirectory(directory: string, runtimes: readonly NodeRuntime[]): readonly Finding[] {
  const [first] = runtimes
  if (first === undefined || runtimes.some((runtime) => directoryOf(runtime) === join(directory, '.'))) return []
  const their = directoryOf(first)
  const message = `${runtimeText(first)} reads ${their}, and nothing here`
  return [findingIn(directory, { id: 'dir-not-used', message, cure: `move the file to ${their}` })]
}

/** A line for each runtime: its directories, and their source. */
export function runtimeLine(runtime: NodeRuntime): string {
  const { settings, source, root, isDenied } = runtime
  const inside = root === '' ? '' : `, in its own mount namespace (${root})`
  const unsure = isDenied === true ? '; it may not be asked: run it as root' : ''
  return `${runtimeText(runtime)}: ${directoriesText(settings)}${inside} (${source})${unsure}`
}

function directoriesText({ confDir, binDirs }: CniSettings): string {
  return `configurations in ${confDir}, plugins in ${binDirs.join(', ')}`
}

/** A directory of configurations. `readers`: the runtimes that read it. */
export interface Target {
  readonly directory: string
  readonly binDirs: readonly string[]
  readonly readers: readonly NodeRuntime[]
  /** Whether CRI-O would look for plugins there, as far as known. */
  readonly isOfCrio: boolean
}

/** The directories that runtimes of this node read, each once; `/etc/cni/net.d` without a runtime. */
export function targetsOf(runtimes: readonly NodeRuntime[]): readonly Target[] {
  const directories = [...new Set(runtimes.map(directoryOf))]
  return (directories.length > 0 ? directories : [defaultConfDir]).map((directory) => targetOf(directory, runtimes))
}

export function targetOf(directory: string, runtimes: readonly NodeRuntime[]): Target {
  const readers = runtimes.filter((runtime) => directoryOf(runtime) === join(directory, '.'))
  const owners = readers.length > 0 ? readers : runtimes
  const isOfCrio = owners.length === 0 || owners.some(({ runtime }) => skipsFaultyFiles(runtime))
  const fromEnv = process.env['CNI_PATH']
  return { directory, readers, binDirs: fromEnv ? fromEnv.split(':') : binDirsOf(owners[0]), isOfCrio }
}

/** The directory of a runtime, as a path in this mount namespace. */
function directoryOf({ root, settings }: NodeRuntime): string {
  return join(root, settings.confDir)
}

function binDirsOf(runtime: NodeRuntime | undefined): readonly string[] {
  if (runtime === undefined) return [defaultBinDir]
  return runtime.settings.binDirs.map((directory) => join(runtime.root, directory))
}

/** Plugin directories of packages (Debian, Fedora and Arch, k3s) and of other runtimes, which a runtime does not search. */
export function otherBinDirs(binDirs: readonly string[], runtimes: readonly NodeRuntime[]): readonly string[] {
  const packaged = [defaultBinDir, '/usr/lib/cni', '/usr/libexec/cni', '/var/lib/rancher/k3s/data/cni']
  const known = [...packaged, ...runtimes.flatMap((runtime) => binDirsOf(runtime))]
  return [...new Set(known)].filter((directory) => !binDirs.includes(directory))
}

/** The usual directory, if it has configurations besides those of podman and nerdctl, which read their own. */
export function usualDirectory(): string | undefined {
  const names = namesIfThere(defaultConfDir).filter(isConfigurationName)
  return names.some((name) => !/podman|nerdctl/.test(name)) ? defaultConfDir : undefined
}

/** Folders below a directory that have lists: nerdctl 2 has one for each of its namespaces. */
export function foldersOf(directory: string): readonly string[] {
  const folders = namesIfThere(directory).map((name) => join(directory, name))
  return folders.filter((folder) => {
    return existsSync(join(folder, '.')) && namesIfThere(folder).some((name) => name.endsWith('.conflist'))
  })
}
