// SPDX-License-Identifier: Apache-2.0
// Operations as the input of one process each, and a failed process back to the operation that it refused.

import { familyOf } from '../cni/addresses.ts'
import { CniError, Code, printable } from '../cni/errors.ts'
import { ruleText } from './elements.ts'
import { ipWords } from './ip-words.ts'
import { tableName, tableOf } from './nft-table.ts'
import type { IpOp, Op, QueueOp, RuleOp, SysctlOp } from './operation.ts'
import { queueLines } from './queues.ts'

/** `ip6`: `ip -6`, which rules of IPv6 need. `file`: written by trestle itself, without a process. */
export type Tool = 'ip' | 'ip6' | 'bridge' | 'tc' | 'nft' | 'sysctl' | 'file'

/** One process. `texts`: the input of each operation, in order. */
export interface Batch {
  readonly tool: Tool
  readonly place: Op['place']
  readonly ops: readonly Op[]
  readonly texts: readonly string[]
}

export function toolOf(op: Op): Tool {
  switch (op.kind) {
    case 'element.add':
    case 'element.delete':
    case 'table.set':
    case 'table.delete':
    case 'table.show':
      return 'nft'
    case 'bucket.set':
    case 'redirect.set':
    case 'queue.delete':
      return 'tc'
    case 'vlan.add':
    case 'vlan.delete':
      return 'bridge'
    case 'sysctl.set':
      return op.place === 'host' ? 'file' : 'sysctl'
    case 'rule.add':
    case 'rule.delete':
      return familyOf(op.from) === 6 ? 'ip6' : 'ip'
    default:
      return 'ip'
  }
}

/** `ops` are of one tool and place. `kernel`: its release, for nft. */
export function toBatch(ops: readonly Op[], kernel = ''): Batch {
  const [first] = ops
  if (first === undefined) throw new TypeError('a batch without operations')
  return { tool: toolOf(first), place: first.place, ops, texts: ops.map((op) => textOf(op, kernel)) }
}

function textOf(op: Op, kernel: string): string {
  switch (toolOf(op)) {
    case 'nft':
      return `${ruleText(op as RuleOp, kernel)}\n`
    case 'tc':
      return queueLines(op as QueueOp)
        .map(batchLine)
        .join('')
    case 'sysctl':
    case 'file':
      return `${(op as SysctlOp).key}=${(op as SysctlOp).value}\n`
    default:
      return batchLine(ipWords(op as IpOp))
  }
}

/** A process to start. */
export interface CommandLine {
  readonly file: string
  readonly args: readonly string[]
  readonly stdin: string
}

/** The command of a batch. `nftEcho`: nft tells when it has committed (see `commitProof`). */
export function commandOf(batch: Batch, nftEcho = false): CommandLine {
  const stdin = batch.texts.join('')
  const { file, args } = toolCommand(batch, nftEcho)
  if (batch.place === 'host') return { file, args, stdin }
  const inside = batch.ops.some(({ kind }) => kind === 'announce6') ? [...announcing, file, ...args] : [file, ...args]
  return { file: 'nsenter', args: ['--net=/proc/self/fd/3', '--', ...inside], stdin }
}

function toolCommand({ tool, ops }: Batch, nftEcho: boolean): { file: string; args: readonly string[] } {
  switch (tool) {
    case 'nft':
      return { file: 'nft', args: [...(nftEcho ? ['-e'] : []), '-t', '-f', '-'] }
    case 'tc':
    case 'bridge':
      return { file: tool, args: ['-batch', '-'] }
    case 'sysctl': {
      // In a file a key with `*`, `?` or `[` is a pattern (sysctl.d(5)), as an argument it is none.
      const pairs = ops.flatMap((op) => (op.kind === 'sysctl.set' ? [`${op.key}=${op.value}`] : []))
      const hasPattern = ops.some((op) => op.kind === 'sysctl.set' && /[*?[]/.test(op.key))
      return hasPattern ? { file: 'sysctl', args: ['-qw', ...pairs] } : { file: 'sysctl', args: ['-q', '-p', '-'] }
    }
    default:
      // -j only matters for lines that show something.
      return { file: 'ip', args: [...(tool === 'ip6' ? ['-6'] : []), '-j', '-batch', '-'] }
  }
}

/** The same process first lets the kernel advertise addresses: a constant script, which ip takes the place of. */
const announcing = [
  'sh',
  '-c',
  '{ echo 1 >/proc/sys/net/ipv6/conf/all/ndisc_notify; } 2>/dev/null; exec "$0" "$@"',
] as const

/**
 * The last line of an nft input with -e. By itself that option makes nft read the sets of all tables first (9 ms became
 * 440 with 10,000 rules of others); a listing narrows it to one table (src/cache.c), and one of a chain shows no
 * elements.
 */
export function commitProof({ ops }: Batch): string {
  const isBridge = ops.some((op) => 'element' in op && tableOf(op.element.set) === 'bridge')
  return isBridge ? `list chain bridge ${tableName} prerouting\n` : `list chain inet ${tableName} forward\n`
}

/**
 * The operation that a failed batch stopped at; undefined where the tool does not say. iproute2 leaves through exit() on
 * a bad argument without a line number (lib/utils.c); nft names a line of its input, sysctl a key.
 */
export function failedOp({ tool, ops, texts }: Batch, stderr: string): Op | undefined {
  if (tool === 'sysctl') {
    const named = ops.find((op) => op.kind === 'sysctl.set' && isNamed(op.key, stderr))
    return named ?? (ops.length === 1 ? ops[0] : undefined)
  }
  const pattern = tool === 'nft' ? /^\/dev\/stdin:(\d+):/m : /^Command failed -:(\d+)/m
  const line = Number(pattern.exec(stderr)?.[1] ?? 0)
  let next = 1
  for (const [at, text] of texts.entries()) {
    next += text.split('\n').length - 1
    if (line > 0 && line < next) return ops[at]
  }
  return undefined
}

/** As its path, or with dots and slashes exchanged: `setting key "net.ipv4.conf.eth0/10.arp_filter"` (procps 4). */
function isNamed(key: string, stderr: string): boolean {
  const dotted = key.replace(/[./]/g, (mark) => (mark === '/' ? '.' : '/'))
  return stderr.includes(`/proc/sys/${key}:`) || stderr.includes(`"${dotted}"`)
}

/**
 * One line for `ip -batch`, `tc -batch` or `bridge -batch`: the only way of text into these. The reader (iproute2
 * lib/utils.c, getcmdline and makeargs) cuts a line at `#` even inside quotes, joins lines at a backslash and has no
 * escape: a word that it cannot carry is refused, never changed. Throws CniError 4.
 */
export function batchLine(words: readonly string[]): string {
  const line = words.map((word, at) => {
    // Only the value of `alias` may be empty.
    if (word === '' && words[at - 1] === 'alias') return '""'
    if (/^[A-Za-z0-9_.:/@%+,=~^*?!-]+$/.test(word)) return word
    const isCarried = word !== '' && !/[#\\]|[^\x20-\x7e]/.test(word)
    // A quote counts at the start of a word only, and ends at its like.
    if (isCarried && !word.includes('"')) return `"${word}"`
    if (isCarried && !word.includes("'")) return `'${word}'`
    throw new CniError(Code.invalidEnvironment, 'word-unsafe', `"${printable(word)}" cannot be passed to ip -batch`, {
      details: 'names and paths must be printable ASCII without #, backslash, or both kinds of quotes',
    })
  })
  return `${line.join(' ')}\n`
}
