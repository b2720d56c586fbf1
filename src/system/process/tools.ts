// SPDX-License-Identifier: Apache-2.0
// Whether a program is installed, without starting it.

import { accessSync, constants, statSync } from 'node:fs'
import { isShared } from './host-programs.ts'
import { pathWithTools } from './runner.ts'

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
