// SPDX-License-Identifier: Apache-2.0
// `trestle adopt`: gives live pods of the upstream chain a record and trestle's rules, and removes the chain's leaks of
// dead pods. Without --apply it prints a list and changes nothing.

import { readFileSync, statSync } from 'node:fs'
import { CniError, orElse } from '../../cni/error.ts'
import { lookUp } from '../../cni/json.ts'
import type { CallContext } from '../../commands/call/context.ts'
import { usualMode } from '../../config/bridge.ts'
import { namesIn } from '../../system/files/files.ts'
import { requireState } from '../../system/files/state.ts'
import { openNetns } from '../../system/kernel/netns.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import { nowMs } from '../../system/process/clock.ts'
import { ownProcessIdentity } from '../../system/process/process-identity.ts'
import { runnerUntil } from '../../system/process/runner.ts'
import { convert } from '../convert/convert.ts'
import { isConfigurationName, loadFile } from '../lint/predict.ts'
import { type NetworkList, type PluginConf, readNetworkList } from '../node/list.ts'
import { asOwn, isOwnType } from '../node/own-type.ts'
import { type Command, exitCode, type Input } from '../shell/command.ts'
import { type Progress, print, withProgress } from '../shell/output.ts'
import { readFileAs } from '../shell/read-input.ts'
import { requireRoot } from '../shell/self.ts'
import type { Looking } from './look.ts'
import { applyNetwork, networkEntry, planNetwork } from './network.ts'
import { type Entry, entryCounts, entryTable } from './take.ts'

const defaultDirectory = '/etc/cni/net.d'

/** A node has some hundred pods, and each pod takes a process. */
const wholeMs = 300_000

export const adoptCommand: Command = {
  name: 'adopt',
  words: '[FILE]',
  maxWords: 1,
  summary: 'take over live pods of the upstream plugins, and remove leaks of dead ones',
  description: [
    "Compares libcni's cache with the kernel, for the network of FILE or for all networks of the configuration",
    'directory. A pod gets a record if namespace, addresses and host link match the cache; its host ports and',
    "masquerade move to trestle's rules without a gap, and its addresses stay reserved. Reservations and rules of",
    'dead pods are removed. Without --apply nothing changes, and exit code 1 means that --apply would change',
    'something. adopt reads a list of the upstream plugins as `trestle convert` would write it. To apply such a list,',
    'give it as FILE, and put the converted list in its place at the same time.',
  ].join('\n'),
  options: {
    apply: { type: 'boolean', help: 'take over and remove; without --apply only list' },
    'config-dir': { type: 'string', value: 'DIR', help: `the directory of the lists (default ${defaultDirectory})` },
  },
  examples: ['trestle adopt', 'trestle adopt --apply', 'trestle adopt --apply /etc/cni/net.d/10-pods.conflist'],
  run,
}

async function run(input: Input): Promise<number> {
  const { words, values } = input
  const [file] = words
  const named = values['config-dir'] as string | undefined
  if (named !== undefined) requireDirectory(named)
  const directory = named ?? defaultDirectory
  const targets = file === undefined ? targetsIn(directory) : [targetOf(file)]
  requireRoot('adopt', 'adopt reads the state of the node and the namespaces of pods')
  const how = { isApplied: values['apply'] === true, isNamed: file !== undefined }
  const entries = await withProgress(input.isJson, (progress) => adopt(targets, { ...how, progress }))
  const code = entries.every(({ status }) => done.includes(status)) ? exitCode.fine : exitCode.findings
  const networks = targets.map(({ list, file: from, isServed }) => ({ name: list.name, file: from, isServed }))
  const document = { applied: values['apply'] === true, networks, entries }
  return print(input, { command: 'adopt', document, text: asText(entries, targets, file ?? directory), code })
}

/** Throws CniError 5, since a missing directory would look like a node without networks. */
function requireDirectory(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat?.isDirectory() === true) return
  const why = stat === undefined ? 'there is no such directory' : 'not a directory'
  throw new CniError('input-unreadable', `--config-dir ${path}: ${why}`)
}

const done: readonly Entry['status'][] = ['ours', 'adopted', 'cleared']

