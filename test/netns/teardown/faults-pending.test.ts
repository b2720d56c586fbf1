// SPDX-License-Identifier: Apache-2.0
// What DEL cannot undo: it succeeds all the same, the address and host port stay withheld, and a later
// call settles it. Tools that are missing, hang, or find their object gone.

import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execa, execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { openFaults } from '../../support/faults/faults.ts'
import { type Call, environment, type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { addressesOf } from '../../support/locks/parallel.ts'
import { portName, stateEnv, stateFiles, stateOf } from '../../support/state-layout.ts'

/**
 * The whole call's time (contract, section 3), and what a loaded machine takes beside. A tool that hangs
 * would take a minute.
 */
const limitMs = 20_000 + 10_000

/** Two addresses for pods. */
const pool = {
  cniVersion: '1.1.0',
  name: 'owing',
  type: 'trestle',
  isGateway: true,
  ipMasq: true,
  ipam: { type: 'trestle', subnet: '10.96.0.0/29', rangeStart: '10.96.0.2', rangeEnd: '10.96.0.3' },
  runtimeConfig: { portMappings: [{ hostPort: 18082, containerPort: 80, protocol: 'tcp' }] },
}
const plain = { ...pool, runtimeConfig: {} }

describe('DEL', () => {
  let host: Host
  let faults: ReturnType<typeof openFaults>
  let before: ReturnType<typeof snapshot>
  let first: string
  beforeEach(() => {
    host = openHost()
    faults = openFaults()
    before = snapshot(host)
    first = host.pod('first')
    expect(host.cni('ADD', pool, { id: 'first', netns: first })).toMatchObject({ code: 0 })
  })
  afterEach(() => {
    host.close()
    faults.close()
  })

  it.each(['ip', 'nft'] as const)('without %s owes what it cannot undo, and the next call settles it', (missing) => {
    const path = pathWithout(missing)
    const deleted = host.cni('DEL', pool, { id: 'first', netns: first, env: { PATH: path } })
    // The executable adds the system's own directories to PATH: there the tool is hidden too.
    const hidden = hide(missing)
    try {
      const again = host.cni('DEL', pool, { id: 'first', netns: first, env: { PATH: path } })
      expect([deleted.code, again.code]).toEqual([0, 0])
    } finally {
      hidden.show()
      rmSync(path, { recursive: true })
    }
    expect(host.cni('DEL', pool, { id: 'first', netns: '' }).code).toBe(0)
    expectNothingLeft(host, before)
  })

  it('that could not run its tools withholds address and port until a later call settles it', () => {
    const hidden = [hide('ip'), hide('nft')]
    try {
      const deleted = host.cni('DEL', pool, { id: 'first', netns: first })
      expect(deleted).toMatchObject({ code: 0, stdout: '' })
      expect(deleted.stderr).toContain('pending cleanup')
      expect(host.run('find', [stateOf(host, 'owing').directoryOf('addresses'), '-name', '10.96.0.2']).stdout).not.toBe(
        '',
      )
      expect(host.run('find', [stateFiles(host).ports, '-name', portName('tcp', 18082, 4, '*')]).stdout).not.toBe('')
      const again = host.cni('ADD', pool, { id: 'first', netns: first })
      expect(again.json).toMatchObject({
        code: 11,
        msg: expect.stringMatching(/what an earlier attachment of eth0 of container first left could not be removed/),
        details: expect.stringContaining('could not run nft'),
      })
    } finally {
      for (const each of hidden) each.show()
    }
    const second = host.cni('ADD', pool, { id: 'second', netns: host.pod('second') })
    expect(second, 'the later call settles, then has the port').toMatchObject({ code: 0 })
    expect(addressesOf(second)).toEqual(['10.96.0.3'])
    expect(host.cni('DEL', pool, { id: 'second' }).code).toBe(0)
    expectNothingLeft(host, before)
  })

  it('takes the other elements away when one of them is gone already', () => {
    const elements = host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout
    expect(elements).toContain('18082')
    const two = {
      ...pool,
      runtimeConfig: {
        portMappings: [18083, 18084, 18085].map((hostPort) => ({ hostPort, containerPort: 80, protocol: 'tcp' })),
      },
    }
    const netns = host.pod('two')
    expect(host.cni('ADD', two, { id: 'two', netns }).code).toBe(0)
    expect(host.run('nft', ['delete element inet trestle anyports4 { tcp . 18083 }']).code).toBe(0)
    expect(host.cni('DEL', two, { id: 'two', netns })).toMatchObject({ code: 0, stderr: '' })
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout).not.toMatch(/1808[345]/)
  })

  it.each(['ADD', 'DEL'] as const)(
    'and ADD end within the deadline when a tool hangs: %s',
    async (verb) => {
      faults.reset({ tool: verb === 'ADD' ? 'nsenter' : 'ip', nth: 1 }, { kind: 'hang' })
      const env = { PATH: faults.path, FAULT_INSIDE: '1' }
      const call = verb === 'ADD' ? { id: 'slow', netns: host.pod('slow'), env } : { id: 'first', netns: first, env }
      // A deadline counts from the call's own start, however late its configuration comes.
      const ended = await startLate(verb, call)
      expect(ended.tookMs).toBeLessThan(limitMs)
      if (verb === 'ADD') {
        expect(ended.json).toMatchObject({ code: 11, msg: expect.stringContaining('nsenter did not finish in time') })
      } else expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining('pending cleanup') })
      expect(host.cni('DEL', pool, { id: 'first', netns: first }).code).toBe(0)
      expectNothingLeft(host, before)
    },
    90_000,
  )

  /** A call whose configuration comes after a second. */
  async function startLate(verb: 'ADD' | 'DEL', call: Call) {
    const env = environment(verb, { ...call, env: { ...stateEnv(host), ...call.env } })
    const from = performance.now()
    const late = ['sh', '-c', '{ sleep 1; cat; } | "$0"', trestle]
    const options = { input: JSON.stringify(plain), env, extendEnv: false, reject: false, timeout: 60_000 } as const
    const { exitCode, stdout, stderr } = await execa('nsenter', [`--net=${host.path}`, '--', ...late], options)
    const json = stdout === '' ? undefined : (JSON.parse(stdout) as object)
    return { code: exitCode, stderr, json, tookMs: performance.now() - from - 1000 }
  }
})

/** A PATH with no tool in it but nsenter, which the harness needs. */
function pathWithout(tool: string): string {
  const directory = mkdtempSync(`${tmpdir()}/trestle-path-`)
  for (const other of ['ip', 'nft', 'nsenter', 'sysctl'].filter((each) => each !== tool)) {
    symlinkSync(execaSync('sh', ['-c', `command -v ${other}`]).stdout, `${directory}/${other}`)
  }
  return directory
}

/** Binds a file that cannot be run over the tool, in this mount namespace only. */
function hide(tool: string): { readonly show: () => void } {
  const file = execaSync('sh', ['-c', `readlink -f "$(command -v ${tool})"`]).stdout
  execaSync('mount', ['--bind', '/etc/hostname', file])
  return { show: () => execaSync('umount', [file]) }
}
