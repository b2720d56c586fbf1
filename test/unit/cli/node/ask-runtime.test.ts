// SPDX-License-Identifier: Apache-2.0
// Asking a runtime behind a socket: a server in this process answers as containerd, CRI-O do.
import fs from 'node:fs'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { askCrio } from '../../../../src/commands/runtimes/ask-runtime.ts'
import { nodeRuntimes, socketsAt } from '../../../../src/commands/runtimes/node-runtimes.ts'
import { bool, encode, many, one, string, stringMap } from '../../../support/cri/wire.ts'

let dir: string
let socket: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'trestle-ask-'))
  socket = join(dir, 'r.sock')
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
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    )
  })
  return () => server.forceShutdown()
}

const ask = () => nodeRuntimes({ timeoutMs: 5000, endpoint: `unix://${socket}` })
const settings = { confDir: '/etc/cni/net.d', binDirs: ['/opt/cni/bin'] }

describe('asking over CRI', () => {
  it('gets the directories that containerd runs with, and that it is not ready', async () => {
    const cni = { binDir: '', binDirs: ['/usr/lib/cni'], confDir: '/etc/cni/other.d', maxConfNum: 1 }
    const close = await serve('containerd', {
      config: JSON.stringify({ cni }),
    })
    const told = { confDir: '/etc/cni/other.d', binDirs: ['/usr/lib/cni'], maxConfNum: 1 }
    const notReady = 'cni plugin not initialized'
    expect(await ask()).toEqual([{ runtime: 'containerd', socket, settings: told, source: 'CRI Status', notReady }])
    close()
  })

  it('has the usual directories where the runtime does not tell them, or does not answer', async () => {
    const close = await serve('cri-o')
    expect(await ask()).toMatchObject([{ runtime: 'CRI-O', settings, source: 'the defaults' }])
    close()
    const silent = expect.stringContaining('UNAVAILABLE')
    expect(await ask()).toEqual([{ runtime: 'containerd', socket, settings, source: 'the defaults', silent }])
  })

  it('finds no runtime where CRI is switched off', async () => {
    const close = await serve(undefined)
    expect(await ask()).toEqual([])
    close()
  })
})

it("asks crictl's sockets, by its variable and its file, each once", async () => {
  const close = await serve(undefined)
  await symlink(socket, join(dir, 'link.sock'))
  const { readFileSync } = fs
  let written = ''
  vi.spyOn(fs, 'readFileSync').mockImplementation((path, options) => {
    return path === '/etc/crictl.yaml' ? written : readFileSync(path, options)
  })
  syncBuiltinESMExports()
  const found = () => socketsAt(undefined).filter((path) => path.startsWith(dir))
  try {
    vi.stubEnv('CONTAINER_RUNTIME_ENDPOINT', `unix://${socket}`)
    expect(found()).toEqual([socket])
    written = `timeout: 2\nruntime-endpoint: "unix://${dir}/link.sock"\n`
    expect(found()).toEqual([socket])
    vi.stubEnv('CONTAINER_RUNTIME_ENDPOINT', undefined)
    expect(found()).toEqual([join(dir, 'link.sock')])
  } finally {
    vi.unstubAllEnvs()
    vi.restoreAllMocks()
    syncBuiltinESMExports()
    close()
  }
})

describe('asking CRI-O over HTTP', () => {
  async function answers(code: number, text: string): Promise<unknown> {
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
