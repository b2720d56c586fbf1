// SPDX-License-Identifier: Apache-2.0
// Another plugin as our IPAM: CNI spec 1.1.0, section 4. It gets our environment and the configuration unchanged, and its
// errors are passed on.

import { bareAddress } from '../cni/addresses.ts'
import type { Verb } from '../cni/call.ts'
import { CniError, Code, oneLine } from '../cni/errors.ts'
import { defined, isObject, lookUp, parseObject } from '../cni/json.ts'
import { type CniVersion, type Result, readResult } from '../cni/results.ts'
import type { AttachmentId, Lease } from '../drivers/spec.ts'
import type { Machine } from '../process/machine.ts'
import { isExecutable, type Output } from '../process/runner.ts'

/** A call to a delegated plugin. `path`: CNI_PATH. `stdin`: the configuration. */
export interface Delegation {
  readonly type: string
  readonly verb: Verb
  readonly path: readonly string[]
  readonly stdin: string
  /** Of the DEL of an attachment, which need not be the one that our own environment names. */
  readonly of?: { readonly id: AttachmentId; readonly netns: string }
}

/** The plugin's stdout. Throws the error that it printed, or CniError 105. */
export async function delegate(machine: Machine, call: Delegation): Promise<string> {
  const file = requirePlugin(call)
  const output = await machine.ask({ file, args: [], stdin: call.stdin, env: environmentOf(call), kind: 'delegate' })
  // Section 4: what it says on stderr goes to ours.
  if (output.stderr !== '') process.stderr.write(output.stderr)
  if (output.code === 0) return output.stdout
  throw errorOf(call, output)
}

/** The file of the plugin. Throws CniError 105. */
export function requirePlugin({ type, path }: Pick<Delegation, 'type' | 'path'>): string {
  const candidates = path.map((directory) => `${directory}/${type}`)
  const found = candidates.find(isExecutable)
  if (found !== undefined) return found
  throw new CniError(Code.delegateFailed, 'ipam-plugin-missing', `cannot find the IPAM plugin "${type}" in CNI_PATH`, {
    details: `looked for ${candidates.join(', ') || 'nothing: CNI_PATH is empty'}; install it, or use ipam.type "trestle"`,
  })
}

function environmentOf({ verb, of }: Delegation): Record<string, string> {
  const { CNI_CONTAINERID, CNI_IFNAME } = process.env
  // CNI_ARGS of another pod's call are not this one's.
  const isOther = of !== undefined && !(of.id.containerId === CNI_CONTAINERID && of.id.ifName === CNI_IFNAME)
  const { containerId = '', ifName = '' } = of?.id ?? {}
  const ids = { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName, CNI_NETNS: of?.netns ?? '' }
  const other = isOther ? { ...ids, CNI_ARGS: 'IgnoreUnknown=1' } : {}
  return { ...(defined(process.env) as Record<string, string>), ...other, CNI_COMMAND: verb }
}

/** The specification's codes begin at 1; runtimes read an unsigned integer. */
function errorOf({ type, verb }: Delegation, { code: status, signal, stdout, stderr }: Output): CniError {
  const { code, msg, details } = parseObject(stdout) ?? {}
  if (Number.isInteger(code) && Number(code) >= 1 && Number(code) < 2 ** 32 && typeof msg === 'string') {
    const all = [`from the IPAM plugin ${type}`, details].filter(Boolean).join(': ')
    const more = { details: all.slice(0, longestText) }
    return new CniError(Number(code), 'ipam-plugin-refused', msg.slice(0, longestText), more)
  }
  const how = status === undefined ? `was ended by ${signal}` : `ended with status ${status}`
  const message = `the IPAM plugin ${type} ${how} on ${verb} without an error object`
  return new CniError(Code.delegateFailed, 'ipam-plugin-failed', message, { details: `stderr: ${beginning(stderr)}` })
}

/** Of what another plugin prints, this much is passed on. */
const longestText = 8000

function beginning(text: string): string {
  return oneLine(text.slice(0, 2000))
}

/** The lease that an ADD of the plugin printed. Throws CniError 105. */
export function readLease(stdout: string, type: string, version: CniVersion): Lease {
  const failed = (what: string, details: string) =>
    new CniError(Code.delegateFailed, 'ipam-plugin-no-result', `the IPAM plugin ${type} ${what}`, { details })
  const found = parseObject(stdout)
  if (found === undefined) throw failed('printed no result', `stdout: ${beginning(stdout)}`)
  let result: Result
  try {
    result = readResult(found, version, [`result of ${type}`])
  } catch (error) {
    throw failed(`printed a result that cannot be read: ${(error as Error).message}`, `stdout: ${beginning(stdout)}`)
  }
  if (result.ips.length === 0) throw failed('gave no address', `stdout: ${beginning(stdout)}`)
  // One may be named twice: the first counts. Unknown keys go no further.
  const seen = new Set<string>()
  const ips = result.ips.filter(({ address }) => !seen.has(bareAddress(address)) && seen.add(bareAddress(address)))
  const { nameservers, domain, search, options } = result.dns ?? {}
  return {
    addresses: ips.map(({ address, gateway }) => ({ address, ...defined({ gateway }) })),
    routes: result.routes.map(({ dst, gw, mtu, advmss, priority, table, scope }) => {
      return { dst, ...defined({ gw, mtu, advmss, priority, table, scope }) }
    }),
    ...(result.dns === undefined ? {} : { dns: defined({ nameservers, domain, search, options }) }),
  }
}

/**
 * The configuration for the DEL of a lease: the one that its ADD had, unless the present one asks the same plugin for the
 * same. `recorded`: of the record.
 */
export function stdinForDel(recorded: string, present: string): string {
  const [before, now] = [parseObject(recorded), parseObject(present)]
  const ipamOf = (conf: typeof before) => JSON.stringify(isObject(conf) ? (lookUp(conf, 'ipam') ?? null) : null)
  const isSame =
    now !== undefined && before !== undefined && before['name'] === now['name'] && ipamOf(before) === ipamOf(now)
  return isSame ? present : recorded
}
