// SPDX-License-Identifier: Apache-2.0
// Whether a program is installed, without starting it.

import { accessSync, constants, statSync } from 'node:fs'
import { pathWithTools } from './runner.ts'

/** Whether a program is in one of the directories that the runner looks in. */
export function isOnPath(tool: string): boolean {
  return fileOf(tool) !== undefined
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
