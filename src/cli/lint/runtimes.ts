// SPDX-License-Identifier: Apache-2.0
// What is wrong with where the runtimes of the node look. Pure: what was seen is given.

import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type DeadFlag, deadKubeletFlags, processesOf } from '../node/processes.ts'
import { type CniSettings, defaultBinDir, defaultConfDir } from '../node/runtime-settings.ts'
import { type NodeRuntime, nodeRuntimes, runtimeText } from '../node/runtimes.ts'
import type { Finding } from '../shell/findings.ts'
import type { FileLint } from './file.ts'
import { findingIn } from './finding.ts'
import { extensionOf } from './predict.ts'

/** What was seen of the node. */
export interface NodeView {
  readonly runtimes: readonly NodeRuntime[]
  readonly flags: readonly DeadFlag[]
  /** Whether a kubelet runs. */
  readonly hasKubelet: boolean
}

/** A node without runtimes, or one that is not asked about. */
export const noNode: NodeView = { runtimes: [], flags: [], hasKubelet: false }

/** The findings about runtimes and kubelet. */
export function runtimeFindings({ runtimes, flags, hasKubelet }: NodeView): readonly Finding[] {
  const ofRuntimes = runtimes.flatMap((each) => [...brokenSettings(each), ...oldSettings(each), ...ignoredKeys(each)])
  return [...ofRuntimes, ...flagFindings(flags, hasKubelet)]
}

function brokenSettings({ problem, isDenied, files, edit }: NodeRuntime): readonly Finding[] {
  if (problem === undefined || isDenied === true) return []
  return [findingIn(files[0] ?? edit.file, { id: 'runtime-config-broken', message: problem })]
}

function oldSettings(runtime: NodeRuntime): readonly Finding[] {
  const { onDisk, settings, files, edit } = runtime
  if (onDisk === undefined) return []
  const runs = `${runtimeText(runtime)} runs with ${directoriesText(settings)}`
  const message = `${runs}; its files say ${directoriesText(onDisk)}`
  return [findingIn(files[0] ?? edit.file, { id: 'settings-not-loaded', message, cure: edit.restart })]
}

function ignoredKeys(runtime: NodeRuntime): readonly Finding[] {
  const { ignored, onDisk, settings, files, edit } = runtime
  if (ignored === undefined) return []
  const used = onDisk ?? settings
  const isBin = ignored.confDir === used.confDir
  const cure = isBin
    ? `write bin_dirs = [${ignored.binDirs.map((each) => `"${each}"`).join(', ')}] in ${edit.file}`
    : undefined
  const reads = `${runtimeText(runtime)} reads ${directoriesText(used)} of it`
  const message = `it says ${directoriesText(ignored)}, and ${reads}`
  return [findingIn(files[0] ?? edit.file, { id: 'runtime-key-ignored', message, cure })]
}

/** Of files it is an error where no kubelet runs: that may be why. */
function flagFindings(flags: readonly DeadFlag[], hasKubelet: boolean): readonly Finding[] {
  const places = [...new Set(flags.map(({ where }) => where))]
  return places.map((where) => {
    const here = flags.filter((flag) => flag.where === where)
    const words = here.map(({ flag, value }) => (value === '' ? flag : `${flag}=${value}`)).join(' ')
    const isFatal = here.some(({ isRunning }) => !isRunning) && !hasKubelet
    const message = `${words}: no kubelet since 1.24 has ${here.length === 1 ? 'this flag' : 'these flags'}`
    return findingIn(where, { id: 'kubelet-flag-dead', message, ...(isFatal ? { severity: 'error' } : {}) })
  })
}

/** A directory with configurations that no runtime reads. `isNamed`: a person asked about it. */
export function unusedDirectory(
  directory: string,
  runtimes: readonly NodeRuntime[],
  isNamed: boolean,
): readonly Finding[] {
  const running = runtimes.filter(({ pid, socket }) => pid !== undefined || socket !== undefined)
  const read = running.flatMap(directoriesOf)
  const [first] = running
  if (first === undefined || read.includes(directory)) return []
  const [their] = directoriesOf(first)
  const message = `${runtimeText(first)} reads ${their}, and nothing here`
  const cure =
    `move the file to ${their}; to change that, edit ${first.edit.file} (conf_dir, in CRI-O network_dir), then ` +
    `${first.edit.restart}`
  return [findingIn(directory, { id: 'dir-not-used', message, cure, ...(isNamed ? { severity: 'warning' } : {}) })]
}

/** Networks that are in two directories with different contents. */
export function copyFindings(directories: readonly (readonly FileLint[])[]): readonly Finding[] {
  const [first = [], ...others] = directories
  return others.flat().flatMap((lint) => {
    const name = lint.list?.name
    const other = name === undefined ? undefined : first.find(({ list }) => list?.name === name)
    if (other === undefined || JSON.stringify(other.root) === JSON.stringify(lint.root)) return []
    return [findingIn(lint.file, { id: 'copies-differ', message: `its network ${name} is not what ${other.file} has` })]
  })
}

/** A line for each runtime: where it looks, who says so, and what to edit. */
export function runtimeLine(runtime: NodeRuntime): string {
  const { settings, source, edit, root, isDenied } = runtime
  const inside = root === '' ? '' : `, in its own mount namespace (${root})`
  const unsure = isDenied === true ? '; its settings may not be read: run it as root' : ''
  const state = runtime.pid === undefined && runtime.socket === undefined ? ', which does not run' : ''
  const where = `${directoriesText(settings)}${inside}`
  return `${runtimeText(runtime)}${state}: ${where} (${source}; edit ${edit.file})${unsure}`
}

function directoriesText({ confDir, binDirs, ofHandlers = [] }: CniSettings): string {
  const handlers = ofHandlers.map((each) => `, ${each.confDir} for ${each.handler}`).join('')
  return `configurations in ${confDir}${handlers}, plugins in ${binDirs.join(', ')}`
}

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
function directoriesOf({ root, settings }: NodeRuntime): readonly string[] {
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

/** What there is. */
export async function lookAtNode(): Promise<NodeView> {
  const runtimes = await nodeRuntimes()
  return { runtimes, flags: deadKubeletFlags(), hasKubelet: processesOf(['kubelet']).length > 0 }
}

/** The usual directory, where it has configurations besides those of podman and nerdctl, which read it themselves. */
export function usualDirectory(): string | undefined {
  try {
    const names = readdirSync(defaultConfDir).filter((name) => ['.conf', '.conflist'].includes(extensionOf(name)))
    return names.some((name) => !/podman|nerdctl/.test(name)) ? defaultConfDir : undefined
  } catch {
    return undefined
  }
}
