// SPDX-License-Identifier: Apache-2.0
// TRESTLE_TRACE=FILE: the timeline of a call, as docs/contributing.md says ("Where the time of a call goes").

import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'

/** A line of the file; times in microseconds. */
interface Event {
  readonly name: string
  readonly cat?: string
  readonly ph: string
  readonly pid: number
  readonly tid: number
  readonly ts: number
  readonly dur: number
  readonly args: Readonly<Record<string, unknown>>
}

let host: Host
let directory: string
let file: string
beforeEach(() => {
  host = openHost()
  directory = mkdtempSync(`${tmpdir()}/trestle-trace-`)
  file = `${directory}/trace`
})
afterEach(() => {
  host.close()
  rmSync(directory, { recursive: true, force: true })
})

const conf = netConf({ bandwidth: { ingressRate: 8_000_000, ingressBurst: 800_000 } })

function events(): readonly Event[] {
  return readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Event)
}

const endOf = ({ ts, dur }: Event) => ts + dur

describe('TRESTLE_TRACE', () => {
  it('has each call, the phases of its main thread without a gap, its tools and when they got their input', () => {
    const pod = attach(host, conf, { env: { TRESTLE_TRACE: file } })
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const all = events()
    const calls = all.filter(({ name }) => name === 'call')
    expect(calls.map(({ args }) => args)).toEqual([
      { verb: 'ADD', containerId: 'c1', ifName: 'eth0', exitCode: 0 },
      { verb: 'DEL', containerId: 'c1', ifName: 'eth0', exitCode: 0 },
    ])
    for (const call of calls) {
      const own = all.filter(({ pid }) => pid === call.pid)
      const of = (kind: string) => own.filter(({ cat, ph }) => cat === kind && ph === 'X')
      const [forks, phases, tools] = [of('fork'), of('phase'), of('tool')]
      expect(phases.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['start', 'read the configuration', 'prepare', 'answer']),
      )
      expect(phases[0]?.ts).toBe(call.ts)
      for (const [at, each] of phases.entries())
        expect(each.ts).toBe(at === 0 ? call.ts : endOf(phases[at - 1] ?? each))
      const within = (each: Event) => phases.some((phase) => phase.ts <= each.ts && endOf(each) <= endOf(phase))
      expect(forks.filter((each) => !within(each))).toEqual([])
      const tracks = own.filter(({ name, ph }) => ph === 'M' && name === 'thread_name')
      expect(tools.length).toBe(forks.length)
      expect(tools.length).toBeGreaterThan(0)
      for (const tool of tools) {
        expect(tracks.find(({ tid }) => tid === tool.tid)?.args).toEqual({ name: tool.name })
        const written = own.filter(({ name, tid }) => name === 'input written' && tid === tool.tid)
        expect(written.map(({ ts }) => tool.ts <= ts && ts <= endOf(tool))).toEqual([true])
      }
    }
    expect(all.filter(({ pid }) => pid === calls[0]?.pid).map(({ name }) => name)).toContain('set up')
  })

  it('shows that the links have their input before anything else is started', () => {
    attach(host, conf)
    attach(host, conf, { id: 'c2', env: { TRESTLE_TRACE: file } })
    const [links, , ...others] = events()
      .filter(({ cat, ph }) => cat === 'tool' && ph === 'X')
      .toSorted((a, b) => a.ts - b.ts)
    expect(links?.name).toBe('ip -j -batch -')
    expect(others[0]?.name).toMatch(/^nft /)
    const written = events().find(({ name, tid }) => name === 'input written' && tid === links?.tid)
    expect(others.filter(({ ts }) => ts < (written?.ts ?? Number.POSITIVE_INFINITY))).toEqual([])
  })

  it('writes nothing where nobody asks for it', () => {
    const pod = attach(host, conf, { env: { TRESTLE_TRACE: '' } })
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(existsSync(file)).toBe(false)
  })

  it.each<[string, (path: string, target: string) => unknown]>([
    ['a symbolic link', (path, target) => symlinkSync(target, path)],
    [
      'a second name of a file',
      (path, target) => {
        writeFileSync(target, '', { mode: 0o600 })
        linkSync(target, path)
      },
    ],
    [
      'a file that others may write',
      (path) => {
        writeFileSync(path, '')
        chmodSync(path, 0o666)
      },
    ],
    ['a directory', (path) => mkdirSync(path)],
    ['a pipe', (path) => execaSync('mkfifo', [path])],
    [
      'a file over 64 MiB',
      (path) => {
        writeFileSync(path, '', { mode: 0o600 })
        truncateSync(path, 64 * 1024 * 1024 + 1)
      },
    ],
  ])('leaves %s alone, says so, and the call succeeds', (_, make) => {
    const target = `${directory}/target`
    make(file, target)
    const sizes = () => readdirSync(directory).map((name) => [name, lstatSync(`${directory}/${name}`).size])
    const before = sizes()
    refusesTrace(file)
    expect(sizes()).toEqual(before)
  })

  it('takes no relative path', () => {
    refusesTrace('trace')
    expect(existsSync('trace')).toBe(false)
  })
})

/** A call with this variable succeeds, and says on stderr that it writes no timeline. */
function refusesTrace(path: string): void {
  const called = host.cni('VERSION', { cniVersion: '1.1.0' }, { env: { TRESTLE_TRACE: path } })
  expect({ code: called.code, version: called.json?.cniVersion }, called.stderr).toEqual({ code: 0, version: '1.1.0' })
  expect(called.stderr).toMatch(/^trestle: TRESTLE_TRACE: .+\n$/)
}
