// SPDX-License-Identifier: Apache-2.0
// Asking a runtime behind a socket: a server in this process answers as containerd, CRI-O do.
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Server, ServerCredentials, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { askCrio, askSocket } from '../../../../src/commands/runtimes/ask-runtime.ts'
import { bool, encode, many, one, string, stringMap } from '../../../support/cri/wire.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'trestle-ask-'))
})
afterEach(() => rm(dir, { recursive: true }))

/** k8s.io/cri-api, pkg/apis/runtime/v1/api.proto. */
const version = { runtimeName: string(2) }
const condition = { type: string(1), status: bool(2), reason: string(3), message: string(4) }
const statusAnswer = { status: one(1, { conditions: many(1, condition) }), info: stringMap(2) }

const asIs = (bytes: Buffer): Buffer => bytes

/** Serves CRI's Version and Status with these answers; `undefined`: switched off. */
async function serve(runtimeName: string | undefined, info: Record<string, string> = {}): Promise<() => void> {
  const conditions = [{ type: 'NetworkReady', status: false, reason: 'r', message: 'cni plugin not initialized' }]
  const answers = {
    Version: encode(version, { runtimeName: runtimeName ?? '' }),
    Status: encode(statusAnswer, { status: { conditions }, info }),
  }
  const server = new Server()
  const method = (name: keyof typeof answers) => ({
    path: `/runtime.v1.RuntimeService/${name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  })
  if (runtimeName !== undefined) {
    server.addService(
      { Version: method('Version'), Status: method('Status') },
      {
        Version: (_: unknown, reply: (error: null, value: Buffer) => void) => reply(null, Buffer.from(answers.Version)),
        Status: (_: unknown, reply: (error: null, value: Buffer) => void) => reply(null, Buffer.from(answers.Status)),
      },
    )
  }
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${join(dir, 'r.sock')}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    )
  })
  return () => server.forceShutdown()
}

const ask = () => askSocket(join(dir, 'r.sock'), 5000)

describe('asking over CRI', () => {
  it('gets the directories that containerd runs with, and that it is not ready', async () => {
    const cni = { binDir: '', binDirs: ['/usr/lib/cni'], confDir: '/etc/cni/other.d', maxConfNum: 1 }
    const close = await serve('containerd', {
      config: JSON.stringify({ cni }),
    })
    expect(await ask()).toEqual({
      runtime: 'containerd',
      answer: {
        settings: { confDir: '/etc/cni/other.d', binDirs: ['/usr/lib/cni'], maxConfNum: 1 },
        source: 'CRI Status',
      },
      notReady: 'cni plugin not initialized',
    })
    close()
  })

  it('throws where CRI is switched off', async () => {
    const close = await serve(undefined)
    await expect(ask()).rejects.toMatchObject({ code: status[status.UNIMPLEMENTED] })
    close()
  })
})

describe('asking CRI-O over HTTP', () => {
  async function answers(code: number, text: string): Promise<unknown> {
    const socket = join(dir, 'crio.sock')
    const seen: (string | undefined)[] = []
    const server = createServer((request, response) => {
      seen.push(request.url)
      response.writeHead(code).end(text)
    })
    await new Promise<void>((resolve) => server.listen(socket, resolve))
    const answer = await askCrio(socket, 5000)
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    expect(seen).toEqual(['/config'])
    return answer
  }

  it('gets the settings it runs with', async () => {
    const text = '[crio]\n  [crio.network]\n    network_dir = "/etc/cni/crio.d/"\n    plugin_dirs = ["/opt/cni/bin/"]\n'
    expect(await answers(200, text)).toEqual({ confDir: '/etc/cni/crio.d', binDirs: ['/opt/cni/bin'] })
  })

  it.each([
    [404, '404 page not found'],
    [200, 'no TOML ='],
  ])('has no answer in %i %s', async (code, text) => {
    expect(await answers(code, text)).toBeUndefined()
  })

  it('has none where nobody listens', async () => {
    expect(await askCrio(join(dir, 'none.sock'), 500)).toBeUndefined()
  })
})
