// SPDX-License-Identifier: Apache-2.0
// What the CRI client says when there is no runtime behind the socket, or one that does not answer.
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CriError, openRuntime } from '../../../../src/commands/runtimes/cri.ts'

describe('CRI client', () => {
  let dir: string
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'trestle-cri-'))
  })
  afterEach(() => rm(dir, { recursive: true }))

  /** The error of one Version call. */
  async function failure(socket: string): Promise<unknown> {
    const cri = openRuntime(socket, 500)
    const error = await cri.call('Version').catch((thrown: unknown) => thrown)
    cri.close()
    return error
  }

  it('names the call and the socket that is not there', async () => {
    const socket = join(dir, 'absent.sock')
    const error = await failure(socket)
    expect(error).toBeInstanceOf(CriError)
    expect(error).toMatchObject({ code: 'UNAVAILABLE', method: 'Version' })
    expect(String(error)).toContain(socket)
  })

  it('gives up at its deadline when nobody answers', async () => {
    const socket = join(dir, 'silent.sock')
    const open: Socket[] = []
    const server = createServer((connection) => open.push(connection)).listen(socket)
    const startMs = performance.now()
    expect(await failure(socket)).toMatchObject({ code: 'DEADLINE_EXCEEDED' })
    expect(performance.now() - startMs).toBeLessThan(3000)
    for (const connection of open) connection.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
})
