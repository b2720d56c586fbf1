// SPDX-License-Identifier: Apache-2.0
// Where the API server is, what a request sends and bears, and how long the agent waits.

import { mkdirSync, writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { addressOfServer, askApi, backoffMs, findServer, linesOf, openAccess, readApi } from '../../../src/agent/api.ts'
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

  it('that is refused says why', async () => {
    const open = await serve((_, response) => {
      response.writeHead(429).end('{"message":"too\\nmany requests"}')
    })
    await expect(askApi(open(), { method: 'GET', path: '/x?limit=1' })).rejects.toMatchObject({
      ...{ name: 'ApiError', message: 'GET /x: 429 too many requests', status: 429 },
    })
  })

  it('ends at its deadline, after a silence, with the signal, and where the answer breaks off', async () => {
    const open = await serve((_, response) => void response.write('x'))
    const read = async (more: object, path = '/x') => {
      for await (const piece of readApi(open(), { method: 'GET', path }, { silenceMs: 5000, ...more }))
        expect(piece).toBe('x')
    }
    await expect(read({ deadlineMs: 50 })).rejects.toThrow('GET /x: ')
    await expect(read({ silenceMs: 50 })).rejects.toThrow('GET /x: nothing came for 0.05 s')
    const end = new AbortController()
    setTimeout(() => end.abort(new Error('the agent ends')), 50)
    await expect(read({ signal: end.signal })).rejects.toThrow('GET /x: the agent ends')
    const cut = await serve((_, response) => {
      response.write('x', () => response.destroy())
    })
    const all = readApi(cut(), { method: 'GET', path: '/y' }, { silenceMs: 5000 })
    expect(await all.next()).toMatchObject({ value: 'x' })
    await expect(all.next()).rejects.toMatchObject({
      name: 'ApiError',
      status: 0,
      message: expect.stringMatching(/^GET .y: /),
    })
  })
})

describe('linesOf', () => {
  it('hands on each line, wherever the pieces end', async () => {
    const text = '{"a":"ä"}\n\n{"b":2}\n{"c"'
    for (let size = 1; size <= text.length; size++) {
      const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, at) =>
        text.slice(at * size, (at + 1) * size),
      )
      const lines: string[] = []
      for await (const line of linesOf(Readable.from(pieces))) lines.push(line)
      expect(lines).toEqual(['{"a":"ä"}', '{"b":2}'])
    }
  })
})

it('backoffMs doubles up to half a minute, spread by chance', () => {
  expect([0, 1, 3, 50].map((failures) => backoffMs(failures, 1))).toEqual([500, 1000, 4000, 30_000])
  expect(backoffMs(1, 0)).toBe(500)
})
