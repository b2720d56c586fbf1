// SPDX-License-Identifier: Apache-2.0
// A directory of configurations as libcni reads it (containernetworking/cni v1.3.1, libcni/conf.go): the order of the
// files.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { extname } from 'node:path'
import { longestBytes } from './input-file.ts'

/** Whether containerd and CRI-O look at such a file. */
export function isConfigurationName(name: string): boolean {
  return ['.conf', '.conflist', '.json'].includes(extname(name))
}

/** The order of Go's sort.Strings: by bytes. */
export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** The names in a directory in Go's order, without directories. A link to a directory does not count as one, as in Go. */
export function filesIn(directory: string): readonly string[] {
  const entries = readdirSync(directory, { withFileTypes: true }).filter((entry) => !entry.isDirectory())
  return entries.map(({ name }) => name).toSorted(byBytes)
}

/** The text of a file of a directory, or why there is none. */
export function readConfigurationFile(file: string): { text: string } | { problem: string; isDenied?: true } {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return { problem: `it is ${stat.isDirectory() ? 'a directory' : 'no regular file'}` }
    if (stat.size > longestBytes) return { problem: `it has ${stat.size} bytes` }
    return { text: readFileSync(file, 'utf8') }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EACCES' || code === 'EPERM') return { problem: 'permission denied', isDenied: true }
    return { problem: code === 'ENOENT' ? 'it is a link to nothing' : message }
  }
}
