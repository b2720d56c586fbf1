// SPDX-License-Identifier: Apache-2.0
// Findings about one file, from its text and the programs that its types name.

import { ownType } from '../../cni/call.ts'
import { toCniError } from '../../cni/errors.ts'
import { asObject, defined, isObject, lookUp, parseConfig } from '../../cni/json.ts'
import type { Mode } from '../../config/network-conf.ts'
import { recordKeyOf } from '../../recording/record-settings.ts'
import type { Finding } from '../findings.ts'
import { readJsonText, shown } from '../json-text.ts'
import { formOf, type ListRead, type PluginEntry, readList } from '../network-list.ts'
import { contradictionsOf, keysWithoutEffect, runtimeKeys } from './contradictions.ts'
import { type Found, findingAt, findingAtKey, findingIn, type Source } from './finding.ts'
import { lintIpamRole, type NetworkHead, readOwn, unknownOwnKeys } from './own-plugin.ts'
import type { Programs } from './programs.ts'
import { faultyListKeys } from './unknown-keys.ts'

/** `list` is absent if the file is not a JSON object. `problem`: why libcni does not load it. */
export interface FileLint {
  readonly file: string
  readonly findings: readonly Finding[]
  readonly list?: ListRead
  /** Of the plugins, in order. */
  readonly types: readonly string[]
  readonly problem?: string
}

/** `file` is the name of the text; its extension selects the form. */
export function lintText(file: string, text: string, programs: Programs): FileLint {
  const without = { file, types: [] }
  if (text.trim() === '') {
    const findings = [findingIn(file, { id: 'file-empty', message: 'there is nothing in it' })]
    return { ...without, findings, problem: 'it is not JSON' }
  }
  const json = readJsonText(text)
  const faults = json.problems.map((problem) => findingAt(file, text, { id: 'json-syntax', ...problem }))
  const root = faults.length > 0 ? json.value : objectIn(text)
  if (!isObject(root)) {
    const message = typeof root === 'string' ? root : 'it is no JSON object'
    const notObject = findingAt(file, text, { id: 'not-an-object', message, offset: text.search(/\S/) })
    const problem = faults.length > 0 ? 'it is not JSON' : 'it is no object'
    return { ...without, findings: faults.length > 0 ? faults : [notObject], problem }
  }
  const source = { file, text, root, json }
  const { list, found, types, problem } = lintSource(source, programs)
  // Behind a fault of syntax a key may only seem to be absent.
  const certain = faults.length === 0 ? found : found.filter(({ id, isAbsence }) => !isAbsence && !/-missing$/.test(id))
  const twice = json.duplicates.slice(0, mostFindings).map(({ offset, name }) => {
    return findingAt(file, text, { id: 'duplicate-key', message: `${shown(name)} is there twice`, offset })
  })
  const atKeys = certain.slice(0, mostFindings).map((each) => findingAtKey(source, each))
  const all = [...faults, ...twice, ...atKeys]
  const sorted = all.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))
  const findings = [...sorted, ...leftOut(file, certain), ...unchecked(file, programs)]
  return { file, findings, list, types, ...defined({ problem: faults.length > 0 ? 'it is not JSON' : problem }) }
}

/** A file with more is no configuration, and finding each one's line takes as long as reading the text. */
const mostFindings = 100

function leftOut(file: string, found: readonly Found[]): readonly Finding[] {
  const next = found[mostFindings]
  if (next === undefined) return []
  return [findingIn(file, { ...next, message: `${found.length - mostFindings} more findings are not shown` })]
}

/** The object of a JSON text, or what a call would answer to it. */
function objectIn(text: string): unknown {
  try {
    return parseConfig(text)
  } catch (thrown) {
    return toCniError(thrown).message.replace('error unmarshall network config: ', '')
  }
}

function unchecked(file: string, { absence }: Programs): readonly Finding[] {
  if (absence === undefined) return []
  const message = `the types of its plugins were not checked: ${absence}`
  return [findingIn(file, { id: 'bin-dir-missing', message })]
}

interface SourceLint extends Pick<FileLint, 'types'> {
  readonly list: ListRead
  readonly found: readonly Found[]
  readonly problem: string | undefined
}

function lintSource({ file, root }: Source, programs: Programs): SourceLint {
  const form = formOf(file, root)
  const list = readList(root, form)
  const isName = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(list.name)
  const head = { name: isName ? list.name : 'unnamed', version: list.version ?? '1.1.0' } as const
  const ofPlugins = list.plugins.flatMap((entry) => lintPlugin(entry, head, programs))
  const own = [...(form === 'list' ? faultyListKeys(root) : []), ...ofPlugins, ...twoOfAKind(list.plugins, programs)]
  // What libcni refuses, trestle refuses as well.
  const isSaid = ({ steps = [] }: Found) => list.faults.some((fault) => fault.steps.join() === steps.join())
  return {
    list,
    found: [...list.faults, ...own.filter((each) => !isSaid(each))],
    types: list.plugins.map(({ conf }) => String(lookUp(conf, 'type'))),
    problem: list.faults.find(({ stops }) => stops === 'load')?.message,
  }
}

