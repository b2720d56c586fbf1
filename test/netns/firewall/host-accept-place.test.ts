// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept: where the one accept stands in the chains of others. Behind every rule of the administrator, before
// what drops the rest, never in DOCKER-USER; and nothing of theirs is looked at by a usual ADD.

import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, askOnce } from '../../support/ask.ts'
import { restore } from '../../support/damage/breakage.ts'
import { expectSilent, runLine } from '../../support/outcome.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'
import { outside, pings, pingsOnce } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'], firewall: {}, removeWhenEmpty: true })
const accept = '-A FORWARD -m mark --mark 0x1000/0x1000 -m comment --comment "trestle accept 0x1000" -j ACCEPT'
const programs = ['iptables-nft', 'ip6tables-nft']
const [program = ''] = programs

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
  host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'])
})
afterEach(() => host.close())

const run = (line: string): string => runLine(host, line).stdout
const rulesOf = (program: string, chain = 'FORWARD') =>
  run(`${program} -S ${chain}`)
    .split('\n')
    .filter((line) => line.startsWith('-A'))
const tableRules = (chain = 'forwarded') =>
  run(`nft list chain inet fw ${chain}`)
    .split('\n')
    .filter((line) => line.startsWith('\t\t') && !line.includes(' hook '))
    .map((line) => line.trim())
const nftAccept = 'meta mark & 0x00001000 == 0x00001000 accept comment "trestle accept 0x1000"'
const makeTable = (policy: string, prio = 10) => {
  run('nft add table inet fw')
  run(`nft add chain inet fw forwarded { type filter hook forward priority ${prio} ; policy ${policy} ; }`)
}
const inTable = (rule: string, chain = 'forwarded') => run(`nft add rule inet fw ${chain} ${rule}`)

/** Which ports outside a pod reaches. */
async function reached(netns: string): Promise<readonly number[]> {
  const far = [outside.far4, outside.far6]
  for (const port of [22, 90]) for (const address of far) host.atClose(await answer(host.internet, port, address))
  const open = ask(
    host,
    netns,
    far.map((address) => ({ protocol: 'tcp', address, port: 90 })),
  )
  const closed = askOnce(
    host,
    netns,
    far.map((address) => ({ protocol: 'tcp', address, port: 22 })),
  )
  return [...open.map((said) => (said === '' ? 0 : 90)), ...closed.map((said) => (said === '' ? 0 : 22))]
}

