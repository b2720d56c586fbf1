// SPDX-License-Identifier: Apache-2.0
// The file of a directory that each runtime uses. Pure. Sources: containerd/go-cni v1.1.14 opts.go (loadFromConfDir,
// max_conf_num 1), cri-o/ocicni 18fd1eb ocicni.go (loadNetworks), containernetworking/cni v1.3.1 libcni/conf.go
// (LoadNetworkConf).

import { extname } from 'node:path'
import { oneLine } from '../../cni/errors.ts'
import { byBytes } from '../config-directory.ts'
import type { RuntimeName } from '../runtimes/ask-runtime.ts'

/** A file that loads. `types`: of its plugins, in order. */
export interface Loaded {
  readonly name: string
  readonly version: string
  readonly types: readonly string[]
}

/** A file that a runtime may read. `programProblem`: CRI-O's reason to skip it. */
export interface Candidate {
  readonly name: string
  readonly load: Loaded | { readonly problem: string }
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

/** Settings of the runtimes: containerd's number of files (0: all), CRI-O's network. */
interface RuntimeSettings {
  readonly maxConfNum?: number | undefined
  readonly defaultNetwork?: string | undefined
}

export function predict(files: readonly Candidate[], { maxConfNum = 1, defaultNetwork }: RuntimeSettings): Prediction {
  const sorted = files.toSorted((a, b) => byBytes(a.name, b.name))
  const skipped = sorted.flatMap(({ name, load, programProblem }) => {
    const reason = 'problem' in load ? load.problem : programProblem
    return reason === undefined ? [] : [{ file: name, reason }]
  })
  const valid = sorted.filter(({ name }) => !skipped.some(({ file }) => file === name))
  const named = sorted.flatMap(({ load }) => ('problem' in load || load.name === '' ? [] : [load.name]))
  return {
    containerd: containerdOf(maxConfNum > 0 ? sorted.slice(0, maxConfNum) : sorted),
    crio: crioOf(valid, defaultNetwork),
    skipped,
    cnitool: [...new Set(named)].map((network) => ({ network, choice: cnitoolOf(sorted, network) })),
  }
}

/** The first file; none if one of the loaded files is broken. */
function containerdOf(files: readonly Candidate[]): Choice {
  const [first] = files
  if (first === undefined) return { reason: 'there is no configuration' }
  for (const { name, load } of files) {
    if ('problem' in load) return { reason: `${name}: ${load.problem}`, stoppedBy: name }
  }
  return { file: first.name, network: networkOf(first) }
}

/** The first valid file, or the one with the network's name. A network without a name has the file's. */
function crioOf(files: readonly Candidate[], defaultNetwork = ''): Choice {
  const named = files.map((file) => ({ file: file.name, network: networkOf(file) || file.name }))
  const found = defaultNetwork === '' ? named[0] : named.find(({ network }) => network === defaultNetwork)
  if (found !== undefined) return found
  if (named.length === 0) return { reason: 'there is no configuration that it takes' }
  return { reason: `cni_default_network is ${defaultNetwork}, and no file that it takes has that network` }
}

/** Lists first, then single configurations, up to the file with the name; a broken file before it stops the search. */
function cnitoolOf(sorted: readonly Candidate[], network: string): Choice {
  const isList = ({ name }: Candidate) => extname(name) === '.conflist'
  for (const { name, load } of [...sorted.filter(isList), ...sorted.filter((file) => !isList(file))]) {
    if ('problem' in load) return { reason: `${name}: ${load.problem}`, stoppedBy: name }
    if (load.name === network) return { file: name, network }
  }
  return { reason: `there is no network ${network}` }
}

function networkOf({ load }: Candidate): string {
  return 'problem' in load ? '' : load.name
}

/** Whether a runtime is on the node; without any all count. */
export function isHere(names: readonly RuntimeName[], name: RuntimeName): boolean {
  return names.length === 0 || names.includes(name)
}

/** The choices in words, a line each, of the runtimes of the node. */
export function choicesText({ containerd, crio, cnitool }: Prediction, names: readonly RuntimeName[] = []): string {
  const lines = [
    ...(isHere(names, 'containerd') ? [choiceText('containerd', containerd)] : []),
    ...(isHere(names, 'CRI-O') ? [choiceText('CRI-O', crio)] : []),
    ...cnitool.map(({ network, choice }) => choiceText(`cnitool ${network}`, choice)),
  ]
  return `${lines.map(oneLine).join('\n')}\n`
}

function choiceText(who: string, choice: Choice): string {
  if (choice.file === undefined) return `${who} uses nothing: ${choice.reason}`
  return `${who} uses ${choice.file} (network ${choice.network || 'without a name'})`
}
