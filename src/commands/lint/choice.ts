// SPDX-License-Identifier: Apache-2.0
// The file of a directory that each runtime uses. Pure. Sources: containerd/go-cni v1.1.14 opts.go (loadFromConfDir,
// max_conf_num 1), cri-o/ocicni 18fd1eb ocicni.go (loadNetworks), containernetworking/cni v1.3.1 libcni/conf.go
// (LoadNetworkConf).

import { extname } from 'node:path'
import { oneLine } from '../../cni/errors.ts'
import { byBytes } from '../config-directory.ts'
import type { CniSettings } from '../runtimes/runtime-settings.ts'

/** A file that a runtime may read. `problem`: why libcni does not load it; `programProblem`: why CRI-O skips it. */
export interface Candidate {
  readonly name: string
  readonly network: string
  readonly problem?: string | undefined
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

export function predict(files: readonly Candidate[], settings: Partial<CniSettings>): Prediction {
  const { maxConfNum = 1, defaultNetwork = '' } = settings
  const sorted = files.toSorted((a, b) => byBytes(a.name, b.name))
  const skipped = sorted.flatMap(({ name, problem, programProblem }) => {
    const reason = problem ?? programProblem
    return reason === undefined ? [] : [{ file: name, reason }]
  })
  const valid = sorted.filter(({ name }) => !skipped.some(({ file }) => file === name))
  const named = sorted.flatMap(({ network, problem }) => (problem !== undefined || network === '' ? [] : [network]))
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
  const broken = files.find(({ problem }) => problem !== undefined)
  if (broken !== undefined) return { reason: `${broken.name}: ${broken.problem}`, stoppedBy: broken.name }
  return { file: first.name, network: first.network }
}

/** The first valid file, or the one with the network's name. A network without a name has the file's. */
function crioOf(files: readonly Candidate[], defaultNetwork: string): Choice {
  const named = files.map(({ name, network }) => ({ file: name, network: network || name }))
  const found = defaultNetwork === '' ? named[0] : named.find(({ network }) => network === defaultNetwork)
  if (found !== undefined) return found
  if (named.length === 0) return { reason: 'there is no configuration that it takes' }
  return { reason: `cni_default_network is ${defaultNetwork}, and no file that it takes has that network` }
}

/** Lists first, then single configurations, up to the file with the name; a broken file before it stops the search. */
function cnitoolOf(sorted: readonly Candidate[], wanted: string): Choice {
  const isList = ({ name }: Candidate) => extname(name) === '.conflist'
  for (const { name, network, problem } of [...sorted.filter(isList), ...sorted.filter((file) => !isList(file))]) {
    if (problem !== undefined) return { reason: `${name}: ${problem}`, stoppedBy: name }
    if (network === wanted) return { file: name, network }
  }
  return { reason: `there is no network ${wanted}` }
}

/** The choices in words, a line each. `names`: the runtimes of the node; without any all count. */
export function choicesText({ containerd, crio, skipped, cnitool }: Prediction, names: readonly string[] = []): string {
  const isHere = (name: string) => names.length === 0 || names.includes(name)
  const lines = [
    ...(isHere('containerd') ? [choiceText('containerd', containerd)] : []),
    ...(isHere('CRI-O') ? [choiceText('CRI-O', crio)] : []),
    ...(isHere('CRI-O') ? skipped.map(({ file, reason }) => `CRI-O skips ${file}: ${reason}`) : []),
    ...cnitool.map(({ network, choice }) => choiceText(`cnitool ${network}`, choice)),
  ]
  return `${lines.map(oneLine).join('\n')}\n`
}

function choiceText(who: string, choice: Choice): string {
  if (choice.file === undefined) return `${who} uses nothing: ${choice.reason}`
  return `${who} uses ${choice.file} (network ${choice.network || 'without a name'})`
}