describe('in FORWARD of iptables-nft', () => {
  it("stands behind the administrator's drop, which wins, and before LOG and the last drop", async () => {
    for (const each of programs) {
      run(`${each} -A FORWARD -p tcp --dport 22 -j DROP`)
      run(`${each} -A FORWARD -m limit --limit 5/min -j LOG`)
      run(`${each} -A FORWARD -j REJECT`)
      run(`${each} -P FORWARD DROP`)
    }
    const before = programs.map((each) => rulesOf(each))
    const pod = attach(host, conf)
    for (const [at, each] of programs.entries()) {
      const [drop, log, reject] = before[at] ?? []
      expect(rulesOf(each)).toEqual([drop, accept, log, reject])
    }
    expect(await reached(pod.netns)).toEqual([90, 90, 0, 0])
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(programs.map((each) => rulesOf(each))).toEqual(before)
  })

  it('goes to the end where the policy drops, and to its place again by restore when rules came behind or before it', () => {
    run(`${program} -P FORWARD DROP`)
    run(`${program} -A FORWARD -s 10.66.0.0/16 -j ACCEPT`)
    attach(host, conf)
    run(`${program} -A FORWARD -p tcp --dport 23 -j DROP`)
    expect(rulesOf(program).indexOf(accept)).toBe(1)
    restore(host)
    expect(rulesOf(program).indexOf(accept)).toBe(2)
    expect(rulesOf(program)).toHaveLength(3)
    run(`${program} -I FORWARD 2 -j DROP`)
    restore(host)
    expect(rulesOf(program).slice(1)).toEqual([accept, '-A FORWARD -j DROP', expect.stringContaining('--dport 23')])
  })

  it('is put by restore where a firewall that started after the pods drops', () => {
    const pod = attach(host, conf)
    run(`${program} -P FORWARD DROP`)
    expect(pingsOnce(host, pod.netns, outside.far4)).toBe(false)
    restore(host)
    expect(rulesOf(program)).toEqual([accept])
    expect(pings(host, pod.netns, outside.far4)).toBe(true)
  })

  it('is not in DOCKER-USER, nor anywhere when that drops everything', () => {
    for (const line of ['-N DOCKER-USER', '-A FORWARD -j DOCKER-USER', '-P FORWARD DROP']) run(`${program} ${line}`)
    run(`${program} -A DOCKER-USER -p tcp --dport 22 -j DROP`)
    run(`${program} -A DOCKER-USER -j RETURN`)
    const user = rulesOf(program, 'DOCKER-USER')
    const pod = attach(host, conf)
    expect(rulesOf(program, 'DOCKER-USER')).toEqual(user)
    expect(rulesOf(program)).toEqual(['-A FORWARD -j DOCKER-USER', accept])
    expectSilent(later(host, 'DEL', { conf, pod }))
    run(`${program} -D DOCKER-USER -j RETURN`)
    run(`${program} -A DOCKER-USER -j DROP`)
    const added = host.cni('ADD', conf, { id: 'b', netns: host.pod('b') })
    expect(added.code).toBe(0)
    expect(rulesOf(program)).toEqual(['-A FORWARD -j DOCKER-USER'])
  })

  it('is behind the rules of a chain that FORWARD leads to, unless others lead there to have packets dropped', () => {
    for (const chain of ['MINE', 'LOGDROP']) run(`${program} -N ${chain}`)
    run(`${program} -A FORWARD -g MINE`)
    run(`${program} -A MINE -p tcp --dport 22 -j LOGDROP`)
    run(`${program} -A MINE -j LOGDROP`)
    run(`${program} -A LOGDROP -j LOG`)
    run(`${program} -A LOGDROP -j DROP`)
    const last = rulesOf(program, 'LOGDROP')
    const pod = attach(host, conf)
    const mine = rulesOf(program, 'MINE')
    expect(mine).toEqual([
      '-A MINE -p tcp -m tcp --dport 22 -j LOGDROP',
      accept.replace('FORWARD', 'MINE'),
      '-A MINE -j LOGDROP',
    ])
    expect([rulesOf(program, 'LOGDROP'), rulesOf(program)]).toEqual([last, ['-A FORWARD -g MINE']])
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(rulesOf(program, 'MINE')).toEqual([mine[0], mine[2]])
  })
})

describe('in an nft table', () => {
  it("stands behind the administrator's drop, which wins, and before the last reject", async () => {
    makeTable('accept')
    for (const rule of ['ct state vmap { established : accept, invalid : drop }', 'tcp dport 22 drop']) inTable(rule)
    for (const rule of ['limit rate 5/minute log', 'counter reject']) inTable(rule)
    const before = tableRules()
    const pod = attach(host, conf)
    expect(tableRules().filter((rule) => !rule.includes('reject'))).toEqual([
      before[0],
      before[1],
      nftAccept,
      before[2],
    ])
    expect(await reached(pod.netns)).toEqual([90, 90, 0, 0])
  })

  it('is found through jumps and gotos', () => {
    makeTable('accept')
    for (const chain of ['first', 'second', 'third']) run(`nft add chain inet fw ${chain}`)
    inTable('accept', 'third')
    inTable('jump first')
    inTable('iifname "lo" jump third')
    inTable('counter goto second')
    inTable('udp dport 53 accept', 'first')
    inTable('udp dport 5353 drop', 'second')
    inTable('drop', 'second')
    const pod = attach(host, conf)
    expect(tableRules('second')).toEqual(['udp dport 5353 drop', nftAccept, 'drop'])
    expect(tableRules().join()).not.toContain('trestle')
    expect(pings(host, pod.netns, outside.far4)).toBe(true)
  })

  it('is nowhere where the chain accepts the rest, or comes before ours', () => {
    makeTable('drop', -200)
    run('nft add table ip kind')
    run('nft add chain ip kind forwarded { type filter hook forward priority 0 ; policy drop ; }')
    run('nft add rule ip kind forwarded tcp dport 22 drop')
    run('nft add rule ip kind forwarded counter accept')
    attach(host, conf)
    expect(run('nft list table ip kind') + run('nft list table inet fw')).not.toContain('trestle')
  })

  it("that is firewalld's is left alone", () => {
    run('nft add table inet firewalld')
    run('nft add chain inet firewalld filter_FORWARD { type filter hook forward priority 10 ; policy drop ; }')
    const before = run('nft list table inet firewalld')
    attach(host, conf)
    expect(run('nft list table inet firewalld')).toBe(before)
  })
})

