// SPDX-License-Identifier: Apache-2.0
// Where the accept goes in the chains of somebody else, from what iptables and nft print of them.

import { describe, expect, it } from 'vitest'
import { type AcceptSearch, type ForeignRules, searchSpot } from '../../../src-before/features/accept-place.ts'
import { countForeignTargets, readForeignRules } from '../../../src-before/tools/foreign-nft.ts'
import { countIptablesTargets, dropsByPolicy, readIptablesRules } from '../../../src-before/tools/iptables.ts'

const mark = 0x1000
const ours = '-m mark --mark 0x1000/0x1000 -m comment --comment "trestle accept 0x1000" -j ACCEPT'

/** Searches a whole `iptables -S`, as if every chain was listed when it was asked for. */
function search(listing: string): AcceptSearch {
  const chains = new Map<string, ForeignRules | undefined>()
  let references: ReadonlyMap<string, number> | undefined
  for (;;) {
    const known = { chains, ...(references && { references }) }
    const found = searchSpot(known, { chain: 'FORWARD', drops: dropsByPolicy(listing, 'FORWARD') }, mark)
    if (found.unread === undefined) return found
    if (found.unread === 'references') references = countIptablesTargets(listing)
    else {
      const { chain } = found.unread
      const isThere = listing.includes(`-N ${chain}`) || chain === 'FORWARD'
      chains.set(chain, isThere ? readIptablesRules(listing, chain) : undefined)
    }
  }
}

/** Rules of FORWARD, or of the chain that a line begins with; `!`: its policy drops. */
function written(lines: readonly string[]): string {
  const isDrop = lines[0] === '!'
  const rules = lines.slice(isDrop ? 1 : 0).map((line) => (/^[-]/.test(line) ? `-A FORWARD ${line}` : `-A ${line}`))
  const chains = new Set(lines.flatMap((line) => /^([A-Z]+) /.exec(line)?.[1] ?? []))
  return [`-P FORWARD ${isDrop ? 'DROP' : 'ACCEPT'}`, ...[...chains].map((chain) => `-N ${chain}`), ...rules].join('\n')
}

const spotOf = (lines: readonly string[]) => {
  const { spot } = search(written(lines)) as { spot?: { chain: string; before?: string } }
  return spot && `${spot.chain} ${spot.before ?? 'end'}`
}
const earlierOf = (lines: readonly string[]) =>
  (search(written(lines)) as { earlier: readonly { text: string }[] }).earlier.map(({ text }) => text)

describe('the place of the accept', () => {
  it.each<[string, readonly string[], string | undefined]>([
    ['nowhere when nothing drops', ['-i eth0 -j DROP'], undefined],
    ['at the end with the policy drop', ['!', '-i eth0 -j DROP'], 'FORWARD end'],
    ['before the last drop', ['-p tcp -j DROP', '-j REJECT --reject-with icmp-host-prohibited'], 'FORWARD 2'],
    ['before LOG right before it', ['-s 10.0.0.0/8 -j ACCEPT', '-m limit -j LOG', '-j NFLOG', '-j DROP'], 'FORWARD 2'],
    ['behind LOG that others are between', ['-j LOG', '-p tcp -j ACCEPT', '-j DROP'], 'FORWARD 3'],
    ['nowhere when all is accepted before', ['-j ACCEPT', '-j DROP'], undefined],
    ['nowhere when a program decides', ['!', '-j NFQUEUE --queue-num 0'], undefined],
    ['before a return to the policy', ['!', '-p tcp -j ACCEPT', '-j RETURN', '-p udp -j DROP'], 'FORWARD 2'],
    ['with a comment it is unconditional', ['-m comment --comment "a -p b" -j DROP'], 'FORWARD 1'],
    ['in the chain that drops', ['-j SUB', 'SUB -p tcp -j DROP', 'SUB -j DROP'], 'SUB 2'],
    ['at the end of one that is gone to', ['!', '-g SUB', 'SUB -p tcp -j DROP'], 'SUB end'],
    ['behind one that comes back', ['!', '-j SUB', 'SUB -p tcp -j DROP', 'SUB -j RETURN'], 'FORWARD end'],
    ['not in one that is called under conditions', ['!', '-p tcp -j SUB', 'SUB -j DROP'], 'FORWARD end'],
    ['before the call of one that others call', ['-p tcp -j SUB', '-j SUB', 'SUB -j LOG', 'SUB -j DROP'], 'FORWARD 2'],
    ['before a call that only logs', ['-p tcp -j ACCEPT', '-j SUB', '-j DROP', 'SUB -m limit -j LOG'], 'FORWARD 2'],
    ['behind an empty chain, where rules may come', ['-j SUB', '-j DROP', 'SUB '], 'FORWARD 2'],
    ['behind an extension that decides nothing', ['!', '-j TCPMSS --clamp-mss-to-pmtu'], 'FORWARD end'],
  ])('%s', (_, lines, place) => expect(spotOf(lines)).toBe(place))

  it('is not in DOCKER-USER, and nowhere when that drops everything', () => {
    const calls = '-P FORWARD DROP\n-N DOCKER-USER\n-A FORWARD -j DOCKER-USER\n'
    expect(search(`${calls}-A DOCKER-USER -p tcp -j DROP`)).toMatchObject({ spot: { chain: 'FORWARD' } })
    expect(search(`${calls}-A DOCKER-USER -j DROP`)).not.toHaveProperty('spot')
  })

  it('is behind drops that are named, but those of what conntrack calls invalid', () => {
    const drops = ['-p tcp -m tcp --dport 22 -j DROP', '-m conntrack --ctstate INVALID -j DROP', '-j SUB', '-j REJECT']
    expect(earlierOf([...drops, 'SUB -s 10.9.0.0/16 -j REJECT'])).toEqual([
      '-A FORWARD -p tcp -m tcp --dport 22 -j DROP',
      '-A SUB -s 10.9.0.0/16 -j REJECT',
    ])
  })
})

