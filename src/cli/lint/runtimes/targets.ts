// SPDX-License-Identifier: Apache-2.0
// Which directories are to be looked at, and where the plugins of each are: as the runtimes of the node have them, and
// as everybody has them where there is no runtime.

import { dirname, join } from 'node:path'
import type { NodeRuntime } from '../../node/runtime-directories.ts'
import { defaultBinDir, defaultConfDir } from '../../node/runtime-settings.ts'

/** A directory of configurations. `readers`: the runtimes that read it. */
export interface Target {
  readonly directory: string
  readonly binDirs: readonly string[]
  readonly readers: readonly NodeRuntime[]
  /** Whether CRI-O would look for plugins there, as far as is known. */
  readonly isOfCrio: boolean
}

/** The directories that runtimes of this node read, each once; `/etc/cni/net.d` where there is no runtime. */
export function targetsOf(runtimes: readonly NodeRuntime[]): readonly Target[] {
  const directories = [...new Set(runtimes.flatMap(directoriesOf))]
  const all = directories.length > 0 ? directories : [defaultConfDir]
  return all.map((directory) => targetOf(directory, runtimes))
}

/** A directory that a person names. */
export function targetOf(directory: string, runtimes: readonly NodeRuntime[]): Target {
  const readers = runtimes.filter((runtime) => directoriesOf(runtime).includes(join(directory, '.')))
  // One that is installed and does not run decides nothing about what it does not read: Debian's containerd comes with
  // other packages, and has its plugins where nobody else looks.
  const owners = readers.length > 0 ? readers : runtimes.filter(isRunning)
  const isOfCrio = owners.length === 0 || owners.some(({ runtime }) => runtime === 'CRI-O')
  return { directory, readers, binDirs: binDirsOf(owners), isOfCrio }
}

/** Where the plugins of a file are: those of the runtime that reads it, or else of the first one. */
export function binDirsFor(file: string, runtimes: readonly NodeRuntime[]): readonly string[] {
  return targetOf(dirname(file), runtimes).binDirs
}

function isRunning({ pid, socket }: NodeRuntime): boolean {
  return pid !== undefined || socket !== undefined
}

/** Where a runtime reads, as its paths are seen from here. */
export function directoriesOf({ root, settings }: NodeRuntime): readonly string[] {
  const { confDir, ofHandlers = [] } = settings
  return [confDir, ...ofHandlers.map((each) => each.confDir)].map((directory) => join(root, directory))
}

function binDirsOf([first]: readonly NodeRuntime[]): readonly string[] {
  return first === undefined ? [defaultBinDir] : first.settings.binDirs.map((directory) => join(first.root, directory))
}

/** Other places where packages put plugins: Debian, Fedora and Arch, k3s. */
const packaged = [defaultBinDir, '/usr/lib/cni', '/usr/libexec/cni', '/var/lib/rancher/k3s/data/cni']

/** Where plugins may be besides `binDirs`. */
export function otherBinDirs(binDirs: readonly string[], runtimes: readonly NodeRuntime[]): readonly string[] {
  const known = [...packaged, ...runtimes.flatMap((runtime) => binDirsOf([runtime]))]
  return [...new Set(known)].filter((directory) => !binDirs.includes(directory))
}
