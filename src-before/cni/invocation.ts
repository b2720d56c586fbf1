// SPDX-License-Identifier: Apache-2.0
// The environment of a call, checked: CNI spec 1.1.0, section 3 "Parameters".

import { linkNameProblem, unsafeNameProblem } from './address.ts'
import { CniError, hasControlCharacter } from './error.ts'
import type { ErrorId } from './error-code.ts'

export type Verb = 'ADD' | 'DEL' | 'CHECK' | 'GC' | 'STATUS' | 'VERSION'

/** A call. Fields that the verb does not have are empty strings. */
export interface Invocation {
  readonly verb: Verb
  readonly containerId: string
  /** CNI_NETNS as given; may be empty on DEL. */
  readonly netns: string
  readonly ifName: string
  readonly args: CniArgs
  /** Of CNI_ARGS; whether they matter depends on the mode: `checkArgs`. */
  readonly argsProblems: readonly string[]
  readonly path: readonly string[]
  /**
   * The types of a configuration that mean this executable, the name that it was called by first; another one means
   * that its plugin delegates to us.
   */
  readonly ownTypes: readonly string[]
}

export type Environment = Readonly<Record<string, string | undefined>>

type Variable = 'CNI_CONTAINERID' | 'CNI_NETNS' | 'CNI_IFNAME' | 'CNI_ARGS' | 'CNI_PATH'

/** In the order in which upstream examines and lists them. */
const variables: readonly Variable[] = ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_ARGS', 'CNI_PATH']

/**
 * Which verb needs which variable: CNI spec 1.1.0, section 3. A variable that is not here is not
 * looked at: libcni sends dummies with VERSION. CNI_PATH is required for GC only, as the specification
 * says; upstream wants it everywhere but on VERSION.
 */
const ofAttachment = {
  CNI_CONTAINERID: 'required',
  CNI_NETNS: 'required',
  CNI_IFNAME: 'required',
  CNI_ARGS: 'optional',
  CNI_PATH: 'optional',
} as const
const needs: Readonly<Record<Verb, Readonly<Partial<Record<Variable, 'required' | 'optional'>>>>> = {
  ADD: ofAttachment,
  CHECK: ofAttachment,
  DEL: { ...ofAttachment, CNI_NETNS: 'optional' },
  GC: { CNI_PATH: 'required' },
  STATUS: { CNI_PATH: 'optional' },
  VERSION: {},
}

/** The kernel allows 128 KiB for one variable (MAX_ARG_STRLEN); none of ours needs half of that. */
const LONGEST_VALUE = 64 * 1024

interface Problem {
  readonly what: string
  readonly hint: string
}

function containerIdProblem(id: string): Problem | undefined {
  if (/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(id)) return undefined
  const hint = 'use letters, digits, _, . and -; the first is a letter or digit'
  return { what: 'invalid characters in containerID', hint }
}

/** DEL takes every name the specification allows: refusing one would make a pod undeletable. */
function ifNameProblem(name: string, verb: Verb): Problem | undefined {
  const what = linkNameProblem(name) ?? (verb === 'DEL' ? undefined : unsafeNameProblem(name))
  if (what === undefined) return undefined
  return { what, hint: 'interface name should be less than 16 characters; use letters, digits, _, . and -, like eth0' }
}

/** A relative path would be read by `ip` as a name below /run/netns. */
function netnsProblem(path: string): Problem | undefined {
  if (!hasControlCharacter(path) && path.startsWith('/')) return undefined
  return { what: 'not an absolute path', hint: 'use a path like /run/netns/x, without control characters' }
}

const checks: Readonly<Record<Variable, (value: string, verb: Verb) => Problem | undefined>> = {
  CNI_CONTAINERID: containerIdProblem,
  CNI_NETNS: netnsProblem,
  CNI_IFNAME: ifNameProblem,
  CNI_ARGS: () => undefined,
  CNI_PATH: () => undefined,
}

