// SPDX-License-Identifier: Apache-2.0
// Links of others, too, through which 127.0.0.1 reaches host ports (route_localnet). The setting stays after the last
// port, and what guards 127.0.0.1 from these links has to stay as long, also where the rules are built anew.

import { existsSync, rmSync } from 'node:fs'
import { makeDirectory, namesIn, writeText } from '../files/files.ts'
import { stateRoot } from '../files/state.ts'
import { linkExists } from '../kernel/kernel-files.ts'

/** The links that are there. */
export function openedLinks(): readonly string[] {
  return namesIn(directory()).filter(linkExists)
}

/** To be called before the link is opened. A failure is told on standard error: the pod's own rules guard it, too. */
export function noteOpened(link: string): void {
  const file = `${directory()}/${link}`
  if (existsSync(file)) return
  try {
    makeDirectory(directory())
    writeText(file, '')
  } catch (error) {
    process.stderr.write(`trestle: cannot note that ${link} lets 127.0.0.1 through: ${(error as Error).message}\n`)
  }
}

/** Of links that were removed. */
export function forgetOpened(links: readonly string[]): void {
  for (const link of links) rmSync(`${directory()}/${link}`, { force: true, recursive: true })
}

function directory(): string {
  return `${stateRoot()}/localnet`
}
