// SPDX-License-Identifier: Apache-2.0
// The environment of a call, checked: CNI spec 1.1.0, section 3 "Parameters".

import { linkNameProblem, unsafeNameProblem } from './addresses.ts'
import { CniError, Code, hasControlCharacter } from './errors.ts'
import { defined } from './json.ts'

export type Verb = 'ADD' | 'DEL' | 'CHECK' | 'GC' | 'STATUS' | 'VERSION'

export type Environment = Readonly<Record<string, string | undefined>>

/** A call. Fields that the verb does not have are empty. */
export interface Call {
  readonly verb: Verb
  readonly containerId: string
  /** CNI_NETNS; may be empty on DEL. */
  readonly netns: string
  readonly ifName: string
  readonly args: CniArgs
  /** CNI_PATH, split. */
  readonly path: readonly string[]
  /**
   * The values of `type` that mean this executable, the name that it was called by first. With another `type` its
   * plugin delegates to us.
   */
  readonly ownTypes: readonly string[]
}

/** CNI_ARGS, split. `problems`: what is wrong with them; only ADD refuses that (`requireGoodArgs`). */
export interface CniArgs {
  readonly ip: readonly string[]
  readonly gateway: readonly string[]
  readonly mac?: string
  readonly podNamespace?: string
  readonly podName?: string
  readonly podUid?: string
  readonly problems: readonly string[]
}

export const ownType = 'trestle'

const variableNames = ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_ARGS', 'CNI_PATH'] as const
type Variable = (typeof variableNames)[number]
type Need = 'required' | 'optional'

/** A variable that a verb does not have is not looked at: libcni sends dummies with VERSION. */
const ids = { CNI_CONTAINERID: 'required', CNI_NETNS: 'required', CNI_IFNAME: 'required' } as const
const ofAttachment: Partial<Record<Variable, Need>> = { ...ids, CNI_ARGS: 'optional', CNI_PATH: 'optional' }
const needsOf: Readonly<Record<Verb, Partial<Record<Variable, Need>>>> = {
  ADD: ofAttachment,
  CHECK: ofAttachment,
  DEL: { ...ofAttachment, CNI_NETNS: 'optional' },
  GC: { CNI_PATH: 'required' },
  STATUS: { CNI_PATH: 'optional' },
  VERSION: {},
}

/** The kernel allows 128 KiB for one variable (MAX_ARG_STRLEN); none of ours needs half of that. */
const longestValue = 64 * 1024

/** The call that the environment describes. Throws CniError 4, which names every variable that is missing or wrong. */
export function readCall(env: Environment, ownTypes: readonly string[] = [ownType]): Call {
  const verb = readVerb(env)
  const values = readVariables(env, verb)
  return {
    verb,
    containerId: values.CNI_CONTAINERID,
    netns: values.CNI_NETNS,
    ifName: values.CNI_IFNAME,
    args: readArgs(values.CNI_ARGS),
    path: values.CNI_PATH.split(':').filter((directory) => directory !== ''),
    ownTypes,
  }
}

function readVerb(env: Environment): Verb {
  const verb = env['CNI_COMMAND'] ?? ''
  const details = `use ${Object.keys(needsOf).join(', ')}`
  if (verb === '') throw wrongEnvironment('variable-missing', 'required env variables [CNI_COMMAND] missing', details)
  if (Object.hasOwn(needsOf, verb)) return verb as Verb
  throw wrongEnvironment('verb-unknown', `unknown CNI_COMMAND: ${shortened(verb)}`, details)
}

/** The values, empty where the verb has none. An optional one that is wrong is empty on DEL. */
function readVariables(env: Environment, verb: Verb): Readonly<Record<Variable, string>> {
  const values = { CNI_CONTAINERID: '', CNI_NETNS: '', CNI_IFNAME: '', CNI_ARGS: '', CNI_PATH: '' }
  const missing: Variable[] = []
  const messages: string[] = []
  const details: string[] = []
  for (const name of variableNames) {
    const need = needsOf[verb][name]
    const value = env[name] ?? ''
    if (need === 'required' && value === '') missing.push(name)
    if (need === undefined || value === '') continue
    const problem = problemOf(name, value, verb)
    if (problem === undefined) values[name] = value
    else if (verb !== 'DEL' || need === 'required') {
      messages.push(`${name}: ${problem.what}`)
      // CNI_ARGS may hold secrets: its value is not shown.
      details.push(`${name === 'CNI_ARGS' ? name : `${name}=${JSON.stringify(shortened(value))}`}: ${problem.hint}`)
    }
  }
  if (missing.length > 0) {
    messages.unshift(`required env variables [${missing.join(',')}] missing`)
    details.unshift(`${verb} needs them (CNI spec, section 3)`)
  }
  if (messages.length === 0) return values
  const id = missing.length > 0 ? 'variable-missing' : 'variable-invalid'
  throw wrongEnvironment(id, messages.join('; '), details.join('\n'))
}

