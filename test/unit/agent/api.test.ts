// SPDX-License-Identifier: Apache-2.0
// Where the API server is, what a request sends and bears, and how long the agent waits.

import { mkdirSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  addressOfServer,
  askApi,
  backoffMs,
  findServer,
  lineReader,
  openAccess,
  readApi,
} from '../../../src/agent/api.ts'
import { here, serve, useServers } from './api-server.ts'

useServers()

const caFile = '/var/run/secrets/kubernetes.io/serviceaccount/ca.crt'
const env = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' }
const settings = (more = {}) => ({
  tokenFile: '/token',
  kubeconfigs: ['/etc/kubelet.conf'],
  hostRoot: here.scratch,
  ...more,
})

/** The kubelet's, on the host. */
function writeKubeconfig(cluster: string): void {
  mkdirSync(`${here.scratch}/etc`)
  const text = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: ${cluster}}]
users: [{name: u, user: {client-certificate: /never.pem}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
  writeFileSync(`${here.scratch}/etc/kubelet.conf`, text)
}

describe('the API server', () => {
  it('is that of the options, then the kubelet’s, then the environment’s', () => {
    expect(findServer(settings(), env)).toEqual({ server: 'https://[fd00::1]:6443', source: 'environment', caFile })
    writeKubeconfig('{server: "https://10.0.0.1:6443", certificate-authority-data: Q0E=}')
    const kubeconfig = { server: 'https://10.0.0.1:6443', source: 'kubeconfig' }
    expect(findServer(settings(), env)).toEqual({ ...kubeconfig, caData: 'Q0E=' })
    expect(findServer(settings({ caFile: '/ca' }), env)).toEqual({ ...kubeconfig, caFile: '/ca' })
    const options = { server: 'https://api.example:6443/', caFile: '/ca' }
    expect(findServer(settings(options), env)).toEqual({
      server: 'https://api.example:6443',
      source: 'options',
      caFile: '/ca',
    })
  })

  it.each([
    ['{server: "https://10.0.0.1", certificate-authority: /etc/ca.crt}', '/etc/ca.crt'],
    ['{server: "https://10.0.0.1", certificate-authority: pki/ca.crt}', '/etc/pki/ca.crt'],
    ['{server: "https://10.0.0.1"}', undefined],
  ])('of the kubeconfig %s has its CA on the host', (cluster, file) => {
    writeKubeconfig(cluster)
    const found = { server: 'https://10.0.0.1', source: 'kubeconfig' }
    expect(findServer(settings(), env)).toEqual({
      ...found,
      caFile: file === undefined ? caFile : `${here.scratch}${file}`,
    })
  })

  it('gets the token over TLS or not off the node', () => {
    const ask = (server: string) => findServer(settings({ server }), {})
    for (const server of ['http://127.0.0.1:8001', 'http://[::1]:8001', 'http://localhost:8001'])
      expect(ask(server)).toEqual({ server, source: 'options' })
    for (const refused of ['http://10.0.0.1:6443', 'ftp://127.0.0.1', 'nonsense', 'http://127.0.0.1.example'])
      expect(ask(refused)).toEqual(expect.any(String))
    expect(findServer(settings(), {})).toMatch(/KUBERNETES_SERVICE_HOST/)
    expect(() => openAccess(settings(), {})).toThrow(expect.objectContaining({ code: 50, id: 'api-server-unknown' }))
  })

  it.each([
    ['https://10.0.0.1:6443', '10.0.0.1'],
    ['https://[fd00::1]:6443', 'fd00::1'],
    ['https://api.example:6443', undefined],
    ['', undefined],
  ])('%s has the address %s', (server, text) => {
    expect(addressOfServer(server)?.text).toBe(text)
  })
})

describe('a request', () => {
  it('carries the token without a line break, and JSON', async () => {
    const seen: (string | undefined)[] = []
    const open = await serve(async (request, response) => {
      seen.push(request.method, request.headers.authorization, request.headers['content-type'])
      for await (const chunk of request) seen.push(`${chunk}`)
      response.end('{"kind":"Event"}')
    })
    expect(await askApi(open(), { method: 'POST', path: '/events', body: { count: 1 } })).toEqual({ kind: 'Event' })
    expect(seen).toEqual(['POST', 'Bearer token', 'application/json', '{"count":1}'])
  })

  it('that is refused says why, and how long to wait', async () => {
    const open = await serve((_, response) => {
      response.writeHead(429, { 'Retry-After': '7' }).end('{"message":"too\\nmany requests"}')
    })
    await expect(askApi(open(), { method: 'GET', path: '/x?limit=1' })).rejects.toMatchObject({
      ...{ name: 'ApiError', message: 'GET /x: 429 too many requests', status: 429, retryAfterMs: 7000 },
    })
  })

  it('ends at its deadline, after a silence, and with an error of whoever reads', async () => {
    const open = await serve((_, response) => void response.write('x'))
    const asked = { method: 'GET', path: '/x' } as const
    const read = (more: object, onChunk = (): void => undefined) =>
      readApi(open(), asked, { onChunk, silenceMs: 5000, ...more })
    await expect(read({ deadlineMs: 50 })).rejects.toThrow('GET /x: ')
    await expect(read({ silenceMs: 50 })).rejects.toThrow('nothing came for 0.05 s')
    const failing = () => {
      throw new RangeError('too long')
    }
    await expect(read({}, failing)).rejects.toMatchObject({ name: 'ApiError', message: 'GET /x: too long' })
  })
})

describe('lineReader', () => {
  it('hands on each line, wherever the chunks end', () => {
    const text = Buffer.from('{"a":"ä"}\n\n{"b":2}\n{"c"')
    for (let size = 1; size <= text.length; size++) {
      const lines: unknown[] = []
      const read = lineReader((line) => lines.push(line))
      for (let at = 0; at < text.length; at += size) read(text.subarray(at, at + size))
      expect(lines).toEqual([{ a: 'ä' }, { b: 2 }])
    }
  })
})

it('backoffMs doubles up to half a minute, spread by chance, and heeds Retry-After within reason', () => {
  expect([0, 1, 3, 50].map((failures) => backoffMs(failures, 1))).toEqual([500, 1000, 4000, 30_000])
  expect(backoffMs(1, 0)).toBe(500)
  expect(backoffMs(0, 0, 5000)).toBe(5000)
  expect(backoffMs(0, 0, 3_600_000)).toBe(60_000)
})
