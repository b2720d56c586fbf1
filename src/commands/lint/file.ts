// SPDX-License-Identifier: Apache-2.0
// Findings about one file, from its text and the programs that its types name.

import { ownType } from '../../cni/call.ts'
import { isObject, lookUp } from '../../cni/json.ts'
import type { Mode } from '../../config/network-conf.ts'
import { schemas } from '../../config/schema.ts'
import type { Finding } from '../findings.ts'
import { nearestWord } from '../nearest-word.ts'
import { type Settings, type StandIn, settingsOf } from '../record/record-settings.ts'
import { type Found, findingAtKey, findingIn, type Source, shown } from './finding.ts'
import { type Form, formOf, type ListRead, type PluginEntry, readList } from './list.ts'
import { refusedOnNode } from './node.ts'
import { keysWithoutEffect, type NetworkHead, readOwn, unknownOwnKeys } from './own-plugin.ts'
import type { Programs } from './programs.ts'
import { refusedValues } from './refusals.ts'
import { ipamProblems, ownSemantics, pluginSemantics, portmapPlugin } from './semantics.ts'
import { readSource } from './source.ts'
import { isPlaceholder, placeholders, standInsOf } from './templates.ts'
import { unknownKeys } from './unknown-keys.ts'
import {
  chainedTypes,
  ipamTypeMissing,
  isKnownType,
  libcniProblems,
  mainTypes,
  pathAsType,
  upstreamShape,
  valueProblems,
} from './upstream.ts'

/** `list` and `form` are absent if the file is not a JSON object. */
export interface FileLint {
  readonly file: string
  readonly findings: readonly Finding[]
  readonly form?: Form
  readonly list?: ListRead
}

/** `file` is the name of the text; its extension selects the form. */
export function lintText(file: string, text: string, programs: Programs): FileLint {
  const { source, findings } = readSource(file, text)
  if (source === undefined) return { file, findings }
  const form = formOf(file, source.root)
  const { list, found } = lintSource(source, form, programs)
  const all = [...findings, ...found.map((each) => findingAtKey(source, each))]
  const sorted = all.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))
  return { file, findings: [...sorted, ...binDir(file, programs)], form, list }
}

/** Findings about a JSON object, each with the steps to its place. */
export function lintSource(
  source: Source,
  form: Form,
  programs: Programs,
): { readonly list: ListRead; readonly found: readonly Found[] } {
  const written = readList(source, form)
  const list = { ...written, plugins: written.plugins.map((entry) => wrappedBy(entry, programs)) }
  const head: NetworkHead = { name: nameOf(list), version: list.version ?? '1.1.0' }
  const ofPlugins = list.plugins.flatMap((entry) => lintPlugin(entry, head, { list, programs }))
  const templates = placeholders(source.root)
  // A wrong value that is a placeholder is reported as the placeholder.
  const ofList = [
    ...list.found,
    ...written.plugins.flatMap((entry) => standInNotes(entry, programs)),
    ...twoMains(list, programs),
    ...chainedTwice(list.plugins, programs),
  ]
  const unfilled = [...templates, ...standInsOf(source)]
  const others = [...ofList, ...ofPlugins].filter((each) => !isPlaceholder(each, unfilled))
  return { list, found: [...templates, ...others] }
}

/** The plugin in whose place trestle stands (record.wrap): it gets the other keys, and is judged. */
function wrappedBy(entry: PluginEntry, programs: Programs): PluginEntry {
  const { wrap } = standInOf(entry, programs)
  if (wrap === undefined || programs.isOwn(wrap)) return entry
  const others = Object.entries(entry.conf).filter(([key]) => key.toLowerCase() !== 'record')
  return { ...entry, conf: { ...Object.fromEntries(others), type: wrap } }
}

function standInOf({ conf }: PluginEntry, programs: Programs): Settings & StandIn {
  const type = lookUp(conf, 'type')
  return typeof type === 'string' && programs.isOwn(type) ? settingsOf(conf) : {}
}

function standInNotes(entry: PluginEntry, programs: Programs): readonly Found[] {
  const { wrap, answer } = standInOf(entry, programs)
  const steps = [...entry.steps, 'record']
  if (wrap !== undefined) {
    return [{ id: 'record-stands-in', message: `trestle runs ${shown(wrap)} and records each call`, steps }]
  }
  if (answer === undefined) return []
  const message = 'trestle gives the answers of record.answer, and makes nothing'
  return [{ id: 'record-stands-in', message, severity: 'warning', cause: 'pods get no network', steps }]
}

