// SPDX-License-Identifier: Apache-2.0
// Programs that a process in a container takes from the machine. A table that one version of nft made another one may
// read wrongly or not at all, and firewalld is asked by its own command, over the machine's D-Bus.

import { lstatSync } from 'node:fs'
import { ofHost } from './process-identity.ts'

/** A program and its arguments. */
interface Words {
  readonly file: string
  readonly args: readonly string[]
}

/** Others speak to the kernel alone: their version is nobody's business. */
const sharedNames = /^(nft|firewall-cmd|ip6?tables(-[a-z]+)*)$/

const directories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** Whether the machine's root has the program. A link's target is a path of the machine: it is not followed. */
export function isOnHost(name: string): boolean {
  return directories.some((directory) => lstatSync(ofHost(`${directory}/${name}`), { throwIfNoEntry: false }))
}

/** Whether a program is run on the machine, from a process with another root. */
export function isShared(name: string): boolean {
  return isOfMachine(name) && isOnHost(name)
}

/** Whether a program is to be the machine's, and the machine has none yet. */
export function isAwaited(name: string): boolean {
  return isOfMachine(name) && !isOnHost(name)
}

function isOfMachine(name: string): boolean {
  return ofHost('') !== '' && sharedNames.test(name)
}

/**
 * What to start for a program: with the machine's root as its own where the machine has it and this process has another
 * root, and as it stands otherwise.
 */
export function onHost({ file, args }: Words): Words {
  if (!isShared(file)) return { file, args }
  const root = ofHost('')
  return { file: 'nsenter', args: [`--root=${root}`, `--wd=${root}`, '--', file, ...args] }
}
