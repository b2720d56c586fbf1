// SPDX-License-Identifier: Apache-2.0
// Findings about the runtimes' directories. Pure.

import { join } from 'node:path'
import type { Finding } from '../findings.ts'
import { namesIfThere } from '../if-there.ts'
import { skipsFaultyFiles } from '../runtimes/ask-runtime.ts'
import { type NodeRuntime, runtimeText } from '../runtimes/node-runtimes.ts'
import { type CniSettings, defaultBinDir, defaultConfDir } from '../runtimes/runtime-settings.ts'
import { findingIn } from './finding.ts'
import { isConfigurationName } from './predict.ts'

export function runtimeFindings(runtimes: readonly NodeRuntime[]): readonly Finding[] {
  return runtimes.flatMap((each) => [...brokenSettings(each), ...otherSettings(each)])
}

function brokenSettings({ problem, isDenied, files, edit }: NodeRuntime): readonly Finding[] {
  if (problem === undefined || isDenied === true) return []
  return [findingIn(files[0] ?? edit.file, { id: 'runtime-config-broken', message: problem })]
}

function otherSettings(runtime: NodeRuntime): readonly Finding[] {
  const { onDisk, settings, files, edit } = runtime
  if (onDisk === undefined) return []
  const runs = `${runtimeText(runtime)} runs with ${directoriesText(settings)}`
  const message = `${runs}; its files say ${directoriesText(onDisk)}`
  return [findingIn(files[0] ?? edit.file, { id: 'settings-not-loaded', message })]
}

/** A directory with configurations that no runtime reads. `isNamed`: a person named it. */
export function unusedDirectory(
  directory: string,
  runtimes: readonly NodeRuntime[],
  isNamed: boolean,
): readonly Finding[] {
  const running = runtimes.filter(isRunning)
  const read = running.map(directoryOf)
  const [first] = running
  if (first === undefined || read.includes(directory)) return []
  const their = directoryOf(first)
  const message = `${runtimeText(first)} reads ${their}, and nothing here`
  const cure =
    `move the file to ${their}; to change that, edit ${first.edit.file} (conf_dir, in CRI-O network_dir), then ` +
    `${first.edit.restart}`
  return [findingIn(directory, { id: 'dir-not-used', message, cure, ...(isNamed ? { severity: 'warning' } : {}) })]
}

/** A line for each runtime: its directories, their source, and the file to edit. */
export function runtimeLine(runtime: NodeRuntime): string {
  const { settings, source, edit, root, isDenied } = runtime
  const inside = root === '' ? '' : `, in its own mount namespace (${root})`
  const unsure = isDenied === true ? '; its settings may not be read: run it as root' : ''
  const state = isRunning(runtime) ? '' : ', which does not run'
  const where = `${directoriesText(settings)}${inside}`
  return `${runtimeText(runtime)}${state}: ${where} (${source}; edit ${edit.file})${unsure}`
}

function directoriesText({ confDir, binDirs }: CniSettings): string {
  return `configurations in ${confDir}, plugins in ${binDirs.join(', ')}`
}

/** A directory of configurations. `readers`: the runtimes that read it. */
export interface Target {
  readonly directory: string
  readonly binDirs: readonly string[]
  readonly readers: readonly NodeRuntime[]
  /** Whether CRI-O or cri-dockerd would look for plugins there, as far as known. */
  readonly isOfCrio: boolean
}

/** The directories that runtimes of this node read, each once; `/etc/cni/net.d` without a runtime. */
export function targetsOf(runtimes: readonly NodeRuntime[]): readonly Target[] {
  const directories = [...new Set(runtimes.map(directoryOf))]
  const all = directories.length > 0 ? directories : [defaultConfDir]
  return all.map((directory) => targetOf(directory, runtimes))
}

export function targetOf(directory: string, runtimes: readonly NodeRuntime[]): Target {
  const readers = runtimes.filter((runtime) => directoryOf(runtime) === join(directory, '.'))
  // A stopped runtime counts only for its own directory: Debian's containerd comes with other packages, and has a
  // plugin directory that no other runtime uses.
  const owners = readers.length > 0 ? readers : runtimes.filter(isRunning)
  const isOfCrio = owners.length === 0 || owners.some(({ runtime }) => skipsFaultyFiles(runtime))
  return { directory, readers, binDirs: binDirsOf(owners), isOfCrio }
}

function isRunning({ pid, socket }: NodeRuntime): boolean {
  return pid !== undefined || socket !== undefined
}

/** The directory of a runtime, as a path in this mount namespace. */
function directoryOf({ root, settings }: NodeRuntime): string {
  return join(root, settings.confDir)
}

function binDirsOf([first]: readonly NodeRuntime[]): readonly string[] {
  return first === undefined ? [defaultBinDir] : first.settings.binDirs.map((directory) => join(first.root, directory))
}

/** Plugin directories of packages: Debian, Fedora and Arch, k3s. */
const packaged = [defaultBinDir, '/usr/lib/cni', '/usr/libexec/cni', '/var/lib/rancher/k3s/data/cni']

export function otherBinDirs(binDirs: readonly string[], runtimes: readonly NodeRuntime[]): readonly string[] {
  const known = [...packaged, ...runtimes.flatMap((runtime) => binDirsOf([runtime]))]
  return [...new Set(known)].filter((directory) => !binDirs.includes(directory))
}

/** The usual directory, if it has configurations besides those of podman and nerdctl, which read their own. */
export function usualDirectory(): string | undefined {
  const names = namesIfThere(defaultConfDir).filter(isConfigurationName)
  return names.some((name) => !/podman|nerdctl/.test(name)) ? defaultConfDir : undefined
}