/** A valid name for a file without one, so that the rest can be read. */
function nameOf({ name }: ListRead): string {
  return name !== undefined && /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(name) ? name : 'unnamed'
}

function binDir(file: string, programs: Programs): readonly Finding[] {
  const { absence } = programs
  if (absence === undefined) return []
  const message = `the types of its plugins were not checked: ${absence.message}`
  return [findingIn(file, { id: 'bin-dir-missing', message, cure: absence.cure })]
}

function chainedTwice(plugins: readonly PluginEntry[], programs: Programs): readonly Found[] {
  const isChained = ({ conf, index }: PluginEntry) => {
    const type = lookUp(conf, 'type')
    const mode = lookUp(conf, 'mode') ?? usualMode(index > 0)
    return typeof type === 'string' && programs.isOwn(type) && mode === 'chained'
  }
  const [first, ...more] = plugins.filter(isChained)
  return more.map(({ steps }): Found => {
    const message = `trestle is chained twice: it is plugins[${first?.index}] already`
    return { id: 'chained-twice', message, steps: [...steps, 'type'], isAboutValue: true }
  })
}

interface About {
  readonly list: ListRead
  readonly programs: Programs
}

function lintPlugin(entry: PluginEntry, head: NetworkHead, about: About): readonly Found[] {
  const type = lookUp(entry.conf, 'type')
  if (typeof type !== 'string' || type === '') {
    return [typeMissing(entry, type)]
  }
  // The keys are of the plugin that is to stand there.
  if (standInOf(entry, about.programs).answer !== undefined) return []
  const body = about.programs.isOwn(type)
    ? lintOwn(entry, head, about.programs)
    : lintOther(entry, { type, head, ...about })
  return [...programProblems(entry, type, about), ...pluginSemantics(entry), ...body]
}

function typeMissing({ conf, steps }: PluginEntry, type: unknown): Found {
  const id = 'type-missing'
  if (type !== undefined) {
    const message = type === '' ? 'the plugin has no type' : `type: ${shown(type)} is no text`
    return { id, message, steps: [...steps, 'type'] }
  }
  const message = 'the plugin has no type'
  const meant = Object.keys(conf).find((key) => nearestWord(key, ['type']) !== undefined)
  if (meant === undefined) return { id, message, steps }
  return { id, message, cure: `write "type" for ${shown(meant)}`, steps: [...steps, meant] }
}

function lintOwn(entry: PluginEntry, head: NetworkHead, programs: Programs): readonly Found[] {
  const unknown = unknownOwnKeys(entry.conf, entry.steps)
  const { found, conf } = readOwn(entry, head)
  const links = programs.host?.()
  const written = lookUp(entry.conf, 'mode')
  const mode = conf?.mode ?? (isInterfaceMode(written) ? written : usualMode(entry.index > 0))
  return [
    ...unknown,
    ...found,
    ...keysWithoutEffect(entry, mode),
    ...(conf === undefined ? [] : ownSemantics(entry)),
    ...(conf === undefined || links === undefined || entry.index > 0 ? [] : refusedOnNode(entry, head, links)),
  ]
}

/** Keys that only trestle has: their author means trestle. */
const trestleOnly = ['podcidr', 'nonMasqueradeCIDRs', 'removeWhenEmpty', 'allowOverlap']

function lintOther(entry: PluginEntry, about: About & { type: string; head: NetworkHead }): readonly Found[] {
  const { conf, steps } = entry
  const { type, head, programs } = about
  const ours = trestleOnly.filter((key) => lookUp(conf, key) !== undefined)
  const keysOfOurs = ours.map((key): Found => {
    const message = `${key} is a key of trestle, and the type is ${shown(type)}`
    return { id: 'key-of-trestle', message, steps: [...steps, key] }
  })
  const ipam = lookUp(conf, 'ipam')
  const ipamType = isObject(ipam) ? lookUp(ipam, 'type') : undefined
  const delegated = typeof ipamType === 'string' && programs.isOwn(ipamType) ? delegatedToUs(entry, head) : []
  const found: Found[] = [...keysOfOurs, ...delegated, ...tooEarly(entry, type), ...libcniProblems(entry)]
  const shape = upstreamShape(type, ipamType)
  if (shape === undefined) return found
  // A plugin that lint does not know may give the default route, as tc-redirect-tap of Firecracker does to its guest.
  const areAllKnown = about.list.plugins.every(({ conf: each }) => isKnownType(lookUp(each, 'type')))
  const ofIpam = ipamProblems(entry, type, head).filter(({ id }) => areAllKnown || id !== 'no-default-route')
  found.push(...valueProblems(entry, type), ...refusedValues(entry, type), ...ofIpam, ...ipamTypeMissing(entry, type))
  // The effect on pods does not matter if the plugin refuses each ADD.
  if (found.length === 0) found.push(...portmapPlugin(entry))
  const unknown = unknownKeys(conf, steps, { shape, whole: shape, what: type })
  const told = ours.map((key) => key.toLowerCase())
  const misspelt = unknown.filter((each) => !told.includes(String(each.steps?.at(-1)).toLowerCase()))
  // A misspelt key is one finding, not a missing key as well.
  const isMisspelt = misspelt.some(({ severity }) => severity !== 'note')
  return [...(isMisspelt ? found.filter((each) => each.isAbsence !== true) : found), ...misspelt]
}

