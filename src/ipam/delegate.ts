// SPDX-License-Identifier: Apache-2.0
// Another plugin as our IPAM: CNI spec 1.1.0, section 4. It gets our environment and the configuration unchanged, and its
// errors are passed on.

import { bareAddress } from '../cni/addresses.ts'
import type { Verb } from '../cni/call.ts'
import { CniError, Code, oneLine } from '../cni/errors.ts'
import { isObject, lookUp, parseObject } from '../cni/json.ts'
import { type CniVersion, type Dns, type Result, readResult } from '../cni/results.ts'
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
  const inherited = Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const { CNI_CONTAINERID, CNI_IFNAME } = process.env
  // CNI_ARGS of another pod's call are not this one's.
  const isOther = of !== undefined && !(of.id.containerId === CNI_CONTAINERID && of.id.ifName === CNI_IFNAME)
  const other = isOther && {
    CNI_CONTAINERID: of.id.containerId,
    CNI_IFNAME: of.id.ifName,
    CNI_NETNS: of.netns,
    CNI_ARGS: 'IgnoreUnknown=1',
  }
  return { ...Object.fromEntries(inherited), ...other, CNI_COMMAND: verb }
}

function errorOf({ type, verb }: Delegation, { code, signal, stdout, stderr }: Output): CniError {
  const theirs = parseObject(stdout)
  // The specification's codes begin at 1; runtimes read an unsigned integer.
  const isError =
    typeof theirs?.['code'] === 'number' &&
    Number.isInteger(theirs['code']) &&
    theirs['code'] >= 1 &&
    theirs['code'] < 2 ** 32
  if (isError && typeof theirs['msg'] === 'string') {
    const details = [`from the IPAM plugin ${type}`, theirs['details']].filter(Boolean).join(': ')
    return new CniError(Number(theirs['code']), 'ipam-plugin-refused', shortened(theirs['msg']), {
      details: shortened(details),
    })
  }
  const how = code === undefined ? `was ended by ${signal}` : `ended with status ${code}`
  return new CniError(
    Code.delegateFailed,
    'ipam-plugin-failed',
    `the IPAM plugin ${type} ${how} on ${verb} without an error object`,
    { details: `stderr: ${printedText(stderr)}` },
  )
}

/** The beginning on one line. */
function printedText(text: string): string {
  return oneLine(text.slice(0, 2000))
}

function shortened(text: string): string {
  return text.slice(0, 8000)
}

/** The lease that an ADD of the plugin printed. Throws CniError 105. */
export function readLease(stdout: string, type: string, version: CniVersion): Lease {
  const failed = (what: string, details: string) =>
    new CniError(Code.delegateFailed, 'ipam-plugin-no-result', `the IPAM plugin ${type} ${what}`, { details })
  const found = parseObject(stdout)
  if (found === undefined) throw failed('printed no result', `stdout: ${printedText(stdout)}`)
  let result: Result
  try {
    result = readResult(found, version, [`result of ${type}`])
  } catch (error) {
    throw failed(`printed a result that cannot be read: ${(error as Error).message}`, `stdout: ${printedText(stdout)}`)
  }
  if (result.ips.length === 0) throw failed('gave no address', `stdout: ${printedText(stdout)}`)
  // One may be named twice: the first counts. Unknown keys go no further.
  const seen = new Set<string>()
  const ips = result.ips.filter(({ address }) => !seen.has(bareAddress(address)) && seen.add(bareAddress(address)))
  const dns = dnsOf(result.dns)
  return {
    addresses: ips.map(({ address, gateway }) => (gateway === undefined ? { address } : { address, gateway })),
    routes: result.routes.map((route) => pick(route, ['dst', 'gw', 'mtu', 'advmss', 'priority', 'table', 'scope'])),
    ...(dns === undefined ? {} : { dns }),
  }
}

function dnsOf(dns: Dns | undefined): Dns | undefined {
  return dns && pick(dns, ['nameservers', 'domain', 'search', 'options'])
}

function pick<T extends object>(object: T, keys: readonly (keyof T)[]): T {
  return Object.fromEntries(Object.entries(object).filter(([key]) => keys.includes(key as keyof T))) as T
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