function problemOf(variable: Variable, value: string, verb: Verb): Problem | undefined {
  if (value.length <= LONGEST_VALUE) return checks[variable](value, verb)
  return { what: 'too long', hint: `use at most ${LONGEST_VALUE} characters` }
}

function isVerb(text: string): text is Verb {
  return Object.hasOwn(needs, text)
}

function readVerb(env: Environment): Verb {
  const text = env['CNI_COMMAND'] ?? ''
  const hint = `use ${Object.keys(needs).join(', ')}`
  if (text === '') {
    throw invalidEnvironment('variable-missing', 'required env variables [CNI_COMMAND] missing', hint)
  }
  if (!isVerb(text)) throw invalidEnvironment('verb-unknown', `unknown CNI_COMMAND: ${shorten(text)}`, hint)
  return text
}

function invalidEnvironment(id: ErrorId, message: string, details: string): CniError {
  return new CniError(id, message, { details })
}

function shorten(text: string): string {
  return text.length > 64 ? `${text.slice(0, 64)}...` : text
}

/** The checked values, empty where the verb has none. An optional one that is bad is empty on DEL. */
function readVariables(env: Environment, verb: Verb): Readonly<Record<Variable, string>> {
  const values = { CNI_CONTAINERID: '', CNI_NETNS: '', CNI_IFNAME: '', CNI_ARGS: '', CNI_PATH: '' }
  const missing: Variable[] = []
  const messages: string[] = []
  const details: string[] = []
  for (const variable of variables) {
    const need = needs[verb][variable]
    const value = env[variable] ?? ''
    if (need === 'required' && value === '') missing.push(variable)
    if (need === undefined || value === '') continue
    const problem = problemOf(variable, value, verb)
    if (problem === undefined) values[variable] = value
    else if (verb !== 'DEL' || need === 'required') {
      messages.push(`${variable}: ${problem.what}`)
      // CNI_ARGS is made of the pod's metadata: what is wrong with it is in the message.
      const shown = variable === 'CNI_ARGS' ? variable : `${variable}=${JSON.stringify(shorten(value))}`
      details.push(`${shown}: ${problem.hint}`)
    }
  }
  if (missing.length > 0) {
    messages.unshift(`required env variables [${missing.join(',')}] missing`)
    details.unshift(`${verb} needs them (CNI spec, section 3)`)
  }
  if (messages.length > 0) {
    const id = missing.length > 0 ? 'variable-missing' : 'variable-invalid'
    throw invalidEnvironment(id, messages.join('; '), details.join('\n'))
  }
  return values
}

/**
 * The call that the environment describes. Throws CniError invalidEnvironment that names every variable
 * that is missing or has a bad value. Stricter than libcni on ADD and CHECK: `ifNameProblem`. Laxer
 * on DEL: only container id and interface name count (docs/design.md, "DEL"). `ownTypes`: the names of this executable.
 */
export function readInvocation(env: Environment, ownTypes: readonly string[] = [ownType]): Invocation {
  const verb = readVerb(env)
  const values = readVariables(env, verb)
  const { args, problems: argsProblems } = readArgs(values.CNI_ARGS)
  return {
    verb,
    containerId: values.CNI_CONTAINERID,
    netns: values.CNI_NETNS,
    ifName: values.CNI_IFNAME,
    args,
    argsProblems,
    path: values.CNI_PATH.split(':').filter((dir) => dir !== ''),
    ownTypes,
  }
}

// CNI_ARGS: `K=V;K=V`. Keys are case-sensitive (libcni pkg/types/args.go). More forgiving than the
// upstream in two points: an empty segment is nothing, and a value may contain `=`.

/** CNI_ARGS, split. Known keys are IP, GATEWAY, MAC, IgnoreUnknown and K8S_POD_*. */
interface CniArgs {
  readonly ip: readonly string[]
  readonly gateway: readonly string[]
  readonly mac?: string
  readonly podNamespace?: string
  readonly podName?: string
  readonly podUid?: string
}

