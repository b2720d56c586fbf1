// SPDX-License-Identifier: Apache-2.0
// Faults at system calls of trestle itself, by strace: a signal or an error at the nth call of a kind.

import { execaSync } from 'execa'
import { type Answer, environment, type Finished, type Host, trestle, type Verb } from './host.ts'

/** Whether strace is here and may trace. */
export function haveStrace(): boolean {
  return execaSync('strace', ['-o', '/dev/null', 'true'], { reject: false }).exitCode === 0
}

/** One CNI call with a fault; `what` is what strace does at the `when`th of `calls`: `signal=KILL`, `error=EIO`. */
export interface Injection {
  readonly calls: string
  readonly what: string
  readonly when: number
}

/** Runs a CNI call under strace. `when` past the last such call: it runs undisturbed. */
export function tracedCni(
  host: Host,
  call: { verb: Verb; conf: unknown; id: string; netns: string },
  at: Injection,
): Finished & { readonly hit: boolean } {
  const env = environment(call.verb, { ...call, env: { TRESTLE_STATE_DIR: host.stateDir } })
  const log = `${host.stateDir}.strace`
  // Without -f: children are other programs, and trestle's own calls are made on its main thread.
  const inject = [`--trace=${at.calls}`, `--inject=${at.calls}:${at.what}:when=${at.when}`]
  const { exitCode, stdout, stderr } = execaSync(
    'nsenter',
    [`--net=${host.path}`, '--', 'strace', '-qq', '-o', log, ...inject, trestle],
    { input: JSON.stringify(call.conf), env, extendEnv: false, reject: false, timeout: 60_000 },
  )
  const traced = execaSync('cat', [log], { reject: false }).stdout
  execaSync('rm', ['-f', log])
  const hit = traced.includes('INJECTED') || traced.includes('killed by SIGKILL')
  return { code: exitCode ?? -1, stdout, stderr, json: parse(stdout), hit }
}

function parse(text: string): Answer | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
