// SPDX-License-Identifier: Apache-2.0
// The command lines for the accept of the mark in somebody else's chain, and for firewalld's zones. The rule's comment
// names us, so that whoever reads the chain knows whose it is.

import { formatCidr, parseCidr } from '../cni/address.ts'
import type { ChainPlace, OurRule } from '../features/accept-place.ts'
import { markText } from '../model/tables.ts'
import { acceptText, listArguments, ruleRemovalText, showChainInput } from './nft.ts'

export interface AcceptCommand {
  readonly file: string
  readonly args: readonly string[]
  readonly stdin?: string
}

type IptablesPlace = Extract<ChainPlace, { kind: 'iptables' }>
type NftPlace = Extract<ChainPlace, { kind: 'nft' }>

/** Seconds to wait for the lock of the xtables tools (iptables(8), -w). */
const lockWaitS = '5'

/** The rule's comment: `trestle accept 0x1000`. */
function acceptComment(mark: number): string {
  return `trestle accept ${markText(mark)}`
}

/** The mark of a rule with this comment; undefined where it is not ours. */
export function acceptMarkOf(comment: string): number | undefined {
  const found = /^trestle accept (0x[0-9a-f]{1,8})$/.exec(comment)?.[1]
  return found === undefined ? undefined : Number(found)
}

/** Lists a chain's rules: `-S`, or JSON of nft, which takes only JSON from a file then. */
export function listChainCommand(place: ChainPlace): AcceptCommand {
  if (place.kind === 'iptables') {
    return { file: place.program, args: ['-w', lockWaitS, ...tableWords(place), '-S', place.chain] }
  }
  return { file: 'nft', args: listArguments.ofChain(place) }
}

export function tableWords({ table }: IptablesPlace): readonly string[] {
  return table === undefined ? [] : ['-t', table]
}

export function listTableCommand(place: ChainPlace): AcceptCommand {
  if (place.kind === 'iptables') return { file: place.program, args: ['-w', lockWaitS, ...tableWords(place), '-S'] }
  return { file: 'nft', args: listArguments.ofTable(place) }
}

/** Lists a chain for people, each rule with its handle. */
export function showChainCommand(place: NftPlace): AcceptCommand {
  return { file: 'nft', ...showChainInput(place) }
}

export const listChainsCommand: AcceptCommand = { file: 'nft', args: listArguments.ofChains }

/** Puts the accept before a rule: iptables counts, nft has handles. Absent: behind all of them. */
export function insertCommand(place: ChainPlace, mark: number, before: string | undefined): AcceptCommand {
  if (place.kind === 'iptables') {
    return { file: place.program, args: ['-w', lockWaitS, ...placeWords(place, before), ...iptablesRule(mark)] }
  }
  return nftCommand(acceptText(place, { mark, comment: acceptComment(mark) }, before))
}

/** Where a rule of iptables goes: before the rule of this number, or behind all. */
export function placeWords({ chain }: IptablesPlace, before: string | undefined): readonly string[] {
  return before === undefined ? ['-A', chain] : ['-I', chain, before]
}

/** Takes an accept of ours out: iptables the first of the mark, since numbers change; nft the one of the handle. */
export function deleteCommand(place: ChainPlace, { id, mark }: Pick<OurRule, 'id' | 'mark'>): AcceptCommand {
  if (place.kind === 'nft') return nftCommand(ruleRemovalText(place, id))
  return { file: place.program, args: ['-w', lockWaitS, '-D', place.chain, ...iptablesRule(mark)] }
}

function iptablesRule(mark: number): readonly string[] {
  const bit = markText(mark)
  return ['-m', 'mark', '--mark', `${bit}/${bit}`, '-m', 'comment', '--comment', acceptComment(mark), '-j', 'ACCEPT']
}

/** Adds a bridge or a subnet to a firewalld zone or takes it out. At run time only: both die with the machine. */
export function firewalldCommand(action: 'add' | 'remove', zone: string, subject: string): AcceptCommand {
  return {
    file: 'firewall-cmd',
    args: [`--zone=${zone}`, `--${action}-${firewalldWord(subject)}=${subject}`],
  }
}

export function firewalldZoneCommand(subject: string): AcceptCommand {
  return { file: 'firewall-cmd', args: [`--get-zone-of-${firewalldWord(subject)}=${subject}`] }
}

/** Text of a state file is no subnet unless it reads as we write one. */
function isSubnet(subject: string): boolean {
  const cidr = parseCidr(subject)
  return cidr !== undefined && formatCidr(cidr) === subject
}

function firewalldWord(subject: string): string {
  return isSubnet(subject) ? 'source' : 'interface'
}

/** By standard input: names of tables and chains may look like anything. */
function nftCommand(stdin: string): AcceptCommand {
  return { file: 'nft', args: ['-f', '-'], stdin }
}
