// SPDX-License-Identifier: Apache-2.0
// Which file of a directory each runtime uses. Pure: everything about the files is given.
// Sources: containerd/go-cni v1.1.14 opts.go (loadFromConfDir, max_conf_num 1), cri-o/ocicni 18fd1eb ocicni.go
// (loadNetworks), containernetworking/cni v1.3.1 libcni/conf.go (LoadNetworkConf).

import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Loaded, loadList, type NotLoaded } from './libcni.ts'

/** A file that a runtime may read, in the order of names. `programProblem`: why CRI-O would not take it. */
export interface Candidate {
  readonly name: string
  readonly load: Loaded | NotLoaded
  readonly programProblem?: string | undefined
}

/** The file a runtime uses for a network, or why it has none. */
export type Choice =
  | { readonly file: string; readonly network: string }
  | { readonly file?: undefined; readonly reason: string; readonly stoppedBy?: string }

/** What the three make of the directory. `skipped`: by CRI-O, with the reason. */
export interface Prediction {
  readonly containerd: Choice
  readonly crio: Choice
  readonly skipped: readonly { readonly file: string; readonly reason: string }[]
  readonly cnitool: readonly { readonly network: string; readonly choice: Choice }[]
}

/** Names as Go's sort.Strings has them: by bytes. */
export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** The end of a name from its last dot on (Go's filepath.Ext). */
export function extensionOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return dot < 0 ? '' : name.slice(dot)
}

/** Settings of the runtimes: how many files containerd loads (0: all), which network CRI-O takes. */
export interface RuntimeSettings {
  readonly maxConfNum?: number | undefined
  readonly defaultNetwork?: string | undefined
}

/** What each runtime does with these files. */
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

/** The first file; nothing where one of those that it loads is broken. */
function containerdOf(files: readonly Candidate[]): Choice {
  const [first] = files
  if (first === undefined) return { reason: 'there is no configuration' }
  for (const { name, load } of files) {
    if ('problem' in load) return { reason: `${name}: ${load.problem}`, stoppedBy: name }
  }
  return { file: first.name, network: 'problem' in first.load ? '' : first.load.name }
}

/** The first that is whole and whose plugins are there, or the one with the name. Without a name it has the file's. */
function crioOf(files: readonly Candidate[], defaultNetwork = ''): Choice {
  const named = files.map(({ name, load }) => ({ file: name, network: ('problem' in load ? '' : load.name) || name }))
  const found = defaultNetwork === '' ? named[0] : named.find(({ network }) => network === defaultNetwork)
  if (found !== undefined) return found
  if (named.length === 0) return { reason: 'there is no configuration that it takes' }
  return { reason: `cni_default_network is ${defaultNetwork}, and no file that it takes has that network` }
}

/** Lists first, then single configurations, each until one has the name; what is broken before it stops the search. */
function cnitoolOf(sorted: readonly Candidate[], network: string): Choice {
  const isList = ({ name }: Candidate) => extensionOf(name) === '.conflist'
  const order = [...sorted.filter(isList), ...sorted.filter((file) => !isList(file))]
  for (const { name, load } of order) {
    if ('problem' in load) return { reason: `${name}: ${load.problem}`, stoppedBy: name }
    if (load.name === network) return { file: name, network }
  }
  return { reason: `there is no network ${network}` }
}

/** The files of plugins of a list that has none or more of them, in the order in which libcni takes them. */
export function pluginFilesOf(directory: string, load: Loaded | NotLoaded): readonly string[] {
  if ('problem' in load || load.isWhole || load.name.includes('/')) return []
  const folder = join(directory, load.name)
  return namesIn(folder).map((name) => join(folder, name))
}

/** Whether the list of a file that a person names has plugins in that folder. */
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
