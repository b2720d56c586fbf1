// SPDX-License-Identifier: Apache-2.0
// Every kind of file of the state directory damaged in every way: no verb crashes or hangs, no live pod's address or
// host port is given to another, DEL still leaves nothing of its pod, `trestle restore` and `gc` heal.
// TRESTLE_TEST_FULL=1 plays every combination; else the printed seed chooses.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { damages, filesBelow } from '../../support/damage/damage.ts'
import {
  kinds,
  makeStateOld,
  openWorn,
  others,
  plain,
  port,
  type Worn,
  whole,
} from '../../support/damage/worn-state.ts'
import { type Finished, trestle } from '../../support/host.ts'
import { isOfAttachment, recordName, stateWord } from '../../support/state-layout.ts'

const seed = Number(process.env['TRESTLE_TEST_SEED'] ?? Date.now() % 1_000_000)
const isFull = process.env['TRESTLE_TEST_FULL'] === '1'
/** Without isFull: of the kinds of file, every third with each damage. */
const part = 3
/** A call lasts 20 s at most; nothing here has to wait for anybody. */
const longestMs = 10_000

console.log(`state damage: TRESTLE_TEST_SEED=${seed}${isFull ? ', everything' : ''}`)

/** Runs a command of the executable on the node. */
function command({ host }: Worn, ...words: readonly string[]): Finished {
  return host.run('env', [stateWord(host), trestle, ...words])
}

/** Each call, and what it may answer: anything else is a crash, a hang, or somebody's address given away. */
const calls: Readonly<Record<string, (worn: Worn) => string | undefined>> = {
  'ADD of another pod': (worn) => {
    const { host, p, q, fresh } = worn
    const added = host.cni('ADD', plain, { id: 'f', netns: fresh })
    const address = added.json?.ips?.[0]?.address.replace(/\/.*/, '') ?? ''
    host.cni('DEL', plain, { id: 'f', netns: fresh })
    if (added.code !== 0) return added.stdout
    return [p.address, q.address].includes(address) ? `${address} was given out twice` : undefined
  },
  "ADD with a live pod's host port": ({ host, fresh }) => {
    const conf = { ...plain, runtimeConfig: { portMappings: [port] } }
    return refused(host.cni('ADD', conf, { id: 'f', netns: fresh }), 104)
  },
  "ADD with a live pod's address": ({ host, p, fresh }) =>
    refused(host.cni('ADD', plain, { id: 'f', netns: fresh, args: `IP=${p.address}` }), 102),
  CHECK: ({ host, p }) => answers(host.cni('CHECK', { ...whole, prevResult: p.result }, p.call), 0, 107),
  STATUS: ({ host }) => answers(host.cni('STATUS', plain), 0),
  GC: ({ host, p, q }) => {
    const valid = [p, q].map(({ id }) => ({ containerID: id, ifname: 'eth0' }))
    return answers(host.cni('GC', { ...plain, 'cni.dev/valid-attachments': valid }), 0)
  },
  // 1: the killed call that `reset` brings back has lost its link to an earlier call.
  restore: (worn) => exits(command(worn, 'restore'), 0, 1),
  gc: (worn) => exits(command(worn, 'gc', '--no-runtime', '--apply'), 0, 1),
}

describe('a damaged state directory', () => {
  let worn: Worn
  beforeAll(() => {
    worn = openWorn()
  })
  afterAll(() => worn.close())

  const damage = (kind: string, how: string): void =>
    damages[how]?.({
      file: worn.path(kind),
      other: `${worn.host.stateDir}/${others[kind] ?? kinds['a finished record']}`,
      outside: '/etc/hostname',
    })

  /** What is wrong after a call on the damaged state, in words. */
  const play = (what: string, name: string, spoil: () => void): readonly string[] => {
    worn.reset()
    spoil()
    const begun = performance.now()
    const answer = calls[name]?.(worn)
    const tookMs = performance.now() - begun
    const wrong = [
      ...(answer === undefined ? [] : [answer]),
      ...(tookMs > longestMs ? [`took ${tookMs.toFixed()} ms`] : []),
      ...lostLinks(worn).map((link) => `${link} of a live pod is gone`),
    ]
    return wrong.map((each) => `${what}, ${name}: ${each}`)
  }

  it('has a file of every kind that is damaged here, and no other', () => {
    const known = new Set(Object.values(kinds))
    const isOfOther = (file: string) =>
      ['q', 'd'].some((id) => file.endsWith(recordName(id))) || /10\.94\.0\.[34]$/.test(file)
    const isKnown = (file: string) => known.has(file) || isOfOther(file)
    const files = filesBelow(worn.host.stateDir)
    expect(files.filter((file) => !isKnown(file))).toEqual([])
    expect([...known].filter((file) => !files.includes(file))).toEqual([])
  })

  it.each(Object.keys(damages))(
    'with one file %s (aws-vpc-cni#2283: a damaged reservation is an address lost)',
    (how) => {
      const names = Object.keys(calls)
      const turn = seed + Object.keys(damages).indexOf(how)
      const wrong = Object.keys(kinds).flatMap((kind, at) => {
        if (!isFull && (at + turn) % part !== 0) return []
        // Over all damages, each kind meets every call with isFull, and else a part of them.
        const chosen = isFull ? names : [names[(at + turn) % names.length] ?? '']
        const told = chosen.filter((name) => !isGivenAway(kind, how, name))
        return told.flatMap((name) => play(`${kind}: ${how}`, name, () => damage(kind, how)))
      })
      expect(wrong).toEqual([])
    },
    isFull ? 600_000 : 180_000,
  )
})