function problemOf(name: Variable, value: string, verb: Verb): { what: string; hint: string } | undefined {
  if (value.length > longestValue) return { what: 'too long', hint: `use at most ${longestValue} characters` }
  if (name === 'CNI_CONTAINERID' && !/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(value)) {
    const hint = 'use letters, digits, _, . and -; the first is a letter or digit'
    return { what: 'invalid characters in containerID', hint }
  }
  // A relative path would be read by `ip` as a name below /run/netns.
  if (name === 'CNI_NETNS' && (hasControlCharacter(value) || !value.startsWith('/')))
    return { what: 'not an absolute path', hint: 'use a path like /run/netns/x, without control characters' }
  if (name !== 'CNI_IFNAME') return undefined
  // DEL takes every name that the specification allows: refusing one would make a pod undeletable.
  const what = linkNameProblem(value) ?? (verb === 'DEL' ? undefined : unsafeNameProblem(value))
  const hint = 'interface name should be less than 16 characters; use letters, digits, _, . and -, like eth0'
  return what === undefined ? undefined : { what, hint }
}

function wrongEnvironment(id: string, message: string, details: string): CniError {
  return new CniError(Code.invalidEnvironment, id, message, { details })
}

function shortened(text: string): string {
  return text.length > 64 ? `${text.slice(0, 64)}...` : text
}

/** `K=V;K=V`; keys are case-sensitive and the last of two counts (cni pkg/types/args.go). A value may contain `=`. */
function readArgs(text: string): CniArgs {
  const pairs = new Map<string, string>()
  const problems: string[] = []
  for (const segment of text.split(';')) {
    const equals = segment.indexOf('=')
    if (equals > 0) pairs.set(segment.slice(0, equals), segment.slice(equals + 1))
    else if (segment.trim() !== '' && problems.length < 8)
      problems.push(`invalid pair ${JSON.stringify(segment.slice(0, 64))}`)
  }
  const values = (key: string) =>
    (pairs.get(key) ?? '')
      .trim()
      .split(/\s*,\s*/)
      .filter(Boolean)
  const [mac, podNamespace, podName, podUid] = ['MAC', 'K8S_POD_NAMESPACE', 'K8S_POD_NAME', 'K8S_POD_UID'].map(
    (key) => pairs.get(key) || undefined,
  )
  return {
    ip: values('IP'),
    gateway: values('GATEWAY'),
    ...defined({ mac, podNamespace, podName, podUid }),
    problems: [...problems, ...unknownKeys(pairs)],
  }
}

function unknownKeys(pairs: ReadonlyMap<string, string>): readonly string[] {
  const ignore = pairs.get('IgnoreUnknown')?.toLowerCase() ?? 'false'
  if (!['1', '0', 'true', 'false'].includes(ignore))
    return [`IgnoreUnknown ${JSON.stringify(ignore.slice(0, 64))} is not 1, 0, true or false`]
  if (ignore === '1' || ignore === 'true') return []
  const isKnown = (key: string) => ['IP', 'GATEWAY', 'MAC', 'IgnoreUnknown'].includes(key) || key.startsWith('K8S_POD_')
  // The values may be secrets, and there may be thousands of keys.
  const unknown = [...pairs.keys()].filter((key) => !isKnown(key)).map((key) => key.slice(0, 64))
  return unknown.length === 0 ? [] : [`unknown args ${JSON.stringify(unknown.slice(0, 8))}`]
}

/** Throws CniError 4 where an ADD has CNI_ARGS that cannot be read. */
export function requireGoodArgs({ verb, args: { problems } }: Pick<Call, 'verb' | 'args'>): void {
  if (verb !== 'ADD' || problems.length === 0) return
  const hint = 'use K=V;K=V with the keys IP, GATEWAY, MAC, K8S_POD_*, or add IgnoreUnknown=1'
  throw wrongEnvironment('variable-invalid', `CNI_ARGS: ARGS: ${problems.join('; ')}`, `CNI_ARGS: ${hint}`)
}
