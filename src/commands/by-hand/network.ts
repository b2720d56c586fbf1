// SPDX-License-Identifier: Apache-2.0
// The network that a person names: of the configuration directory, as cnitool finds it (libcni/conf.go,
// LoadNetworkConf), or of a file. A broken file stops cnitool; here it is passed over, and named if nothing is found.

import { extname, join } from 'node:path'
import { oneLine, toCniError } from '../../cni/errors.ts'
import { parseConfig } from '../../cni/json.ts'
import { filesIn } from '../config-directory.ts'
import { failureOf } from '../failure.ts'
import { readFileAs } from '../input-file.ts'
import { nearestWord } from '../nearest-word.ts'
import { callable, type NetworkList, readList } from '../network-list.ts'

/** A network configuration. `config`: its text as a list, which libcni's cache keeps. */
export interface Network {
  readonly file: string
  readonly list: NetworkList
  readonly config: string
}

/** A file that is no configuration; `problem` names it. */
interface Broken {
  readonly file: string
  readonly problem: string
}

/** The variable of cnitool, with its default. */
export function configurationDirectory(): string {
  return process.env['NETCONFPATH'] || '/etc/cni/net.d'
}

/** Every configuration of a directory, lists first. Throws CniError 5 when the directory cannot be read. */
export function networksIn(directory: string): readonly (Network | Broken)[] {
  const names = namesIn(directory)
  const ofExtension = (...all: readonly string[]) => names.filter((name) => all.includes(extname(name)))
  return [...ofExtension('.conflist'), ...ofExtension('.conf', '.json')].map((name) => {
    const file = join(directory, name)
    try {
      return networkOfFile(file)
    } catch (error) {
      return { file, problem: oneLine(toCniError(error).message) }
    }
  })
}

function namesIn(directory: string): readonly string[] {
  try {
    return filesIn(directory)
  } catch (cause) {
    const details = 'set NETCONFPATH to the directory of the configurations; `trestle lint` names those of the runtimes'
    throw failureOf('input-unreadable', `cannot read ${directory}: ${(cause as Error).message}`, { cause, details })
  }
}

/** For a directory without a network. */
export const howToBegin = 'conf-examples/pod-network.conflist of trestle is one to begin with'

/** The network of that name in the configuration directory. Throws CniError 7 when there is none. */
export function networkNamed(name: string): Network {
  const directory = configurationDirectory()
  const all = networksIn(directory)
  const found = all.find((each): each is Network => 'list' in each && each.list.name === name)
  if (found !== undefined) return found
  const names = [...new Set(all.flatMap((each) => ('list' in each ? [each.list.name] : [])))]
  const meant = nearestWord(name, names)
  const hint = meant === undefined || names.length === 1 ? '' : `; did you mean "${meant}"?`
  const broken = all.flatMap((each) => ('problem' in each ? [`not usable: ${each.problem}`] : []))
  const there =
    names.length === 0 ? `there is none; ${howToBegin}` : `there is ${names.map((each) => `"${each}"`).join(', ')}`
  throw failureOf('network-not-there', `no network "${name}" in ${directory}: ${there}${hint}`, {
    details: [...broken, 'NETCONFPATH names another directory'].join('\n'),
  })
}

/** The network of a file, or of standard input. Throws CniError for an invalid configuration. */
export function networkOfFile(file: string): Network {
  return readFileAs(file, (text) => networkOf(file, text))
}

/** What libcni's cache keeps is a list: one plugin becomes one. */
function networkOf(file: string, text: string): Network {
  const root = parseConfig(text)
  const isList = file.endsWith('.conflist') || 'plugins' in root
  const list = callable(readList(root, isList ? 'list' : 'single'))
  if (isList) return { file, list, config: text }
  return { file, list, config: JSON.stringify({ cniVersion: root['cniVersion'], name: root['name'], plugins: [root] }) }
}