describe('after a file was damaged', () => {
  const names = Object.keys(damages)
  /** Every kind with every damage, or every second kind with one of them. */
  const pairs = Object.keys(kinds).flatMap((kind, at) => {
    if (!isFull && (at + seed) % 2 !== 0) return []
    return (isFull ? names : [names[(at + seed) % names.length] ?? '']).map((how) => [kind, how] as const)
  })

  it.each(pairs)('%s: %s, every DEL succeeds and gc leaves nothing', (kind, how) => {
    const worn = openWorn()
    try {
      const { host, p, q, dead } = worn
      const other = `${host.stateDir}/${others[kind] ?? kinds['a finished record']}`
      damages[how]?.({ file: worn.path(kind), other, outside: '/etc/hostname' })
      const dels = [
        host.cni('DEL', whole, p.call),
        host.cni('DEL', plain, q.call),
        host.cni('DEL', plain, dead.call),
        host.cni('DEL', whole, p.call),
      ]
      expect(dels.map(({ code, stdout }) => ({ code, stdout }))).toEqual(dels.map(() => ({ code: 0, stdout: '' })))
      for (const { netns } of [p, q, dead]) host.removePod(netns)
      makeStateOld(host.stateDir)
      const swept = command(worn, 'gc', '--no-runtime', '--apply')
      expect(swept.stdout + swept.stderr).toContain('0 to look at, 0 kept')
      expect(swept.code, swept.stdout + swept.stderr).toBe(0)
      expect(leftOf(worn)).toEqual([])
    } finally {
      worn.close()
    }
  })
})

/** Who removes a reservation without a trace gives it away, until `trestle restore` reserves it again. */
function isGivenAway(kind: string, how: string, name: string): boolean {
  return how === 'removed' && /^a reserved/.test(kind) && /^ADD with/.test(name)
}

/** What is left of pods: links, elements of their host ports, records and reservations. */
function leftOf(worn: Worn): readonly string[] {
  const { host } = worn
  const links = ['veth', 'ifb'].flatMap((kind) =>
    host.run('ip', ['-o', 'link', 'show', 'type', kind]).stdout.split('\n'),
  )
  const elements = host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout.split('\n')
  return [
    ...links.filter((line) => line !== ''),
    ...elements.filter((line) => line.includes('18081')),
    ...filesBelow(host.stateDir).filter(isOfAttachment),
  ]
}

/** Links of live pods that are no longer on the bridge. */
function lostLinks({ host, p, q }: Worn): readonly string[] {
  const shown = host.run('ip', ['-o', 'link', 'show', 'master', 'cni0']).stdout
  return [p, q].map(({ hostLink }) => hostLink).filter((link) => !shown.includes(`${link}@`))
}

/** What of a CNI call is not foreseen. `codes`: 0 for success, else those of its error. */
function answers(finished: Finished, ...codes: readonly number[]): string | undefined {
  const code = finished.code === 0 ? 0 : (finished.json?.code ?? Number.NaN)
  return codes.includes(code) ? undefined : `${finished.code} ${finished.stdout}${finished.stderr}`
}

function refused(finished: Finished, code: number): string | undefined {
  return answers(finished, code)
}

function exits(finished: Finished, ...codes: readonly number[]): string | undefined {
  return codes.includes(finished.code) ? undefined : `${finished.code} ${finished.stdout}${finished.stderr}`
}