function lintPlugin(entry: PluginEntry, head: NetworkHead, programs: Programs): readonly Found[] {
  const { conf, steps } = entry
  const type = lookUp(conf, 'type')
  if (typeof type !== 'string' || type === '') return []
  const isOwn = programs.isOwn(type)
  const { wrap, answer } = (isOwn ? recordKeyOf(conf) : undefined) ?? {}
  const found = [...programProblems(entry, type, { version: head.version, programs }), ...runtimeKeys(entry)]
  if (wrap !== undefined || answer !== undefined) {
    const message =
      wrap === undefined
        ? 'trestle gives the answers of record.answer, and makes nothing: pods get no network'
        : `trestle runs ${shown(wrap)} and records each call`
    const severity = wrap === undefined ? 'warning' : 'note'
    return [...found, { id: 'record-stands-in', message, severity, steps: [...steps, 'record'] }]
  }
  if (isOwn) return [...found, ...lintOwn(entry, head)]
  // Another plugin's keys are its own affair, but for `ipam` if trestle is its IPAM.
  const ipamType = lookUp(asObject(lookUp(conf, 'ipam')), 'type')
  return typeof ipamType === 'string' && programs.isOwn(ipamType) ? [...found, ...lintIpamRole(entry, head)] : found
}

function lintOwn(entry: PluginEntry, head: NetworkHead): readonly Found[] {
  const unknown = unknownOwnKeys(entry.conf, entry.steps)
  const { found, conf } = readOwn(entry, head)
  const mode = conf?.mode ?? modeOf(entry)
  const wrong = unknown.some(({ cure }) => cure !== undefined) ? found.filter(({ isAbsence }) => !isAbsence) : found
  return [
    ...unknown,
    ...wrong,
    ...keysWithoutEffect(entry, mode),
    ...(conf === undefined ? [] : contradictionsOf(entry, conf)),
  ]
}

const interfaceModes = ['bridge', 'ptp', 'macvlan', 'host-device'] as const

/** The mode as written, or the one that the place in the list means. */
function modeOf({ conf, index }: PluginEntry): Mode {
  const written = lookUp(conf, 'mode')
  const usual = index > 0 ? 'chained' : 'bridge'
  return interfaceModes.find((mode) => mode === written) ?? (written === 'chained' ? 'chained' : usual)
}

/** Reference plugins that make an interface. */
const mainTypes = ['bridge', 'ptp', 'macvlan', 'ipvlan', 'vlan', 'host-device', 'tap', 'dummy', 'flannel', 'calico']

/** A second plugin that makes the interface, or a second trestle that is chained. */
function twoOfAKind(plugins: readonly PluginEntry[], programs: Programs): readonly Found[] {
  const found: Found[] = []
  let [main, chained]: (PluginEntry | undefined)[] = []
  for (const entry of plugins) {
    const type = String(lookUp(entry.conf, 'type'))
    const isOwn = programs.isOwn(type)
    const at = { steps: [...entry.steps, 'type'], isAboutValue: true }
    if (isOwn ? modeOf(entry) !== 'chained' : mainTypes.includes(type)) {
      const message = `${type} makes the interface of the pod, and ${main?.conf['type']} before it does, too`
      if (main !== undefined) found.push({ id: 'two-main-plugins', message, ...at })
      main ??= entry
    } else if (isOwn) {
      const message = `trestle is chained twice: it is plugins[${chained?.index}] already`
      if (chained !== undefined) found.push({ id: 'chained-twice', message, ...at })
      chained ??= entry
    }
  }
  return found
}

function programProblems(
  { conf, steps }: PluginEntry,
  type: string,
  { version, programs }: { version: string; programs: Programs },
): readonly Found[] {
  const ipamType = lookUp(asObject(lookUp(conf, 'ipam')), 'type')
  const isInProcess = programs.isOwn(type) && [ownType, type, 'host-local', 'static'].includes(String(ipamType))
  const named = [{ name: type, at: [...steps, 'type'] }]
  if (typeof ipamType === 'string' && ipamType !== '' && !isInProcess) {
    named.push({ name: ipamType, at: [...steps, 'ipam', 'type'] })
  }
  return named.flatMap(({ name, at }): readonly Found[] => {
    const problem = programs.problemOf(name, version)
    return problem === undefined ? [] : [{ ...problem, steps: at, isAboutValue: true }]
  })
}