/** What CNI_ARGS holds, and what is wrong with it. Only ADD treats a problem as an error: `checkArgs`. */
interface ReadArgs {
  readonly args: CniArgs
  readonly problems: readonly string[]
}

const booleans: Readonly<Record<string, boolean>> = {
  '1': true,
  true: true,
  '0': false,
  false: false,
}

function isKnown(key: string): boolean {
  return key === 'IP' || key === 'GATEWAY' || key === 'MAC' || key === 'IgnoreUnknown' || key.startsWith('K8S_POD_')
}

function listOf(text: string | undefined): readonly string[] {
  return (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}

/** The pairs of `text`; a key that is there twice has its last value, as in upstream. */
function pairsOf(text: string): { readonly pairs: ReadonlyMap<string, string>; readonly problems: readonly string[] } {
  const pairs = new Map<string, string>()
  const problems: string[] = []
  for (const segment of text.split(';')) {
    const equals = segment.indexOf('=')
    if (equals > 0) pairs.set(segment.slice(0, equals), segment.slice(equals + 1))
    else if (segment.trim() !== '') problems.push(`invalid pair ${JSON.stringify(segment.slice(0, 64))}`)
  }
  return { pairs, problems: problems.slice(0, 8) }
}

function unknownProblems(pairs: ReadonlyMap<string, string>): readonly string[] {
  // In any case of letters, as upstream reads it (pkg/types/args.go, UnmarshallableBool).
  const ignore = pairs.get('IgnoreUnknown')?.toLowerCase()
  if (ignore !== undefined && !Object.hasOwn(booleans, ignore)) {
    return [`IgnoreUnknown ${JSON.stringify(ignore.slice(0, 64))} is not 1, 0, true or false`]
  }
  if (ignore !== undefined && booleans[ignore] === true) return []
  // The value may be a secret, and there may be thousands.
  const unknown = [...pairs.keys()].filter((key) => !isKnown(key)).map((key) => key.slice(0, 64))
  return unknown.length === 0 ? [] : [`unknown args ${JSON.stringify(unknown.slice(0, 8))}`]
}

/** CNI_ARGS, split. Throws nothing: `problems` says what is wrong (docs/design.md, "Decisions"). */
function readArgs(text: string): ReadArgs {
  if (text === '') return { args: { ip: [], gateway: [] }, problems: [] }
  const { pairs, problems } = pairsOf(text)
  const mac = pairs.get('MAC')
  const podNamespace = pairs.get('K8S_POD_NAMESPACE')
  const podName = pairs.get('K8S_POD_NAME')
  const podUid = pairs.get('K8S_POD_UID')
  const args: CniArgs = {
    ip: listOf(pairs.get('IP')),
    gateway: listOf(pairs.get('GATEWAY')),
    ...(mac ? { mac } : {}),
    ...(podNamespace ? { podNamespace } : {}),
    ...(podName ? { podName } : {}),
    ...(podUid ? { podUid } : {}),
  }
  return { args, problems: [...problems, ...unknownProblems(pairs)] }
}

/** Throws CniError 4 where an ADD has a CNI_ARGS that it cannot read. */
export function checkArgs({ verb, argsProblems }: Pick<Invocation, 'verb' | 'argsProblems'>): void {
  if (verb !== 'ADD' || argsProblems.length === 0) return
  const hint = 'use K=V;K=V with the keys IP, GATEWAY, MAC, K8S_POD_*, or add IgnoreUnknown=1'
  throw invalidEnvironment('variable-invalid', `CNI_ARGS: ARGS: ${argsProblems.join('; ')}`, `CNI_ARGS: ${hint}`)
}

// The `type` of a configuration that is meant for trestle.

/** The type that is always ours, whatever the name of the executable's file. */
export const ownType = 'trestle'
