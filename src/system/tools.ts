// SPDX-License-Identifier: Apache-2.0
// Whether a tool is installed, without starting it.

import { accessSync, constants } from 'node:fs'
import { pathWithTools } from './runner.ts'

/** Whether a program is in one of the directories that the runner looks in. */
export function isOnPath(tool: string): boolean {
  return pathWithTools()
    .split(':')
    .some((directory) => {
      try {
        accessSync(`${directory}/${tool}`, constants.X_OK)
        return true
      } catch {
        return false
      }
    })
}