function tooEarly({ steps, index }: PluginEntry, type: string): readonly Found[] {
  if (index > 0 || !chainedTypes.includes(type)) return []
  const message = `${type} is the first plugin, and works on the interface of one before it`
  return [{ id: 'chained-first', message, steps: [...steps, 'type'], isAboutValue: true }]
}

/** A second plugin that makes an interface, with the name of the first. */
function twoMains({ plugins }: ListRead, programs: Programs): readonly Found[] {
  const typeOf = ({ conf }: PluginEntry): string => String(lookUp(conf, 'type'))
  const makes = (entry: PluginEntry): boolean => {
    const isAsked = isInterfaceMode(lookUp(entry.conf, 'mode'))
    const isMaking = programs.isOwn(typeOf(entry)) && (isAsked || entry.index === 0)
    return isMaking || mainTypes.includes(typeOf(entry))
  }
  const [first, ...others] = plugins.filter(makes)
  return others.map((entry): Found => {
    const before = typeOf(first as PluginEntry)
    const message = `${typeOf(entry)} makes the interface of the pod, and ${before} before it does, too`
    return { id: 'two-main-plugins', message, steps: [...entry.steps, 'type'], isAboutValue: true }
  })
}

/** A plugin with trestle as its IPAM: the keys in `ipam` are trestle's. */
function delegatedToUs({ conf, steps }: PluginEntry, head: NetworkHead): readonly Found[] {
  const ipam = isObject(conf['ipam']) ? { ...conf['ipam'], type: ownType } : conf['ipam']
  const entry: PluginEntry = { conf: { ipam, capabilities: conf['capabilities'] }, steps, index: 0 }
  const shape = schemas.ipamRole.keys?.keys?.get('ipam')?.shape
  const unknown = unknownKeys(conf['ipam'], [...steps, 'ipam'], { shape, whole: {}, what: 'trestle' })
  return [...unknown, ...readOwn(entry, head).found]
}

function programProblems({ conf, steps }: PluginEntry, type: string, { list, programs }: About): readonly Found[] {
  const ipam = lookUp(conf, 'ipam')
  const ipamType = isObject(ipam) ? lookUp(ipam, 'type') : undefined
  const ofType = [...steps, 'type']
  const ofIpamType = [...steps, 'ipam', 'type']
  const paths = [pathAsType(type, ofType), pathAsType(ipamType, ofIpamType)]
  if (!programs.hasDirectory) return paths.flatMap((each) => each ?? [])
  const [path, ipamPath] = paths.map((each) => (each === undefined ? {} : { cause: each.cause, cure: each.cure }))
  const problem = programs.problemOf(type, list.version)
  const own: readonly Found[] =
    problem === undefined ? [] : [{ ...problem, ...path, steps: ofType, isAboutValue: true }]
  const inProcess: readonly unknown[] = [ownType, type, 'host-local', 'static']
  const isInProcess = programs.isOwn(type) && inProcess.includes(ipamType)
  if (typeof ipamType !== 'string' || ipamType === '' || isInProcess) return own
  // An IPAM plugin is called with the version of the list, too.
  const ofIpam = programs.problemOf(ipamType, list.version)
  return ofIpam === undefined ? own : [...own, { ...ofIpam, ...ipamPath, steps: ofIpamType, isAboutValue: true }]
}

function usualMode(isBehind: boolean): Mode {
  return isBehind ? 'chained' : 'bridge'
}

function isInterfaceMode(mode: unknown): mode is Mode {
  return ['bridge', 'ptp', 'macvlan', 'host-device'].includes(mode as string)
}
