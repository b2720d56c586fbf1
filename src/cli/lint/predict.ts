// SPDX-License-Identifier: Apache-2.0
// The file of a directory that each runtime uses. Pure. Sources: containerd/go-cni v1.1.14 opts.go (loadFromConfDir,
// max_conf_num 1), cri-o/ocicni 18fd1eb ocicni.go (loadNetworks), containernetworking/cni v1.3.1 libcni/conf.go
// (LoadNetworkConf).

import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Loaded, loadList, type NotLoaded } from './libcni.ts'

/** A file that a runtime may read. `programProblem`: CRI-O's reason to skip it. */
export interface Candidate {
  readonly name: string
  readonly load: Loaded | NotLoaded
  readonly programProblem?: string | undefined
}

/** The file that a runtime uses for a network, or the reason for having none. */
export type Choice =
  | { readonly file: string; readonly network: string }
  | { readonly file?: undefined; readonly reason: string; readonly stoppedBy?: string }

/** The choices of all three. `skipped`: by CRI-O, with the reason. */
export interface Prediction {
  readonly containerd: Choice
  readonly crio: Choice
  readonly skipped: readonly { readonly file: string; readonly reason: string }[]
  readonly cnitool: readonly { readonly network: string; readonly choice: Choice }[]
}

/** The order of Go's sort.Strings: by bytes. */
export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** The end of a name from its last dot on (Go's filepath.Ext). */
export function extensionOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return dot < 0 ? '' : name.slice(dot)
}

/** Settings of the runtimes: containerd's number of files (0: all), CRI-O's network. */
export interface RuntimeSettings {
  readonly maxConfNum?: number | undefined
  readonly defaultNetwork?: string | undefined
}

export function predict(
  files: readonly Candidate[],
  { maxConfNum = 1, defaultNetwork }: RuntimeSettings = {},
): Prediction {
  const sorted = files.toSorted((a, b) => byBytes(a.name, b.name))
  const skipped = sorted.flatMap((file) => {
    const reason = problemOf(file) ?? file.programProblem
    return reason === undefined ? [] : [{ file: file.name, reason }]
  })
  const networks = [
    ...new Set(sorted.flatMap(({ load }) => ('problem' in load || load.name === '' ? [] : [load.name]))),
  ]
  return {
    containerd: containerdOf(maxConfNum > 0 ? sorted.slice(0, maxConfNum) : sorted),
    crio: crioOf(
      sorted.filter((file) => !skipped.some((each) => each.file === file.name)),
      defaultNetwork,
    ),
    skipped,
    cnitool: networks.map((network) => ({ network, choice: cnitoolOf(sorted, network) })),
  }
}

function problemOf({ load }: Candidate): string | undefined {
  return 'problem' in load ? load.problem : undefined
}

/** The first file; none if one of the loaded files is broken. */
function containerdOf(files: readonly Candidate[]): Choice {
  const [first] = files
  if (first === undefined) return { reason: 'there is no configuration' }
  for (const { name, load } of files) {
    if ('problem' in load) return { reason: `${name}: ${load.problem}`, stoppedBy: name }
  }
  return { file: first.name, network: 'problem' in first.load ? '' : first.load.name }
}

/**
 * The first valid file whose plugins exist, or the file with the network's name. A network without a name has the
 * file's.
 */
function crioOf(files: readonly Candidate[], defaultNetwork = ''): Choice {
  const named = files.map(({ name, load }) => ({ file: name, network: ('problem' in load ? '' : load.name) || name }))
  const found = defaultNetwork === '' ? named[0] : named.find(({ network }) => network === defaultNetwork)
  if (found !== undefined) return found
  if (named.length === 0) return { reason: 'there is no configuration that it takes' }
  return { reason: `cni_default_network is ${defaultNetwork}, and no file that it takes has that network` }
}

/** Lists first, then single configurations, up to the file with the name; a broken file before it stops the search. */
function cnitoolOf(sorted: readonly Candidate[], network: string): Choice {
  const isList = ({ name }: Candidate) => extensionOf(name) === '.conflist'
  const order = [...sorted.filter(isList), ...sorted.filter((file) => !isList(file))]
  for (const { name, load } of order) {
    if ('problem' in load) return { reason: `${name}: ${load.problem}`, stoppedBy: name }
    if (load.name === network) return { file: name, network }
  }
  return { reason: `there is no network ${network}` }
}

/** Further plugin files of a list, in libcni's order. */
export function pluginFilesOf(directory: string, load: Loaded | NotLoaded): readonly string[] {
  if ('problem' in load || load.isWhole || load.name.includes('/')) return []
  const folder = join(directory, load.name)
  return namesIn(folder).map((name) => join(folder, name))
}

export function hasPluginFiles(file: string, text: string): boolean {
  return extensionOf(file) === '.conflist' && pluginFilesOf(dirname(file), loadList(text)).length > 0
}

function namesIn(folder: string): readonly string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true }).filter((entry) => !entry.isDirectory())
    return entries
      .map(({ name }) => name)
      .filter((name) => extensionOf(name) === '.conf')
      .toSorted(byBytes)
  } catch {
    return [] // as where there is none
  }
}