/** Programs that write down how they are called, and then are what they are. */
function listeners(): { readonly env: Readonly<Record<string, string>>; readonly calls: () => string } {
  const directory = mkdtempSync(`${tmpdir()}/trestle-test-`)
  host.atClose(() => rmSync(directory, { recursive: true }))
  mkdirSync(`${directory}/bin`)
  for (const program of ['nft', ...programs]) {
    const script = `#!/bin/sh\necho "${program} $*" >>${directory}/calls\nexec /usr/sbin/${program} "$@"\n`
    writeFileSync(`${directory}/bin/${program}`, script)
    chmodSync(`${directory}/bin/${program}`, 0o755)
  }
  writeFileSync(`${directory}/calls`, '')
  const env = { PATH: `${directory}/bin:${process.env['PATH']}` }
  return { env, calls: () => readFileSync(`${directory}/calls`, 'utf8') }
}

describe('the usual ADD and DEL', () => {
  it('look at no chain of others', () => {
    makeTable('drop')
    run('iptables-nft -P FORWARD DROP')
    attach(host, conf, { id: 'a' })
    const { env, calls } = listeners()
    const pod = attach(host, conf, { id: 'b', env })
    expectSilent(later(host, 'DEL', { conf, pod, call: { env } }))
    expect(calls()).toMatch(/^(nft -t -f -\n)+$|^(nft -f -\n|nft -t -f -\n)+$/)
  })
})

describe('the mark', () => {
  const countAt = (hook: string, prio: number, match: string) => {
    run(`nft add chain inet count ${hook} { type filter hook ${hook} priority ${prio} ; }`)
    run(`nft add rule inet count ${hook} oifname up0 ${match} counter`)
  }
  const packets = (hook: string) => Number(/counter packets (\d+)/.exec(run(`nft list chain inet count ${hook}`))?.[1])

  it('is one bit, is set for others to see, and is gone behind them, other bits are not', () => {
    makeTable('drop')
    run('nft add table inet count')
    run('nft add chain inet count prerouting { type filter hook prerouting priority 0 ; }')
    run('nft add rule inet count prerouting iifname cni0 meta mark set 0x80020')
    countAt('forward', 100, 'meta mark 0x81020')
    countAt('postrouting', 0, 'meta mark 0x80020')
    const pod = attach(host, conf)
    expect(tableRules()).toEqual([nftAccept])
    expect(pings(host, pod.netns, outside.far4)).toBe(true)
    expect([packets('forward') > 0, packets('postrouting') > 0]).toEqual([true, true])
  })

  it('is not taken from others: a packet that comes with it is judged all the same', () => {
    makeTable('drop')
    run('nft add table inet count')
    run('nft add chain inet count prerouting { type filter hook prerouting priority 0 ; }')
    run('nft add rule inet count prerouting meta mark set 0x1000')
    const pod = attach(host, conf)
    expect(host.inPod(host.internet, 'ip', ['route', 'add', '10.240.0.0/24', 'via', outside.node4]).code).toBe(0)
    expect(host.inPod(host.internet, 'ping', ['-c1', '-W1', pod.address]).code).not.toBe(0)
  })
})
