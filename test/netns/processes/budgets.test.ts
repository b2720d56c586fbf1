// SPDX-License-Identifier: Apache-2.0
// What a call costs, in figures that do not depend on the machine or its load: a change that makes calls dearer is seen
// where no clock can be trusted. TRESTLE_TEST_BUDGETS=show prints what each figure is now; where a change means it, its
// line in the table below changes with it.

import { readFileSync, statSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { budgetOf, type Counts, countsAbove, readStrace, threadsStarted } from '../../support/budgets.ts'
import { haveStrace, noStrace } from '../../support/faults/strace.ts'
import { environment, type Host, openHost, trestle, type Verb } from '../../support/host.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { netConf } from '../../support/traffic/pods.ts'

/** The most, and the least, below which the test itself no longer sees what it counts. */
type Band = readonly [least: number, most: number]

/**
 * Of trestle's main thread, above a VERSION of the same run; `processes` and `programs` of the whole tree. A network with
 * masquerade, one TCP host port, bandwidth and a sysctl; the second pod of the node.
 */
const budgets: Readonly<Record<Exclude<Verb, 'VERSION'>, Readonly<Record<keyof Counts, Band>>>> = {
  // ip on the host and in the pod, nft, tc, sysctl; one more for who starts them. The two in the pod are nsenter first.
  ADD: {
    processes: [3, 6],
    programs: [3, 8],
    forks: [1, 5],
    // 53: each of its five tools has files without a name for what it prints, and nft one for its input.
    opened: [15, 58],
    written: [2, 18],
    renamed: [4, 10],
    others: [60, 240],
  },
  // ip on the host and in the pod, nft, a shell in the pod that reads sysctls, and what that starts.
  CHECK: {
    processes: [2, 5],
    programs: [2, 7],
    forks: [1, 4],
    // 30, of which 13 are files without a name for what its tools print.
    opened: [5, 34],
    written: [0, 15],
    renamed: [0, 2],
    others: [40, 160],
  },
  // ip and nft, and one more for a proof that they are done.
  DEL: {
    processes: [1, 3],
    programs: [1, 3],
    forks: [1, 3],
    opened: [10, 36],
    // 9: among them the record that it leaves, and its locks.
    written: [2, 11],
    renamed: [5, 20],
    others: [40, 160],
  },
  // It reads the records, and finds nothing to collect.
  GC: {
    processes: [0, 0],
    programs: [0, 0],
    forks: [0, 0],
    opened: [6, 30],
    written: [0, 2],
    renamed: [0, 2],
    others: [20, 60],
  },
  // It starts nothing and writes nothing.
  STATUS: {
    processes: [0, 0],
    programs: [0, 0],
    forks: [0, 0],
    opened: [3, 15],
    written: [0, 0],
    renamed: [0, 0],
    others: [15, 60],
  },
}

/** Each KB and each module is read at the build of the snapshot, and is in the memory of each call: 249 KB, 99 modules. */
const bundle = { bytes: [150_000, 260_000], modules: [60, 110] } as const

const conf = netConf({
  bandwidth: { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: 8_000_000, egressBurst: 800_000 },
  tuning: { sysctl: { 'net.ipv4.conf.all.log_martians': '1' } },
})
const portOf = (pod: number) => ({ portMappings: [{ hostPort: 8080 + pod, containerPort: 80, protocol: 'tcp' }] })

const shown = process.env['TRESTLE_TEST_BUDGETS'] === 'show'
const measured = new Map<string, Counts>()
let startedThreads = 0

describe.skipIf(!haveStrace())(`the budget, unless ${noStrace},`, () => {
  let host: Host
  beforeAll(() => {
    host = openHost()
    const pods = [1, 2, 3].map((pod) => host.pod(`${pod}`))
    const call = (verb: Verb, pod: number, more: object = {}) =>
      traced(host, verb, { pod, netns: pods[pod - 1] ?? '', conf: { ...conf, runtimeConfig: portOf(pod), ...more } })
    const { counts: version, threads } = call('VERSION', 1)
    startedThreads = threads
    call('ADD', 1)
    const added = call('ADD', 2)
    const valid = [1, 2].map((pod) => ({ containerID: `c${pod}`, ifname: 'eth0' }))
    const calls = {
      ADD: added,
      CHECK: call('CHECK', 2, { prevResult: JSON.parse(added.stdout) }),
      STATUS: call('STATUS', 2),
      GC: call('GC', 2, { 'cni.dev/valid-attachments': valid }),
      DEL: call('DEL', 2),
    }
    for (const [verb, { counts }] of Object.entries(calls)) measured.set(verb, countsAbove(counts, version))
    call('DEL', 1)
    if (shown) console.table(Object.fromEntries(measured))
  })
  afterAll(() => host?.close())

  it('of a start holds: threads', () => {
    // One of V8's pool, and one for its delayed work. --disable-sigusr1 spares the one that waits for SIGUSR1.
    expect(startedThreads).toBe(2)
  })

  const rows = Object.entries(budgets).flatMap(([verb, bands]) =>
    Object.entries(bands).map(([figure, band]) => ({ verb, figure: figure as keyof Counts, band })),
  )
  it.each(rows)('of $verb holds: $figure', ({ verb, figure, band }) => {
    expect(budgetOf(measured.get(verb)?.[figure], band)).toBe('within')
  })
})

describe('the bundle that every call starts', () => {
  it('holds its budget of bytes and modules', () => {
    const { outputs } = JSON.parse(readFileSync('dist/trestle.cjs.meta.json', 'utf8')) as {
      outputs: Record<string, { entryPoint?: string; inputs: Record<string, { bytesInOutput: number }> }>
    }
    const inputs = Object.values(outputs).find(({ entryPoint }) => entryPoint !== undefined)?.inputs ?? {}
    const modules = Object.values(inputs).filter(({ bytesInOutput }) => bytesInOutput > 0).length
    const { size } = statSync('dist/trestle.cjs')
    if (shown) console.log({ bytes: size, modules })
    expect([budgetOf(size, bundle.bytes), budgetOf(modules, bundle.modules)]).toEqual(['within', 'within'])
  })

  it('has nothing of the commands for people, nor a library but zod/mini (theirs: TOML, JSON with places, gRPC)', () => {
    const inputsOf = (name: string) => {
      const { inputs } = JSON.parse(readFileSync(`dist/${name}.meta.json`, 'utf8')) as {
        inputs: Record<string, object>
      }
      return Object.keys(inputs)
    }
    const librariesOf = (name: string) => {
      const found = inputsOf(name).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
      return new Set(found.filter((each) => each !== undefined))
    }
    expect([...librariesOf('trestle.cjs')]).toEqual(['zod'])
    expect(inputsOf('trestle.cjs').filter((path) => /\/commands\//.test(path))).toEqual([])
    // They are where they are used.
    expect([...librariesOf('cli.cjs')]).toEqual(expect.arrayContaining(['smol-toml', 'jsonc-parser', '@grpc/grpc-js']))
  })
})

/** A call under strace that must succeed: what it printed, and what it did. */
function traced(host: Host, verb: Verb, call: { pod: number; netns: string; conf: object }) {
  const log = `${host.stateDir}.strace`
  const env = environment(verb, {
    id: `c${call.pod}`,
    netns: call.netns,
    // A search for a tool counts each directory.
    env: { ...stateEnv(host), PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  })
  const words = [`--net=${host.path}`, '--', 'strace', '-f', '-qq', '-s', '0', '-o', log, trestle]
  const { stdout } = execaSync('nsenter', words, { input: JSON.stringify(call.conf), env, extendEnv: false })
  const text = readFileSync(log, 'utf8')
  execaSync('rm', ['-f', log])
  return { stdout, counts: readStrace(text), threads: threadsStarted(text) }
}
