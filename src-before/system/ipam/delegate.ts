// SPDX-License-Identifier: Apache-2.0
// Runs another CNI plugin as our IPAM: CNI spec 1.1.0, section 4. It gets our environment and our
// configuration unchanged; its errors are passed on.

import { CniError, oneLine } from '../../cni/error.ts'
import type { Verb } from '../../cni/invocation.ts'
import { parseObject } from '../../cni/json.ts'
import { masked } from '../../cni/secrets.ts'
import { isExecutable } from '../process/programs.ts'
import type { Output, Run } from '../process/runner.ts'

/** A call to a delegated plugin. `path`: CNI_PATH, split; `stdin`: the configuration as it came. */
export interface Delegation {
  readonly type: string
  readonly verb: Verb
  readonly path: readonly string[]
  readonly stdin: string
  /** The attachment, where it is not the one that our own environment names. */
  readonly attachment?: {
    readonly containerId: string
    readonly ifName: string
    readonly netns: string
    /** CNI_ARGS, where ours are those of another pod. */
    readonly cniArgs?: string
  }
}

/** The plugin's stdout. Throws the CniError it printed, or 105 when it is missing, crashes or prints none. */
export async function delegate(run: Run, call: Delegation): Promise<string> {
  const file = findPlugin(call)
  const output = await run({ file, args: [], stdin: call.stdin, env: environmentOf(call), kind: 'delegate' })
  // Section 4: what the delegated plugin says on stderr goes to ours.
  if (output.stderr !== '') process.stderr.write(output.stderr)
  if (output.code === 0) return output.stdout
  throw errorOf(call, output)
}

function findPlugin(call: Delegation): string {
  const candidates = call.path.map((directory) => `${directory}/${call.type}`)
  const found = candidates.find(isExecutable)
  if (found !== undefined) return found
  throw new CniError('ipam-plugin-missing', `cannot find the IPAM plugin "${call.type}" in CNI_PATH`, {
    details:
      `looked for ${candidates.join(', ') || 'nothing: CNI_PATH is empty'}; ` +
      `install it, or use ipam.type "trestle"`,
  })
}

function environmentOf(call: Delegation): Record<string, string> {
  const inherited = Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const { attachment } = call
  const named = attachment && {
    CNI_CONTAINERID: attachment.containerId,
    CNI_IFNAME: attachment.ifName,
    CNI_NETNS: attachment.netns,
    ...(attachment.cniArgs === undefined ? {} : { CNI_ARGS: attachment.cniArgs }),
  }
  return { ...Object.fromEntries(inherited), ...named, CNI_COMMAND: call.verb }
}

function errorOf(call: Delegation, output: Output): CniError {
  const theirs = parseError(output.stdout)
  if (theirs !== undefined) {
    const details = [`from the IPAM plugin ${call.type}`, theirs.details].filter(Boolean).join(': ')
    return new CniError('ipam-plugin-refused', theirs.msg, { code: theirs.code, details })
  }
  const how = output.code === undefined ? `was ended by ${output.signal}` : `ended with status ${output.code}`
  return new CniError(
    'ipam-plugin-failed',
    `the IPAM plugin ${call.type} ${how} on ${call.verb} without an error object`,
    {
      details: `stdout: ${printed(output.stdout)}\nstderr: ${printed(output.stderr)}`,
    },
  )
}

/** What a delegate printed, for `details`: the beginning on one line, without what sounds like a secret. */
export function printed(text: string): string {
  return masked(oneLine(text.slice(0, 2000)))
}

/** A delegate's own words: as they are, but not without end. */
function shortened(text: string): string {
  return text.slice(0, 8000)
}

function parseError(stdout: string): { code: number; msg: string; details?: string } | undefined {
  const { code, msg, details } = parseObject(stdout) ?? {}
  // The specification's codes begin at 1; runtimes read an unsigned integer.
  const isCode = typeof code === 'number' && Number.isInteger(code) && code >= 1 && code < 2 ** 32
  if (!isCode || typeof msg !== 'string') return undefined
  return { code, msg: shortened(msg), ...(typeof details === 'string' ? { details: shortened(details) } : {}) }
}
