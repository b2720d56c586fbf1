// SPDX-License-Identifier: Apache-2.0
// Many CNI calls at once, as a kubelet under load makes them: real processes, a bounded number at a time.

import { execa } from 'execa'
import { type Answer, type Call, environment, type Finished, type Host, trestle, type Verb } from '../host.ts'
import { stateEnv } from '../state-layout.ts'

/** A process under way: what it will have left, and its id. */
export type Started = Promise<Finished> & { readonly pid: number }

/** Starts one call without waiting for the ones before it. `conf`: as an object or as the text to send. */
export function startCni(host: Host, verb: Verb, { conf, ...call }: Call & { readonly conf: unknown }): Started {
  const env = environment(verb, { ...call, env: { ...stateEnv(host), ...call.env } })
  const input = typeof conf === 'string' ? conf : JSON.stringify(conf)
  return start(host, [call.file ?? trestle], { env, input })
}

/** Starts one of the commands for people without waiting for it. `env` is added to PATH and the state directory. */
export function startCommand(
  host: Host,
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Started {
  const whole = { PATH: process.env['PATH'] ?? '', ...stateEnv(host), ...env }
  return start(host, [trestle, ...words], { env: whole, input: '' })
}

function start(
  host: Host,
  words: readonly string[],
  { env, input }: { readonly env: Record<string, string>; readonly input: string },
): Started {
  const running = execa('nsenter', [`--net=${host.path}`, '--', ...words], {
    input,
    env,
    extendEnv: false,
    reject: false,
    stripFinalNewline: false,
    timeout: 60_000,
  })
  const ended = running.then(({ exitCode, stdout, stderr }) => ({
    code: exitCode ?? -1,
    stdout,
    stderr,
    json: parse(stdout),
  }))
  // nsenter becomes the program that it is given.
  return Object.assign(ended, { pid: running.pid ?? 0 })
}

/** Runs every job, at most `width` at a time; results in the jobs' order. */
export async function allOf<T>(jobs: readonly (() => Promise<T>)[], width: number): Promise<readonly T[]> {
  const results = new Map<number, T>()
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < jobs.length) {
      const at = next++
      const job = jobs[at]
      if (job !== undefined) results.set(at, await job())
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
  return jobs.flatMap((_, at) => (results.has(at) ? [results.get(at) as T] : []))
}

/** The addresses of an ADD's result, without prefix length. */
export function addressesOf(added: Finished): readonly string[] {
  const result = added.json as { ips?: readonly { address: string }[] } | undefined
  return (result?.ips ?? []).map(({ address }) => address.slice(0, address.indexOf('/')))
}

function parse(text: string): Answer | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
