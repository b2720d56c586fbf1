// SPDX-License-Identifier: Apache-2.0
// Where the accept of the mark stands in forward chains of other nftables tables, from what nft lists of them.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { readAcceptPlaces, settleAccepts } from '../../../src/features/host-accept.ts'
import type { Machine } from '../../../src/process/machine.ts'
import { specOf } from '../call.ts'

const states: string[] = []
beforeEach(() => {
  states.push(mkdtempSync(`${tmpdir()}/trestle-accept-`))
  process.env['TRESTLE_STATE_DIR'] = states.at(-1)
})
afterAll(() => {
  delete process.env['TRESTLE_STATE_DIR']
  for (const state of states) rmSync(state, { recursive: true })
})

/** Rules of a chain as words: `if` matches something, `ours` is the accept. */
type Chains = Readonly<Record<string, readonly string[]>>

const match = { match: { op: '==', left: { meta: { key: 'iifname' } }, right: 'eth0' } }
const mark = { match: { op: '==', left: { '&': [{ meta: { key: 'mark' } }, 4096] }, right: 4096 } }

function exprOf(word: string): readonly object[] {
  if (word === 'ours') return [mark, { accept: null }]
  return word.split(' ').map((each) => {
    const [name = '', target] = each.split(':')
    if (name === 'if') return match
    if (target !== undefined) return { [name]: { target } }
    return name === 'xt-reject' ? { xt: { type: 'target', name: 'REJECT' } } : { [name]: null }
  })
}

/** Lists the chains of a table `fw` and takes changes down. `policy` and `prio` are of its base chain `forward`. */
function machineOf(chains: Chains, { policy = 'accept', prio = 0, table = 'fw', hook = 'forward' } = {}) {
  const changes: string[] = []
  const listing = (nftables: readonly object[]) => ({ code: 0, stdout: JSON.stringify({ nftables }), stderr: '' })
  const ask: Machine['ask'] = async ({ args, stdin }) => {
    if (stdin !== undefined) {
      changes.push(
        String(stdin)
          .trim()
          .replace(/ meta mark.*/, ''),
      )
      return listing([]) as never
    }
    if (args.includes('chains')) {
      const base = { family: 'inet', table, name: 'forward', hook, prio, policy }
      return listing([{ chain: base }, { chain: { family: 'inet', table, name: 'sub' } }]) as never
    }
    const name = String(args.at(-1))
    const rules = (chains[name] ?? []).map((word, at) => {
      const comment = word === 'ours' ? { comment: 'trestle accept 0x1000' } : {}
      return { rule: { family: 'inet', table, chain: name, handle: at + 1, expr: exprOf(word), ...comment } }
    })
    return listing(rules) as never
  }
  return { machine: { ask } as Machine, changes }
}

const { network } = specOf({ podcidr: '10.1.0.0/24', firewall: {} })
const networks = network === undefined ? [] : [network]

async function changesOf(chains: Chains, base?: Parameters<typeof machineOf>[1]): Promise<readonly string[]> {
  const { machine, changes } = machineOf(chains, base)
  await settleAccepts(machine, networks)
  return changes
}

const drops = { policy: 'drop' }

describe('the place of the accept', () => {
  it.each<[string, Chains, object | undefined, readonly string[]]>([
    ['nowhere where nothing drops', { forward: ['if drop'] }, undefined, []],
    ['at the end with the policy drop', { forward: ['if drop'] }, drops, ['add rule inet fw forward']],
    ['before the drop', { forward: ['if drop', 'drop'] }, undefined, ['insert rule inet fw forward handle 2']],
    ['before a target of iptables', { forward: ['xt-reject'] }, undefined, ['insert rule inet fw forward handle 1']],
    [
      'before log right before it',
      { forward: ['if accept', 'log', 'drop'] },
      undefined,
      ['insert rule inet fw forward handle 2'],
    ],
    [
      'behind log that others are between',
      { forward: ['log', 'if accept', 'drop'] },
      undefined,
      ['insert rule inet fw forward handle 3'],
    ],
    ['nowhere where all is accepted before', { forward: ['accept', 'drop'] }, undefined, []],
    [
      'before the drop in a chain that is called',
      { forward: ['jump:sub'], sub: ['if drop', 'drop'] },
      undefined,
      ['insert rule inet fw sub handle 2'],
    ],
    [
      'behind a chain that comes back',
      { forward: ['jump:sub'], sub: ['if drop', 'return'] },
      drops,
      ['add rule inet fw forward'],
    ],
    [
      'not by a call under conditions',
      { forward: ['if jump:sub'], sub: ['drop'] },
      drops,
      ['add rule inet fw forward'],
    ],
    ['never in DOCKER-USER', { forward: ['jump:DOCKER-USER'], 'DOCKER-USER': ['drop'] }, undefined, []],
    ['where it is already', { forward: ['if drop', 'ours', 'drop'] }, undefined, []],
    [
      'behind which a rule came: put again',
      { forward: ['ours', 'if accept', 'drop'] },
      undefined,
      ['insert rule inet fw forward handle 3', 'delete rule inet fw forward handle 1'],
    ],
    ['not before the mark is set', { forward: ['drop'] }, { prio: -150 }, []],
    ['not in firewalld, which takes it back', { forward: ['drop'] }, { table: 'firewalld' }, []],
  ])('%s', async (_, chains, base, changes) => {
    expect(await changesOf(chains, base)).toEqual(changes)
  })

  it('is written down, and the accept taken out where nobody asks for it any more', async () => {
    const { machine } = machineOf({ forward: ['drop'] })
    await settleAccepts(machine, networks)
    expect(readAcceptPlaces()).toEqual([{ family: 'inet', table: 'fw', chain: 'forward' }])
    const later = machineOf({ forward: ['ours', 'drop'] })
    await settleAccepts(later.machine, [])
    expect([later.changes, readAcceptPlaces()]).toEqual([['delete rule inet fw forward handle 1'], []])
  })
})
