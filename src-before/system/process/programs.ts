// SPDX-License-Identifier: Apache-2.0
// Whether a program is installed, without starting it.

import { accessSync, constants, lstatSync, statSync } from 'node:fs'
import { ofHost } from './process-identity.ts'

/** The tools live in sbin; a runtime's PATH often has none. */
const toolPath = '/usr/sbin:/usr/bin:/sbin:/bin'

/** PATH for tools: the caller's first, so that an operator's own build wins. */
export function pathWithTools(path = process.env['PATH']): string {
  return path ? `${path}:${toolPath}` : toolPath
}

/** Whether the runner finds a program: in one of its directories, or on the machine that this container is on. */
export function isOnPath(tool: string): boolean {
  return fileOf(tool) !== undefined || isShared(tool)
}

/** The file that the runner starts for a program; undefined where there is none. */
export function fileOf(tool: string): string | undefined {
  const files = pathWithTools()
    .split(':')
    .map((directory) => `${directory}/${tool}`)
  return files.find(isExecutable)
}

/** Whether a file is one that we may start. A directory has an x, too. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

// Programs that a process in a container takes from the machine. A table that one version of nft made another one may
// read wrongly or not at all, and firewalld is asked by its own command, over the machine's D-Bus.

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
function isShared(name: string): boolean {
  return isOfMachine(name) && isOnHost(name)
}

/** Whether a program is to be the machine's, and the machine has none yet. */
export function isAwaited(name: string): boolean {
  return isOfMachine(name) && !isOnHost(name)
}

function isOfMachine(name: string): boolean {
  return ofHost('') !== '' && sharedNames.test(name)
}

/** In a container: the machine's program, with the machine's root as its own, where the machine has it. */
export function onHost({ file, args }: Words): Words {
  if (!isShared(file)) return { file, args }
  const root = ofHost('')
  return { file: 'nsenter', args: [`--root=${root}`, `--wd=${root}`, '--', file, ...args] }
}
