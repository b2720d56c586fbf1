// SPDX-License-Identifier: Apache-2.0
// Faults at system calls of trestle itself, by strace: a signal or an error at the nth call of a kind.

import { execa, execaSync } from 'execa'
import { type Answer, environment, type Finished, type Host, trestle, type Verb } from '../host.ts'
import type { Started } from '../locks/parallel.ts'
import { stateEnv } from '../state-layout.ts'

/** The calls that change names on disk. */
export const nameChanges = 'link,linkat,rename,renameat,renameat2,unlink,unlinkat'

/** Why a test that needs it is skipped. */
export const noStrace = 'strace is not installed or may not trace'

let known: boolean | undefined

/** Whether strace is here and may trace. Where it is not the output says so, once a file. */
export function haveStrace(): boolean {
  if (known !== undefined) return known
  known = execaSync('strace', ['-o', '/dev/null', 'true'], { reject: false }).exitCode === 0
  if (!known) console.log(`skipped: ${noStrace}`)
  return known
}

/**
 * One CNI call with a fault; `what` is what strace does at the `when`th of `calls`: `signal=KILL`, `error=EIO`.
 * `paths`: only calls on one of these files count; of a rename strace 6.1 looks at the old name only.
 */
export interface Injection {
  readonly calls: string
  readonly what: string
  readonly when: number
  readonly paths?: readonly string[]
}

/** A call to trace. */
export interface TracedCall {
  readonly verb: Verb
  readonly conf: unknown
  readonly id: string
  readonly netns: string
  /** CNI_PATH, where a plugin is to be found. */
  readonly path?: string
}

/** What a traced call left. `hit`: whether it met its fault; `log`: what strace saw. */
export type Traced = Finished & { readonly hit: boolean; readonly log: string }

/**
 * Runs a CNI call under strace. `when` past the last such call: it runs undisturbed. strace counts each name in
 * `calls` by itself: with several, the first that comes to `when` is it.
 */
export function tracedCni(host: Host, call: TracedCall, at: Injection): Traced {
  const log = `${host.stateDir}.strace`
  const { exitCode, stdout, stderr } = execaSync('nsenter', commandOf(host, at, log), optionsOf(host, call))
  const traced = execaSync('cat', [log], { reject: false }).stdout
  execaSync('rm', ['-f', log])
  const hit = traced.includes('INJECTED') || traced.includes('killed by SIGKILL')
  return { code: exitCode ?? -1, stdout, stderr, json: parse(stdout), hit, log: traced }
}

/** Starts one without waiting for its end. */
export function startTracedCni(host: Host, call: TracedCall, at: Injection): Started {
  return start(commandOf(host, at, '/dev/null'), optionsOf(host, call))
}

/** Starts a command for a person, with a fault, without waiting for its end. */
export function startTracedCommand(host: Host, words: readonly string[], at: Injection, env: object): Started {
  const own = { PATH: process.env['PATH'] ?? '', ...stateEnv(host), ...env }
  return start([...commandOf(host, at, '/dev/null'), ...words], { ...bounds, input: '', env: own })
}

function start(command: readonly string[], options: ReturnType<typeof optionsOf>): Started {
  const running = execa('nsenter', command, options)
  const ended = running.then(({ exitCode, stdout, stderr }) => ({
    code: exitCode ?? -1,
    stdout,
    stderr,
    json: parse(stdout),
  }))
  return Object.assign(ended, { pid: running.pid ?? 0 })
}

function commandOf(host: Host, at: Injection, log: string): readonly string[] {
  // Without -f: children are other programs, and trestle's own calls are made on its main thread.
  const inject = [`--trace=${at.calls}`, `--inject=${at.calls}:${at.what}:when=${at.when}`]
  const paths = (at.paths ?? []).flatMap((path) => ['-P', path])
  return [`--net=${host.path}`, '--', 'strace', '-qq', '-o', log, ...paths, ...inject, trestle]
}

function optionsOf(host: Host, call: TracedCall) {
  const env = environment(call.verb, { ...call, env: stateEnv(host) })
  return { ...bounds, input: JSON.stringify(call.conf), env } as const
}

const bounds = { extendEnv: false, reject: false, timeout: 60_000 } as const

function parse(text: string): Answer | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
