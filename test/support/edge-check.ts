// SPDX-License-Identifier: Apache-2.0
// One call through the real dispatch and everything pure behind it, with handlers that touch nothing, and what must
// be true of it whatever the call was.

import { CniCode } from '../../src-before/cni/error-code.ts'
import { supportedVersions } from '../../src-before/cni/result.ts'
import { dispatch, type Handlers } from '../../src-before/commands/call/dispatch.ts'
import { batchProblem } from './fuzz/batch-grammar.ts'
import type { FuzzCall } from './fuzz/mutated-calls.ts'
import { planEverything } from './plan-everything.ts'

/** What came of a call. `code`: of its error; `planned`: an ADD that got as far as batches; `problem`: what must not be. */
export interface Checked {
  readonly code?: number
  readonly planned: boolean
  readonly problem?: string
}

const foreseen: readonly number[] = Object.values(CniCode).filter((code) => code !== CniCode.internal)
const prototypes = [Object.prototype, Array.prototype, String.prototype, Function.prototype]
const unpolluted = prototypes.map((each) => Reflect.ownKeys(each).length)

/** Runs one call and looks at it. Never throws. */
export async function checkCall({ env, stdin }: FuzzCall): Promise<Checked> {
  const seen = { planned: false, problem: undefined as string | undefined }
  const { stdout, exitCode } = await dispatch({ env, stdin: () => stdin }, planning(seen))
  const body = stdout === '' ? undefined : parsed(stdout)
  const problem =
    seen.problem ?? (exitCode === 0 ? answerProblem(env['CNI_COMMAND'], stdout) : errorProblem(stdout)) ?? pollution()
  const code = exitCode === 0 ? {} : { code: Number(body?.['code']) }
  return { ...code, planned: seen.planned, ...(problem === undefined ? {} : { problem }) }
}

function planning(seen: { planned: boolean; problem: string | undefined }): Handlers {
  const nothing = async () => undefined
  return {
    add: async (call, conf) => {
      const { batches, result, names } = await planEverything(call, conf)
      seen.planned = true
      seen.problem = batches.map((batch) => batchProblem(batch, names)).find((each) => each !== undefined)
      return result
    },
    del: nothing,
    check: nothing,
    gc: nothing,
    status: nothing,
  }
}

function parsed(stdout: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(stdout)
  } catch {
    return undefined
  }
}

function answerProblem(verb: string | undefined, stdout: string): string | undefined {
  if (verb !== 'ADD' && verb !== 'VERSION') return stdout === '' ? undefined : `stdout: ${stdout}`
  const isDocument = typeof parsed(stdout)?.['cniVersion'] === 'string' && stdout.indexOf('\n') === stdout.length - 1
  return isDocument ? undefined : `no document: ${stdout}`
}

function errorProblem(stdout: string): string | undefined {
  const body = parsed(stdout)
  if (body === undefined) return `no JSON: ${stdout}`
  const { code, msg, details, cniVersion } = body
  if (!foreseen.includes(Number(code))) return `code ${code}: ${msg}\n${details}`
  if (!(supportedVersions as readonly unknown[]).includes(cniVersion)) return `cniVersion ${cniVersion}`
  if (typeof msg !== 'string' || msg === '' || /[\n\p{Cc}]/u.test(msg.replaceAll('\t', '')))
    return `msg ${JSON.stringify(msg)}`
  if (!['string', 'undefined'].includes(typeof details)) return `details ${details}`
  return stdout.indexOf('\n') === stdout.length - 1 ? undefined : 'more than one line'
}

/** Nothing of a configuration may become a property of every object. */
function pollution(): string | undefined {
  const isClean = prototypes.every((each, at) => Reflect.ownKeys(each).length === unpolluted[at])
  return isClean
    ? undefined
    : `a prototype has a new property: ${prototypes.map((each) => Reflect.ownKeys(each).at(-1)?.toString())}`
}
