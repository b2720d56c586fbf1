// SPDX-License-Identifier: Apache-2.0
// A directory of configurations as libcni reads it (containernetworking/cni v1.3.1, libcni/conf.go): the order of the
// files, and the folders that have further plugins of a network.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import { isObject, type JsonObject } from '../cni/json.ts'
import { orElse } from './if-there.ts'
import { longestBytes } from './input-file.ts'
import { type ListRead, readList } from './network-list.ts'

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

/** A plugin in the folder that has the network's name (CNI spec 1.1.0, section 1), or why it is none. */
export interface FurtherPlugin {
  readonly file: string
  readonly conf?: JsonObject
  readonly problem?: string
}

export function furtherPlugins(file: string, { name, isWhole }: ListRead): readonly FurtherPlugin[] {
  if (!file.endsWith('.conflist') || isWhole || name === '' || name.includes('/')) return []
  const folder = join(dirname(file), name)
  // A folder that cannot be read is as none.
  const names = orElse(() => filesIn(folder), []).filter((each) => extname(each) === '.conf')
  return names.map((each): FurtherPlugin => {
    const read = readConfigurationFile(join(folder, each))
    if ('problem' in read) return { file: `${name}/${each}`, problem: read.problem }
    const conf = orElse(() => JSON.parse(read.text) as unknown, undefined)
    if (!isObject(conf)) return { file: `${name}/${each}`, problem: 'it is no JSON object' }
    const fault = readList(conf, 'single').faults.find(({ stops }) => stops === 'load')
    return { file: `${name}/${each}`, ...(fault === undefined ? { conf } : { problem: fault.message }) }
  })
}