async function adopt(
  targets: readonly Target[],
  how: { isApplied: boolean; isNamed: boolean; progress: Progress },
): Promise<readonly Entry[]> {
  const whole = { endsAtMs: nowMs() + wholeMs }
  const until = runnerUntil(whole)
  const context: CallContext = {
    run: until,
    cleanup: until,
    work: whole,
    whole,
    waits: whole,
    identity: ownProcessIdentity(),
    openNetns,
  }
  if (how.isApplied) requireState()
  const { links } = await observeHost(context.run)
  const entries: Entry[] = []
  for (const target of targets) {
    try {
      entries.push(...(await adoptNetwork(context, target, { ...how, links })))
    } catch (error) {
      entries.push(networkEntry(target.list.name, (error as Error).message))
    }
  }
  return entries
}

async function adoptNetwork(
  context: CallContext,
  target: Target,
  { isApplied, isNamed, ...looking }: Looking & { isApplied: boolean; isNamed: boolean },
): Promise<readonly Entry[]> {
  const plan = await planNetwork(context, target, looking)
  const isReady = target.isServed || isNamed
  if (!isReady) return plan.entries.map((entry) => notYet(entry, target))
  if (!isApplied) return plan.entries
  looking.progress(`${target.list.name}: taking over ${plan.takings.length} pods, clearing ${plan.leaks.length} leaks`)
  return await applyNetwork(context, plan, looking)
}

/** Adds to an entry that the runtime still calls the upstream plugins for this network. */
function notYet(entry: Entry, { file }: Target): Entry {
  return entry.detail === undefined ? { ...entry, detail: `${file} still names the upstream plugins` } : entry
}

function asText(entries: readonly Entry[], targets: readonly Target[], where: string): string {
  if (targets.length === 0) return `${where} has no list of trestle or of the upstream bridge or ptp plugin\n`
  return `${entries.length === 0 ? '' : entryTable(entries)}${entryCounts(entries)}`
}

// The networks whose pods can be taken over: lists with trestle, and lists of upstream plugins that trestle can
// replace.

/**
 * A network and the configuration of its pods after adoption. `isServed`: the file has trestle already. `isChained`:
 * trestle acts on the interface of another plugin.
 */
export interface Target {
  readonly file: string
  readonly list: NetworkList
  readonly plugin: PluginConf
  readonly isServed: boolean
  readonly isChained: boolean
}

/**
 * The network of one file. Throws CniError when the file is unreadable, has no list, or has a list beyond conversion.
 */
function targetOf(file: string): Target {
  return readFileAs(file, (text) => readTarget(file, text))
}

/**
 * The networks of a configuration directory, each of the first file that has it, as runtimes choose. Lists of other
 * plugins are left out.
 */
function targetsIn(directory: string): readonly Target[] {
  const names = namesIn(directory).filter(isConfigurationName).sort()
  const files = names.flatMap((name) => tryFile(directory, name) ?? [])
  const firsts = files.filter(({ network }, at) => files.findIndex((each) => each.network === network) === at)
  return firsts.flatMap(({ file, text }) => tryTarget(file, text) ?? [])
}

/** A file that libcni loads, with its network. */
function tryFile(directory: string, name: string) {
  const file = `${directory}/${name}`
  // A link to nothing, or a directory: `trestle lint` reports it.
  return orElse(() => {
    const text = readFileSync(file, 'utf8')
    const load = loadFile(name, text)
    return 'problem' in load ? undefined : { file, text, network: load.name }
  }, undefined)
}

function tryTarget(file: string, text: string): Target | undefined {
  // Another plugin's, or beyond conversion: `trestle lint` and `trestle convert` report it.
  return orElse(() => readTarget(file, text), undefined)
}

function readTarget(file: string, text: string): Target {
  const written = readNetworkList(text)
  const isServed = written.plugins.some(({ type }) => isOwnType(type))
  const list = isServed ? written : readNetworkList(JSON.stringify(convert(text).conflist))
  const at = list.plugins.findIndex(({ type }) => isOwnType(type))
  const plugin = list.plugins[at]
  if (plugin === undefined) throw new CniError('list-without-trestle', 'no plugin of the list is trestle')
  const isChained = (lookUp(plugin, 'mode') ?? usualMode(at > 0)) === 'chained'
  return { file, list, plugin: asOwn(plugin), isServed, isChained }
}
