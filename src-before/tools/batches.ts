// SPDX-License-Identifier: Apache-2.0
// A plan's operations to the steps that run them, and a failed step back to its operation.
// Order is kept within a lane; nftables and links do not depend on each other, so they are two lanes.

import { familyOf } from '../cni/address.ts'
import { CniError, printable } from '../cni/error.ts'
import type { Op } from '../model/op.ts'
import { tableName } from '../model/tables.ts'
import type { Proof } from '../plan/order/stage.ts'
import { type IpOp, ipWords } from './ip.ts'
import { type NftOp, nftText, showChainInput } from './nft.ts'
import { bridgeWords, type TcOp, tcWords, type VlanOp } from './tc.ts'

/** Kernel settings written as files by us: no process. */
export type FileOp = Extract<Op, { kind: 'sysctl.write' | 'forwarding.on' }>

/** One process, or one run of file writes. `stdin` holds the operations' text in their order. */
export type Batch =
  // `ip6`: `ip -6`, which rules of IPv6 need: a batch line cannot say its family. `announces`: see announcedBy.
  | (BatchOf<'ip' | 'ip6', IpOp, Op['in']> & { readonly evidence?: Evidence; readonly announces?: true })
  | BatchOf<'tc', TcOp, Op['in']>
  | BatchOf<'bridge', VlanOp>
  | BatchOf<'sysctl', Extract<Op, { kind: 'sysctl.pod' }>, 'pod'>
  | (BatchOf<'nft', NftOp> & { readonly evidence?: Evidence })
  | Omit<BatchOf<'file', FileOp>, 'stdin'>

interface BatchOf<Tool, Its, Where = 'host'> {
  readonly tool: Tool
  readonly in: Where
  readonly ops: readonly Its[]
  readonly stdin: string
}

/**
 * The words of a command whose namespace advertises addresses from then on: the same process, which a shell replaces
 * itself with. The text is constant; without IPv6 there is no such key, and nothing to advertise.
 */
export function announcedBy(command: readonly string[]): readonly string[] {
  const script = '{ echo 1 >/proc/sys/net/ipv6/conf/all/ndisc_notify; } 2>/dev/null; exec "$0" "$@"'
  return ['sh', '-c', script, ...command]
}

/** Batches that may run side by side: one lane does not wait for the other. */
export interface Lanes {
  readonly links: readonly Batch[]
  readonly rules: readonly Batch[]
}

/** Splits a plan into lanes; neighbours for the same tool and place become one batch, in order. `kernel`: as in nftText. */
export function toLanes(ops: readonly Op[], kernel?: string): Lanes {
  const links: Growing[] = []
  const rules: Growing[] = []
  for (const op of ops) {
    const next = toBatch(op, kernel)
    const lane = next.tool === 'nft' ? rules : links
    const last = lane.at(-1)
    if (last?.first.tool === next.tool && last.first.in === next.in) last.more.push(next)
    else lane.push({ first: next, more: [] })
  }
  return { links: links.map(joined), rules: rules.map(joined) }
}

/** Batches of one operation each that become one: joined at once, since a cluster's sets have tens of thousands. */
interface Growing {
  readonly first: Batch
  readonly more: Batch[]
}

/**
 * The operation a failed batch stopped at, or undefined where the tool does not say: iproute2 leaves
 * through exit() on a bad argument without a line number (lib/utils.c), nft names a line of its input, sysctl the key.
 */
export function failedOp(batch: Batch, stderr: string): Op | undefined {
  if (batch.tool === 'file') return batch.ops[0]
  if (batch.tool === 'sysctl') {
    return batch.ops.find(({ key }) => isNamed(key, stderr)) ?? (batch.ops.length === 1 ? batch.ops[0] : undefined)
  }
  if (batch.tool !== 'nft') return batch.ops[lineNumber(/^Command failed -:(\d+)/m, stderr) - 1]
  const line = lineNumber(/^\/dev\/stdin:(\d+):/m, stderr)
  let next = 1
  return batch.ops.find((op) => {
    next += nftText(op).split('\n').length
    return line > 0 && line < next
  })
}

/** As its path, or with dots and slashes exchanged: `setting key "net.ipv4.conf.eth0/10.arp_filter"` (procps 4). */
function isNamed(key: string, stderr: string): boolean {
  const dotted = key.replace(/[./]/g, (mark) => (mark === '/' ? '.' : '/'))
  return stderr.includes(`/proc/sys/${key}:`) || stderr.includes(`"${dotted}"`)
}

