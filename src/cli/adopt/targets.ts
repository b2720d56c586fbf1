// SPDX-License-Identifier: Apache-2.0
// The networks whose pods can be taken over: lists that have trestle, and lists of upstream
// plugins that it can stand for.

import { readFileSync } from 'node:fs'
import { CniError } from '../../cni/model/error.ts'
import { namesIn } from '../../system/files/files.ts'
import { convert } from '../convert/conflist.ts'
import { type NetworkList, type PluginConf, readNetworkList } from '../node/network-list.ts'
import { asOwn, isOwnType } from '../node/own-type.ts'
import { readFileAs } from '../shell/read-input.ts'

/** A network and the configuration its pods are adopted with. `isServed`: the file has trestle already. */
export interface Target {
  readonly file: string
  readonly list: NetworkList
  readonly plugin: PluginConf
  readonly isServed: boolean
}

/** The network of one file. Throws CniError when it cannot be read, is no list, or cannot be converted. */
export function targetOf(file: string): Target {
  return readFileAs(file, (text) => readTarget(file, text))
}

/** The networks of a configuration directory, each once, files by name. What is of other plugins is left out. */
export function targetsIn(directory: string): readonly Target[] {
  const files = namesIn(directory).filter((name) => /\.(conflist|conf|json)$/.test(name))
  const found = [...files].sort().flatMap((name) => tryTarget(`${directory}/${name}`) ?? [])
  const best = (target: Target) => found.find((other) => isSame(other, target) && other.isServed) ?? target
  return found.filter((target, at) => best(target) === target && found.findIndex((o) => isSame(o, target)) <= at)
}

function isSame(a: Target, b: Target): boolean {
  return a.list.name === b.list.name
}

function tryTarget(file: string): Target | undefined {
  try {
    return readTarget(file, readFileSync(file, 'utf8'))
  } catch {
    // Not JSON, not a list, or another plugin's: `trestle lint` tells.
    return undefined
  }
}

function readTarget(file: string, text: string): Target {
  const list = readNetworkList(text)
  const plugin = list.plugins.find(({ type }) => isOwnType(type))
  if (plugin !== undefined) return { file, list, plugin: asOwn(plugin), isServed: true }
  const converted = readNetworkList(JSON.stringify(convert(text).conflist))
  const [first] = converted.plugins
  if (first === undefined) throw new CniError('list-invalid', 'the list is empty')
  return { file, list: converted, plugin: first, isServed: false }
}
