// SPDX-License-Identifier: Apache-2.0
// Findings about a directory as a whole, by the runtimes' view of it.

import { statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { oneLine } from '../../cni/errors.ts'
import type { Finding } from '../findings.ts'
import { namesIfThere, orElse, textIfThere } from '../if-there.ts'
import type { RuntimeName } from '../runtimes/ask-runtime.ts'
import { processesOf } from '../runtimes/processes.ts'
import type { FileLint } from './file.ts'
import { findingIn } from './finding.ts'
import type { Candidate, Choice, Prediction } from './predict.ts'
import { overlapOf, subnetsOf } from './semantics.ts'

export interface LookedAt {
  readonly lint: FileLint
  readonly candidate: Candidate
  /** The file is unreadable for the user of lint; a runtime may read it. */
  readonly isDenied?: true
}

interface DirectoryAbout {
  readonly directory: string
  readonly looked: readonly LookedAt[]
  readonly prediction: Prediction
  /** The runtimes of the node that read the directory; empty if unknown: then all runtimes count. */
  readonly names: readonly RuntimeName[]
  /** Names that no runtime reads. */
  readonly others: readonly string[]
}

/** Findings about several files, or about a file's effect on a runtime. */
export function directoryFindings(about: DirectoryAbout): readonly Finding[] {
  const { directory, looked, others } = about
  const ignored = others.map((name) => {
    return findingIn(join(directory, name), { id: 'wrong-extension', message: 'no runtime reads it' })
  })
  if (looked.length === 0) {
    const message = others.length === 0 ? 'it is empty' : 'no file of it ends in .conflist, .conf or .json'
    return [findingIn(directory, { id: 'dir-empty', message }), ...ignored]
  }
  return [
    ...consequences(about),
    ...later(about),
    ...sameNames(about),
    ...overlaps(about),
    ...ignored,
    ...(isDifferenceTold(about) ? [] : difference(about)),
  ]
}

/** Whether a finding of the file itself keeps a runtime from it: one cause is one finding. */
function isToldOf({ lint }: LookedAt): boolean {
  return lint.findings.some(({ id, severity }) => severity === 'error' || id === 'bin-dir-missing')
}

/** Consequences for runtimes of files without such a finding; the report's last lines tell the rest (`choicesText`). */
function consequences(about: DirectoryAbout): readonly Finding[] {
  const told = new Set(about.looked.filter(isToldOf).map(({ lint }) => lint.file))
  return [...stops(about), ...skips(about)].filter(({ on }) => !told.has(on))
}

/** Whether a file with such a finding makes the runtimes differ: it stops some of them, or is skipped. */
function isDifferenceTold({ looked, prediction: { containerd, skipped, cnitool } }: DirectoryAbout): boolean {
  const stoppers = [containerd, ...cnitool.map(({ choice }) => choice)].map((choice) =>
    choice.file === undefined ? choice.stoppedBy : undefined,
  )
  const isSkipped = skipped.some(({ file }) => file === containerd.file)
  const inTheWay = [...stoppers, isSkipped ? containerd.file : undefined]
  return looked.some((each) => inTheWay.includes(each.candidate.name) && isToldOf(each))
}

/** Runtimes that are not on this node do not count. */
function isHere(names: readonly RuntimeName[], name: RuntimeName): boolean {
  return names.length === 0 || names.includes(name)
}

function stops({ directory, names, prediction: { containerd, cnitool } }: DirectoryAbout): readonly Finding[] {
  const found: Finding[] = []
  if (isHere(names, 'containerd') && containerd.file === undefined && containerd.stoppedBy !== undefined) {
    const message = `containerd reads it first and loads nothing: ${containerd.reason}`
    found.push(findingIn(join(directory, containerd.stoppedBy), { id: 'containerd-stops', message }))
  }
  for (const { network, choice } of cnitool) {
    if (choice.file !== undefined || choice.stoppedBy === undefined) continue
    const message = `cnitool does not find the network ${network} behind it`
    found.push(findingIn(join(directory, choice.stoppedBy), { id: 'cnitool-stops', message }))
  }
  return found
}

function skips({ directory, names, prediction: { skipped } }: DirectoryAbout): readonly Finding[] {
  if (!isHere(names, 'CRI-O')) return []
  return skipped.map(({ file, reason }) => {
    return findingIn(join(directory, file), { id: 'cri-o-skips', message: `CRI-O skips it: ${reason}` })
  })
}

/** Valid files that neither containerd nor CRI-O takes for the default network. */
function later({ directory, looked, prediction: { containerd, crio } }: DirectoryAbout): readonly Finding[] {
  const used = [containerd.file, crio.file]
  const whole = looked.filter(({ candidate }) => !('problem' in candidate.load) && !used.includes(candidate.name))
  const message = `${looked[0]?.candidate.name} is before it in the order of names`
  return whole.map(({ candidate }) => findingIn(join(directory, candidate.name), { id: 'sorted-later', message }))
}

function sameNames({ looked }: DirectoryAbout): readonly Finding[] {
  const first = new Map<string, string>()
  return looked.flatMap(({ lint, candidate: { name, load } }) => {
    if ('problem' in load || load.name === '') return []
    const other = first.get(load.name)
    if (other === undefined) first.set(load.name, name)
    if (other === undefined) return []
    return [findingIn(lint.file, { id: 'same-network', message: `its network ${load.name} is also in ${other}` })]
  })
}

function overlaps({ looked }: DirectoryAbout): readonly Finding[] {
  const whole = looked.filter(({ candidate }) => !('problem' in candidate.load))
  const pools = whole.map(({ lint, candidate }) => {
    return { name: candidate.name, lint, subnets: (lint.list?.plugins ?? []).flatMap(subnetsOf) }
  })
  return pools.flatMap(({ lint, subnets }, at) =>
    pools.slice(0, at).flatMap((other) => {
      if (other.lint.list?.name === lint.list?.name) return []
      const both = overlapOf(subnets, other.subnets)
      if (both === undefined) return []
      const message = `its subnet ${both[0]} overlaps with ${both[1]} of ${other.name}`
      return [findingIn(lint.file, { id: 'subnets-overlap', message })]
    }),
  )
}

/** The runtimes of the node. cnitool is a person's tool: its choice alone is a note. */
function difference({ directory, names, prediction }: DirectoryAbout): readonly Finding[] {
  const { containerd, crio, cnitool } = prediction
  const choices = [
    ...(isHere(names, 'containerd') ? [{ who: 'containerd uses', choice: containerd }] : []),
    ...(isHere(names, 'CRI-O') ? [{ who: 'CRI-O', choice: crio }] : []),
  ]
  const [first] = choices
  if (first === undefined) return []
  const network = first.choice.file === undefined ? undefined : first.choice.network
  const byName = cnitool.find((each) => each.network === network)?.choice
  const areSame = choices.every(({ choice }) => choice.file === first.choice.file)
  if (areSame && (byName === undefined || byName.file === first.choice.file)) return []
  const tool = byName === undefined ? [] : [`cnitool ${network} ${named(byName)}`]
  const message = [...choices.map(({ who, choice }) => `${who} ${named(choice)}`), ...tool].join(', ')
  const isForPeople = choices.length === 1
  return [findingIn(directory, { id: 'runtimes-differ', message, ...(isForPeople ? { severity: 'note' } : {}) })]
}

function named(choice: Choice): string {
  return choice.file ?? 'nothing'
}

/** The choices in words, a line each, for the end of the report; only of runtimes of the node, if they are known. */
export function choicesText({ containerd, crio, cnitool }: Prediction, names: readonly RuntimeName[] = []): string {
  const lines = [
    ...(isHere(names, 'containerd') ? [choiceText('containerd', containerd)] : []),
    ...(isHere(names, 'CRI-O') ? [choiceText('CRI-O', crio)] : []),
    ...(names.includes('cri-dockerd') ? [choiceText('cri-dockerd', crio)] : []),
    ...cnitool.map(({ network, choice }) => choiceText(`cnitool ${network}`, choice)),
  ]
  return `${lines.map(oneLine).join('\n')}\n`
}

function choiceText(who: string, choice: Choice): string {
  if (choice.file === undefined) return `${who} uses nothing: ${choice.reason}`
  return `${who} uses ${choice.file} (network ${choice.network || 'without a name'})`
}

// Whether a running containerd watches the current directory. It watches only the directory that existed at its start
// (containerd, cni_conf_syncer.go); containerd 2 ends when that directory is removed.

/** statfs(2): on an overlay the inode of a watch differs from the inode of stat(2). */
const OVERLAYFS_MAGIC = 0x794c7630

/** Whether a directory is on an overlay; false if it does not exist. */
export function isOverlay(path: string): boolean {
  return orElse(() => statfsSync(path).type === OVERLAYFS_MAGIC, false)
}

/** The pids of containerds that watch another directory. Empty if that is unknown. */
export function notWatching(directory: string): readonly number[] {
  return orElse(() => {
    if (isOverlay(directory)) return []
    const { ino } = statSync(directory, { bigint: true })
    const isElsewhere = (pid: number) => {
      const watched = watchedInodes(pid)
      return watched.length > 0 && !watched.includes(ino)
    }
    // In another mount namespace, of a node in a container, the path means another directory.
    const here = processesOf(['containerd']).filter(({ root }) => root === '')
    return here.map(({ pid }) => pid).filter(isElsewhere)
  }, [])
}

/** The inodes of its inotify watches: proc(5), /proc/PID/fdinfo, `inotify wd:1 ino:9e7e sdev:800013`. */
function watchedInodes(pid: number): readonly bigint[] {
  const files = namesIfThere(`/proc/${pid}/fdinfo`)
  return files.flatMap((fd) => {
    const found = textIfThere(`/proc/${pid}/fdinfo/${fd}`).matchAll(/^inotify wd:\S+ ino:([0-9a-f]+) /gm)
    return [...found].map((match) => BigInt(`0x${match[1]}`))
  })
}
