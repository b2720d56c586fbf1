// SPDX-License-Identifier: Apache-2.0
// One call of the executable, disturbed or not. What a killed call had started goes on, as on a node: the next call ends it.

import { spawn } from 'node:child_process'
import type { openFaults } from '../support/faults/faults.ts'
import { type Call, environment, type Finished, type Host, trestle, type Verb } from '../support/host.ts'
import { stateEnv } from '../support/state-layout.ts'
import type { Disturbance } from './steps.ts'

/** A call as it is sent. */
export interface Sent {
  readonly verb: Verb
  readonly conf: object
  readonly call: Call
  readonly disturbance?: Disturbance | undefined
}

/** Longest a call may take: past its own deadline of 20 s it hangs. */
const hangsAfterMs = 30_000

/** Runs one CNI call; `faults` are the wrappers of the tools that a disturbed call gets. */
export async function runCni(host: Host, faults: ReturnType<typeof openFaults>, sent: Sent): Promise<Finished> {
  const { verb, conf, call, disturbance } = sent
  const isOfTool = disturbance?.kind === 'tool'
  if (isOfTool) faults.reset(disturbance, disturbance.fault)
  // FAULT_INSIDE lets our own nsenter pass; trestle does not hand it on to its tools.
  const wrapped = isOfTool ? { PATH: faults.path, FAULT_INSIDE: '1' } : {}
  const env = environment(verb, { ...call, env: { ...stateEnv(host), ...wrapped } })
  return await run(host, { args: [], env, input: JSON.stringify(conf) }, disturbance)
}

/** Runs one of the commands for people, with `-o json`. */
export async function runCommand(host: Host, words: readonly string[]): Promise<Finished> {
  const env = { PATH: process.env['PATH'] ?? '', ...stateEnv(host) }
  return await run(host, { args: [...words, '-o', 'json'], env, input: '' })
}

interface Started {
  readonly args: readonly string[]
  readonly env: Record<string, string>
  readonly input: string
}

async function run(host: Host, { args, env, input }: Started, disturbance?: Disturbance): Promise<Finished> {
  const child = spawn('nsenter', [`--net=${host.path}`, '--', trestle, ...args], { env })
  const [out, err]: [Buffer[], Buffer[]] = [[], []]
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk))
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  // Not 'close': what goes on may have inherited its output.
  const ended = new Promise<number>((resolve) => {
    child.on('exit', (code) => resolve(code ?? -1))
  })
  const hung = setTimeout(() => child.kill('SIGKILL'), hangsAfterMs)
  const timer = disturbance?.kind === 'signal' ? signalLater(child.kill.bind(child), disturbance) : undefined
  const closed = new Promise((resolve) => child.on('close', resolve))
  const code = await ended
  clearTimeout(timer)
  clearTimeout(hung)
  if (code >= 0) await closed
  const stdout = Buffer.concat(out).toString('utf8')
  return { code, stdout, stderr: Buffer.concat(err).toString('utf8'), json: parse(stdout) }
}

function signalLater(
  kill: (signal: 'SIGKILL' | 'SIGTERM') => boolean,
  { signal, afterMs }: { signal: 'SIGKILL' | 'SIGTERM'; afterMs: number },
) {
  return setTimeout(() => kill(signal), afterMs)
}

function parse(text: string): Finished['json'] {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
