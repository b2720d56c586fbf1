// SPDX-License-Identifier: Apache-2.0
// What may be in the input of a tool, written down a second time and apart from the code that makes it: the words of
// ip, tc and bridge, the statements of nft, the arguments of sysctl, and the files below /proc/sys.

import type { Batch } from '../../../src-before/tools/batches.ts'
import { readAsIproute2 } from './iproute2-words.ts'

const keywords = new Set(
  (
    'link add del set name address mtu up down type veth bridge vlan_filtering peer netns master dev alias addrgenmode none ' +
    'promisc on off allmulticast txqueuelen group ifb bridge_slave hairpin isolated addr replace show nodad broadcast + ' +
    'noprefixroute rule from table route append via metric scope src advmss all exact neigh lladdr nud probe ' +
    'qdisc root handle 1: tbf rate burst limit ingress filter parent ffff: protocol prio 800::800 u32 match action mirred egress redirect ' +
    'vlan vid pvid untagged macvlan mode private vepa passthru'
  ).split(' '),
)

const address = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]*:[0-9a-f:.]*)(?:\/\d{1,3})?$/
const mac = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/
const amount = /^\d+(?:bit|b)?$/

/** Names that a plan may speak of besides the keywords: links, and the aliases of the pod's. */
export interface KnownNames {
  readonly links: ReadonlySet<string>
  readonly aliases: readonly string[]
}

/** What is wrong with a batch, or undefined. */
export function batchProblem(batch: Batch, names: KnownNames): string | undefined {
  if (batch.tool === 'file')
    return first(batch.ops.map((op) => (op.kind === 'sysctl.write' ? fileProblem(op) : undefined)))
  if (!batch.stdin.endsWith('\n')) return `${batch.tool}: no newline at the end`
  const lines = batch.stdin.slice(0, -1).split('\n')
  if (batch.tool === 'nft') return first(lines.map((line) => nftProblem(line, names)))
  if (batch.tool === 'sysctl')
    return lines.length === batch.ops.length ? first(batch.ops.map(argumentProblem)) : 'sysctl: a value with a newline'
  if (lines.length !== batch.ops.length)
    return `${batch.tool}: ${lines.length} lines for ${batch.ops.length} operations`
  return first(lines.map((line) => lineProblem(line, names)))
}

function first(problems: readonly (string | undefined)[]): string | undefined {
  return problems.find((problem) => problem !== undefined)
}

function lineProblem(line: string, { links, aliases }: KnownNames): string | undefined {
  const words = readAsIproute2(line)
  if (words === undefined) return `iproute2 reads on after ${JSON.stringify(line)}`
  const isKnown = (word: string, before: string | undefined) =>
    keywords.has(word) ||
    links.has(word) ||
    (before === 'alias' && aliases.includes(word)) ||
    (before === 'alias' && word === '') ||
    ['/proc/self/fd/3', '/proc/self/fd/4'].includes(word) ||
    [address, mac, amount].some((pattern) => pattern.test(word))
  const at = words.findIndex((word, index) => !isKnown(word, words[index - 1]))
  return at < 0 ? undefined : `${JSON.stringify(words[at])} is no word of a batch: ${line}`
}

const nftStart =
  /^(?:add element|delete element|flush set|list table|list chain|add table|add set|add map|add chain|flush chain|delete chain|add rule) (?:inet|bridge) trestle\b/
const nftToken = /"[^"]*"|[{},;]|!=|@[a-z0-9]+|[^\s{},;"]+/g
const nftWord = /^(?:[a-z][a-z0-9_]*|\.|:|!=|@[a-z0-9]+|\d+|-\d+|0x[0-9a-f]+|[{},])$/

function nftProblem(line: string, { links }: KnownNames): string | undefined {
  const bad = (what: string) => `nft: ${what}: ${JSON.stringify(line)}`
  if (!nftStart.test(line)) return bad('no statement of ours')
  // Between quotes nothing but the next quote is syntax.
  const unquoted = line.replace(/"[^"]*"/g, '""')
  if (/[^\x20-\x7e]|#|\\/.test(line) || unquoted.includes('$')) return bad('a character that is syntax')
  const isDeclaration = /^add (?:set|map|chain) /.test(line)
  // Declarations and rules of the base table are constants; only there is a semicolon.
  if (unquoted.includes(';') && !isDeclaration) return bad('a second statement')
  // A bit of the packet's mark is set and cleared in rules of ours alone.
  const isOfMark = / meta mark set meta mark [|&] 0x[0-9a-f]+ /.test(line)
  const isWord = (token: string) =>
    [nftWord, address, mac].some((pattern) => pattern.test(token)) ||
    (token === ';' && isDeclaration) ||
    (/^[|&]$/.test(token) && isOfMark)
  // Conditions of host ports may name any link.
  const isCondition = line.startsWith('add rule inet trestle cond')
  const isName = (token: string) =>
    links.has(token.slice(1, -1)) ||
    /^"trestle \d+ [a-z0-9_-]+(?: 0x[0-9a-f]+)?"$/.test(token) ||
    (token === '"veth"' && line.includes(' meta iifkind "veth" ')) ||
    (isCondition && /^"[\w.][\w.@+-]*"$/.test(token))
  const tokens = line.match(nftToken) ?? []
  const wrong = tokens.find((token) => (token.startsWith('"') ? !isName(token) : !isWord(token)))
  return wrong === undefined ? undefined : bad(`${JSON.stringify(wrong)} is no word of a rule`)
}

/** An interface may have any name that CNI_IFNAME may: printable, without quotes and slashes. */
const sysctlKey = /^net(?:\/[!$&()*+,\-.:;<-Z[\]^_a-z{|}~0-9]+){2,}$/

function argumentProblem({ key, value }: { readonly key: string; readonly value: string }): string | undefined {
  if (!sysctlKey.test(key) || key.split('/').includes('..')) return `sysctl: ${JSON.stringify(key)} is no key below net`
  return /[\x00-\x1f\x7f]/.test(value) ? `sysctl: a control character in ${JSON.stringify(value)}` : undefined
}

function fileProblem({ key, value }: { readonly key: string; readonly value: string }): string | undefined {
  const isKey = /^net\/ipv[46]\/conf\/[^/\x00-\x20]+\/(?:accept_ra|route_localnet)$/.test(key) && !key.includes('/../')
  return isKey && /^[01]$/.test(value) ? undefined : `file: ${JSON.stringify(key)}=${JSON.stringify(value)}`
}
