// SPDX-License-Identifier: Apache-2.0
// `trestle gc` beside calls of the runtime: what is on its way is not told as lost, and not taken.

import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { livingStamp, makeOld, rewrite, startedLongAgo, until } from '../../support/faults/process-identities.ts'
import { type Host, openHost } from '../../support/host.ts'
import { startCni, startCommand } from '../../support/locks/parallel.ts'
import { expectSilent } from '../../support/outcome.ts'
import { stateOf } from '../../support/state-layout.ts'
import { gateAt } from '../../support/tool.ts'
import { attach, netConf } from '../../support/traffic/pods.ts'

const withPort = netConf({
  runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] },
})

describe('gc beside another call', () => {
  let host: Host
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  it.each(['ADD', 'DEL'] as const)(
    'has nothing to say of reservations that %s beside it makes or gives back',
    async (verb) => {
      const { call, netns } = attach(host, withPort, { id: 'c1' })
      // Without any link of ours there is nothing to look at.
      attach(host, netConf(), { id: 'c0' })
      if (verb === 'ADD') expectSilent(host.cni('DEL', withPort, call))
      const looking = gateAt('ip')
      try {
        const collecting = startCommand(host, ['gc', '--no-runtime'], looking.env)
        await until('gc looks at the links', looking.isReached)
        expect((await startCni(host, verb, { conf: withPort, id: 'c1', netns })).code).toBe(0)
        looking.open()
        const { code, stdout } = await collecting
        expect(code, stdout).toBe(0)
      } finally {
        looking.close()
      }
    },
  )

  it('leaves a reservation alone that was nobody’s when it looked, and is a new ADD’s by now', async () => {
    const state = stateOf(host, 'net')
    const [dead] = [attach(host, withPort, { id: 'dead' }), attach(host, netConf(), { id: 'c1' })]
    rewrite(state.finished('dead'), (record) => {
      const writer = { ...(record['writer'] as object), startTime: startedLongAgo }
      return { ...record, writer, createdAt: '2020-01-01T00:00:00.000Z' }
    })
    host.removePod(dead.netns)
    const address = state.address('10.240.0.77')
    writeFileSync(address, 'no record')
    makeOld(address)
    const gate = gateAt('nft', 'delete element')
    try {
      const collecting = startCommand(host, ['gc', '--no-runtime', '--apply'], gate.env)
      await until('gc collects the dead pod', gate.isReached)
      // As an ADD has it before it writes down what it makes.
      const { spec: _, ...intent } = JSON.parse(readFileSync(state.finished('c1'), 'utf8'))
      const id = { ...intent.id, containerId: 'new' }
      writeFileSync(state.pending('new'), JSON.stringify({ ...intent, id, writer: livingStamp() }))
      rmSync(address)
      linkSync(state.pending('new'), address)
      gate.open()
      expect((await collecting).stdout).toContain('10.240.0.77')
      expect(state.names('addresses')).toContain('10.240.0.77')
    } finally {
      gate.close()
    }
  })
})