describe('the accept that is there', () => {
  const spot = (lines: readonly string[]) => (search(written(lines)) as { spot?: object }).spot
  it.each<[string, readonly string[], boolean, readonly string[]]>([
    ['in its place stays', ['-p tcp -j ACCEPT', ours, '-j LOG', '-j DROP'], true, []],
    ['at the end stays', ['!', '-p tcp -j ACCEPT', ours], true, []],
    ['behind which a rule came goes', ['!', ours, '-p tcp -j DROP'], false, ['1']],
    ['behind LOG goes', ['-j LOG', ours, '-j DROP'], false, ['2']],
    ['twice goes once', [ours, ours, '-j DROP'], true, ['1']],
    ['of another mark goes', [ours.replaceAll('0x1000', '0x20'), '-j DROP'], false, ['1']],
  ])('%s', (_, lines, isTaken, orphans) => {
    expect(spot(lines)).toMatchObject({ isTaken, orphans: orphans.map((id) => ({ id })) })
  })
  it('twice, once behind the drop, says so: iptables takes the first one out', () => {
    expect(spot([ours, '-j DROP', ours])).toMatchObject({ isTaken: true, orphans: [{ id: '3', isBehind: true }] })
  })
})

describe('what nft prints', () => {
  const read = (...exprs: readonly object[][]) =>
    readForeignRules(
      JSON.stringify({ nftables: exprs.map((expr, at) => ({ rule: { chain: 'f', handle: at + 2, expr } })) }),
      'f',
    ).map(({ act, isUnconditional }) => `${act}${isUnconditional ? '' : ' if'}`)
  const match = { match: { op: '==', left: { meta: { key: 'mark' } }, right: 1 } }
  const invalid = { match: { op: 'in', left: { ct: { key: 'state' } }, right: 'invalid' } }
  const states = (drop: string) => ({
    vmap: {
      key: { ct: { key: 'state' } },
      data: {
        set: [
          [drop, { drop: null }],
          ['established', { accept: null }],
        ],
      },
    },
  })
  it('is read by its verdicts, and by what may not match', () => {
    expect(
      read(
        [{ counter: {} }, { log: {} }, { drop: null }],
        [match, { drop: null }],
        [{ limit: {} }, { log: {} }],
        [{ reject: { type: 'icmpx' } }],
        [invalid, { drop: null }],
        [states('invalid')],
        [states('new')],
        [{ jump: { target: 'x' } }],
        [{ mangle: {} }, { goto: { target: 'x' } }],
        [{ xt: { type: 'match', name: 'comment' } }, { xt: { type: 'target', name: 'REJECT' } }],
      ),
    ).toEqual(['drop', 'drop if', 'log if', 'drop', 'none if', 'none if', 'drop if', 'jump', 'goto', 'drop'])
  })
  it('has the comment of our accept, and leads to chains by jumps, gotos and maps', () => {
    const rule = { chain: 'f', handle: 2, comment: 'trestle accept 0x1000', expr: [match, { accept: null }] }
    expect(readForeignRules(JSON.stringify({ nftables: [{ rule }] }), 'f')[0]?.ourMark).toBe(mark)
    const map = {
      set: [
        ['lo', { goto: { target: 'y' } }],
        ['eth0', { jump: { target: 'x' } }],
      ],
    }
    const table = { nftables: [{ rule: { expr: [{ jump: { target: 'x' } }] } }, { map: { elem: map } }] }
    expect([...countForeignTargets(JSON.stringify(table))]).toEqual([
      ['x', 2],
      ['y', 1],
    ])
  })
})
