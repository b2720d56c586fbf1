// SPDX-License-Identifier: Apache-2.0
// TOML files of a runtime with their imports: containerd's `imports` (cmd/containerd/server/config, resolveImports and
// mergeConfig) and CRI-O's drop-ins (crio.conf.d(5)).

import { globSync, readFileSync, statSync } from 'node:fs'
import { dirname, isAbsolute, join } from 'node:path'
import { parse } from 'smol-toml'
import { isObject } from '../../cni/json.ts'
import { namesIfThere } from '../if-there.ts'

/** A TOML table, of JSON's types and dates. */
export type Table = Readonly<Record<string, unknown>>

/** The merged table, and its files in the order of reading. */
interface ReadToml {
  readonly table: Table
  readonly files: readonly string[]
}

/** A file is missing, unreadable, or invalid TOML. `isDenied`: the file's mode denies access. */
export class TomlError extends Error {
  readonly isDenied: boolean
  readonly isMissing: boolean
  constructor(file: string, cause: unknown) {
    const { code, message } = cause as NodeJS.ErrnoException
    super(`${file}: ${message.split('\n')[0]}`, { cause })
    this.name = 'TomlError'
    this.isDenied = code === 'EACCES' || code === 'EPERM'
    this.isMissing = code === 'ENOENT'
  }
}

/** A bound that no configuration reaches, so that a device or a log is not read to its end. */
const longestBytes = 8 * 1024 * 1024
const mostFiles = 200

/** The table of one text. Throws TomlError with line and column. `file`: the file's name in the error. */
export function tableOf(text: string, file: string): Table {
  try {
    return parse(text) as Table
  } catch (error) {
    throw new TomlError(file, error)
  }
}

/**
 * A file with its `imports`, each once; later files override earlier ones. `root`: prefix of paths. Throws TomlError
 * for the file and for each missing import that is no pattern, as containerd does.
 */
export function readWithImports(file: string, root: string): ReadToml {
  const pending = [file]
  const files: string[] = []
  let table: Table = {}
  for (const next of pending) {
    if (files.includes(next) || files.length >= mostFiles) continue
    const read = tableOf(textOf(root, next), next)
    table = merged(table, read)
    files.push(next)
    const imports = Array.isArray(read['imports']) ? read['imports'].filter((each) => typeof each === 'string') : []
    pending.push(...imports.flatMap((each) => resolved(each, next, root)))
  }
  return { table, files }
}

/** An optional file, overridden by the files of a directory in the order of their names. Throws TomlError. */
export function readWithDropIns(file: string, directory: string, root: string): ReadToml {
  const names = namesIfThere(join(root, directory)).toSorted()
  const all = [file, ...names.map((name) => join(directory, name))]
  const files = all.filter((each) => statSync(join(root, each), { throwIfNoEntry: false })?.isFile() === true)
  const table = files.reduce<Table>((so, each) => merged(so, tableOf(textOf(root, each), each)), {})
  return { table, files }
}

/** Joins lists, merges tables and replaces other values. */
export function merged(to: Table, from: Table): Table {
  const both = Object.entries(from).map(([key, value]) => {
    const old = to[key]
    if (Array.isArray(old) && Array.isArray(value)) return [key, [...new Set([...old, ...value])]] as const
    return [key, isObject(old) && isObject(value) ? merged(old, value) : value] as const
  })
  return { ...to, ...Object.fromEntries(both) }
}

function textOf(root: string, file: string): string {
  try {
    const path = join(root, file)
    const { size, mode } = statSync(path)
    if ((mode & 0o170000) !== 0o100000) throw new Error('it is no regular file')
    if (size > longestBytes) throw new Error(`it has ${size} bytes`)
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new TomlError(file, error)
  }
}

/** The files of an import, which may be a pattern. */
function resolved(path: string, parent: string, root: string): readonly string[] {
  const whole = isAbsolute(path) ? join(path) : join(dirname(parent), path)
  if (!whole.includes('*')) return [whole]
  return globSync(whole.slice(1), { cwd: join(root, '/') })
    .toSorted()
    .map((name) => `/${name}`)
}