function toBatch(op: Op, kernel: string | undefined): Batch {
  switch (op.kind) {
    case 'sysctl.write':
    case 'forwarding.on':
      return { tool: 'file', in: 'host', ops: [op] }
    case 'sysctl.pod':
      return { tool: 'sysctl', in: 'pod', ops: [op], stdin: `${op.key}=${op.value}\n` }
    case 'neigh.announce6':
      return { tool: 'ip', in: op.in, ops: [op], stdin: `${toBatchLine(ipWords(op))}\n`, announces: true }
    case 'qdisc.tbf':
    case 'qdisc.ingress':
    case 'qdisc.del':
    case 'filter.redirect':
      return { tool: 'tc', in: op.in, ops: [op], stdin: `${toBatchLine(tcWords(op))}\n` }
    case 'rule.add':
    case 'rule.del': {
      const tool = familyOf(op.from) === 6 ? 'ip6' : 'ip'
      return { tool, in: op.in, ops: [op], stdin: `${toBatchLine(ipWords(op))}\n` }
    }
    case 'vlan.add':
    case 'vlan.del':
      return { tool: 'bridge', in: 'host', ops: [op], stdin: `${toBatchLine(bridgeWords(op))}\n` }
    case 'nft.base':
    case 'nft.base.show':
    case 'nft.table.del':
    case 'nft.chain':
    case 'nft.chain.del':
    case 'nft.flush':
    case 'nft.add':
    case 'nft.del':
      return { tool: 'nft', in: 'host', ops: [op], stdin: `${nftText(op, kernel)}\n` }
    default:
      return { tool: 'ip', in: op.in, ops: [op], stdin: `${toBatchLine(ipWords(op))}\n` }
  }
}

function joined({ first, more }: Growing): Batch {
  if (more.length === 0) return first
  const all = [first, ...more]
  const stdin = 'stdin' in first ? { stdin: all.map((each) => ('stdin' in each ? each.stdin : '')).join('') } : {}
  // Same tool, so the operations are of the same kind; TypeScript does not follow that through the spread.
  const announces = all.some((each) => each.tool === 'ip' && each.announces) ? { announces: true } : {}
  return { ...first, ...announces, ops: all.flatMap(({ ops }): readonly Op[] => ops), ...stdin } as Batch
}

function lineNumber(pattern: RegExp, stderr: string): number {
  return Number(pattern.exec(stderr)?.[1] ?? 0)
}

// The only way text gets into an `ip -batch` or `tc -batch`. The reader (iproute2 lib/utils.c,
// getcmdline and makeargs) cuts a line at `#` even inside quotes, joins lines at a backslash, and
// has no escape: a word it can't carry is refused, never altered.

const plainWord = /^[A-Za-z0-9_.:/@%+,=~^*?!-]+$/
const unbearable = /[#\\\n\r\0]|[^\x20-\x7e]/

/**
 * One batch line from an argument list. Throws CniError 4 for a word that the batch format cannot
 * carry; the protocol edge refuses those earlier, this is the second wall.
 */
export function toBatchLine(words: readonly string[]): string {
  // Without an alias a link has an empty one; no other word may be empty.
  return words.map((word, at) => (word === '' && words[at - 1] === 'alias' ? '""' : toWord(word))).join(' ')
}

function toWord(word: string): string {
  if (plainWord.test(word)) return word
  if (word === '' || unbearable.test(word)) throw refused(word)
  // makeargs (iproute2 lib/utils.c): a quote counts at the start of a word only and ends at its like.
  if (!word.includes('"')) return `"${word}"`
  if (!word.includes("'")) return `'${word}'`
  throw refused(word)
}

function refused(word: string): CniError {
  return new CniError('word-unsafe', `"${printable(word)}" cannot be passed to ip -batch`, {
    details: 'names and paths must be printable ASCII without #, backslash, or both kinds of quotes',
  })
}

// What shows that a batch of removals has done its work, before its process ends. `ip` stays in RTM_DELLINK for the
// kernel's grace periods when the links are gone (net/core/dev.c, netdev_run_todo), and `nft` for one when it closes
// its socket (net/netfilter/nf_tables_api.c, nft_rcv_nl_event): two thirds of a DEL.

/** `gone`: the kernel has none of these links any more. `generation`: nft has told the generation it committed. */
export type Evidence = { readonly kind: 'gone'; readonly links: readonly string[] } | { readonly kind: 'generation' }

/**
 * With `--echo` nft tells what it has committed; of deletions alone nft 1.0.6 tells nothing, but every deletion of ours
 * adds first (nft.ts). By itself that option makes it read the sets and rules of all tables beforehand (9 ms became 440
 * with 10,000 rules of others). A listing as the last line is what narrows that to one table (src/cache.c, the filter);
 * one of a chain shows no elements.
 */
const generation = {
  option: '-e',
  line: showChainInput({ family: 'inet', table: tableName, chain: 'forward' }).stdin,
} as const

/** The batch, and how it shows that it is done; as it is where only its exit tells. */
export function withEvidence(batch: Batch, proof: Proof | undefined): Batch {
  if (proof?.kind === 'generation' && batch.tool === 'nft')
    return { ...batch, stdin: `${batch.stdin}${generation.line}`, evidence: { kind: 'generation' } }
  if (proof?.kind !== 'gone' || batch.tool !== 'ip' || batch.in !== 'host') return batch
  // The last line is the removal; what comes before is about the same links.
  const isRemoval = batch.ops.every(({ kind }) => kind === 'link.del' || kind === 'link.group' || kind === 'group.del')
  const links = [...new Set(batch.ops.flatMap((op) => ('dev' in op ? [op.dev] : [])))]
  return isRemoval && links.length > 0 ? { ...batch, evidence: { kind: 'gone', links } } : batch
}

export function nftOptions({ evidence }: Extract<Batch, { tool: 'nft' }>): readonly string[] {
  return [...(evidence === undefined ? [] : [generation.option]), '-t', '-f', '-']
}
