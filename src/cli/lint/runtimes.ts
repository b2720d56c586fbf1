// SPDX-License-Identifier: Apache-2.0
// Findings about the runtimes' directories. Pure.

import { join } from 'node:path'
import { namesIfThere } from '../../system/files/if-there.ts'
import { type DeadFlag, deadKubeletFlags, processesOf } from '../node/processes.ts'
import { type CniSettings, defaultBinDir, defaultConfDir } from '../node/runtime-settings.ts'
import { type NodeRuntime, nodeRuntimes, runtimeText } from '../node/runtimes.ts'
import type { Finding } from '../shell/findings.ts'
import type { FileLint } from './file.ts'
import { findingIn } from './finding.ts'
import { extensionOf } from './predict.ts'

export interface NodeView {
  readonly runtimes: readonly NodeRuntime[]
  readonly flags: readonly DeadFlag[]
  readonly hasKubelet: boolean
}

/** A node without runtimes, or without a question about it. */
export const noNode: NodeView = { runtimes: [], flags: [], hasKubelet: false }

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

/** In files, dead flags are an error if no kubelet runs: they may be the reason. */
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

/** A directory with configurations that no runtime reads. `isNamed`: a person named it. */
export function unusedDirectory(
  directory: string,
  runtimes: readonly NodeRuntime[],
  isNamed: boolean,
): readonly Finding[] {
  const running = runtimes.filter(isRunning)
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

/** Networks in two directories with different contents. */
export function copyFindings(directories: readonly (readonly FileLint[])[]): readonly Finding[] {
  const [first = [], ...others] = directories
  return others.flat().flatMap((lint) => {
    const name = lint.list?.name
    const other = name === undefined ? undefined : first.find(({ list }) => list?.name === name)
    if (other === undefined || JSON.stringify(other.root) === JSON.stringify(lint.root)) return []
    const message = `its network ${name} differs from the one in ${other.file}`
    return [findingIn(lint.file, { id: 'copies-differ', message })]
  })
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

function directoriesText({ confDir, binDirs, ofHandlers = [] }: CniSettings): string {
  const handlers = ofHandlers.map((each) => `, ${each.confDir} for ${each.handler}`).join('')
  return `configurations in ${confDir}${handlers}, plugins in ${binDirs.join(', ')}`
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
  const directories = [...new Set(runtimes.flatMap(directoriesOf))]
  const all = directories.length > 0 ? directories : [defaultConfDir]
  return all.map((directory) => targetOf(directory, runtimes))
}

export function targetOf(directory: string, runtimes: readonly NodeRuntime[]): Target {
  const readers = runtimes.filter((runtime) => directoriesOf(runtime).includes(join(directory, '.')))
  // A stopped runtime counts only for its own directory: Debian's containerd comes with other packages, and has a
  // plugin directory that no other runtime uses.
  const owners = readers.length > 0 ? readers : runtimes.filter(isRunning)
  const isOfCrio = owners.length === 0 || owners.some(({ runtime }) => runtime === 'CRI-O')
  return { directory, readers, binDirs: binDirsOf(owners), isOfCrio }
}

function isRunning({ pid, socket }: NodeRuntime): boolean {
  return pid !== undefined || socket !== undefined
}

/** The directories of a runtime, as paths in this mount namespace. */
function directoriesOf({ root, settings }: NodeRuntime): readonly string[] {
  const { confDir, ofHandlers = [] } = settings
  return [confDir, ...ofHandlers.map((each) => each.confDir)].map((directory) => join(root, directory))
}

function binDirsOf([first]: readonly NodeRuntime[]): readonly string[] {
  return first === undefined ? [defaultBinDir] : first.settings.binDirs.map((directory) => join(first.root, directory))
}

/** Plugin directories of packages: Debian, Fedora and Arch, k3s. */
const packaged = [defaultBinDir, '/usr/lib/cni', '/usr/libexec/cni', '/var/lib/rancher/k3s/data/cni']

/** Plugin directories besides `binDirs`. */
export function otherBinDirs(binDirs: readonly string[], runtimes: readonly NodeRuntime[]): readonly string[] {
  const known = [...packaged, ...runtimes.flatMap((runtime) => binDirsOf([runtime]))]
  return [...new Set(known)].filter((directory) => !binDirs.includes(directory))
}

export async function lookAtNode(): Promise<NodeView> {
  const runtimes = await nodeRuntimes()
  return { runtimes, flags: deadKubeletFlags(), hasKubelet: processesOf(['kubelet']).length > 0 }
}

/** The usual directory, if it has configurations besides those of podman and nerdctl, which read their own. */
export function usualDirectory(): string | undefined {
  const names = namesIfThere(defaultConfDir).filter((name) => ['.conf', '.conflist'].includes(extensionOf(name)))
  return names.some((name) => !/podman|nerdctl/.test(name)) ? defaultConfDir : undefined
}
