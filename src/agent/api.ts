// SPDX-License-Identifier: Apache-2.0
// Requests to the API server, each with a deadline and a bound on its answer. Address and CA come from the options, else
// from the kubelet's kubeconfig, else from the pod's environment; the identity is the ServiceAccount's alone, since the
// kubelet's credentials have no right to list nodes. Neither Service nor DNS nor kube-proxy is needed.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'
import { dirname, isAbsolute, resolve } from 'node:path'
import { KubeConfig } from '@kubernetes/client-node'
import { CniError, Code } from '../cni/errors.ts'
import { defined, parseObject } from '../cni/json.ts'
import { type NodeAddress, parseAddress } from './node-ranges.ts'
import { type AccessSettings, serviceAccountDirectory } from './settings.ts'

export interface Access {
  /** The URL without a path. */
  readonly server: string
  /** Which of the three told, for the log. */
  readonly source: 'options' | 'kubeconfig' | 'environment'
  /** Adds token and CA to the options of a request. All requests of this access may share a connection. */
  readonly connect: (options: https.RequestOptions) => Promise<https.RequestOptions>
}

type FoundServer = Pick<Access, 'server' | 'source'> & { readonly caFile?: string; readonly caData?: string }

/**
 * Reads all files again: the token may have been rotated, the kubelet may use another server. Throws CniError 50
 * without an address.
 */
export function openAccess(settings: AccessSettings, env = process.env): Access {
  const found = findServer(settings, env)
  if (typeof found === 'string')
    throw new CniError(Code.notAvailable, 'api-server-unknown', 'the API server cannot be found', {
      details: `${found}; name it with --api-server and --ca-file`,
    })
  const { server, source, caFile, caData } = found
  const isPlain = server.startsWith('http:')
  const config = new KubeConfig()
  // The library wants skipTLSVerify for plain HTTP, and reads the token again when its copy is a minute old.
  config.loadFromOptions({
    clusters: [{ name: 'cluster', server, skipTLSVerify: isPlain, ...defined({ caFile, caData }) }],
    users: [{ name: 'agent', authProvider: { name: 'tokenFile', config: { tokenFile: settings.tokenFile } } }],
    contexts: [{ name: 'agent', cluster: 'cluster', user: 'agent' }],
    currentContext: 'agent',
  })
  let shared: https.RequestOptions['agent']
  const connect: Access['connect'] = async (asked) => {
    // Where nothing is said, Node goes by NODE_TLS_REJECT_UNAUTHORIZED of its environment.
    const options: https.RequestOptions = { ...asked, rejectUnauthorized: true }
    await config.applyToHTTPSOptions(options)
    // The library makes a new https agent for each request; node:http refuses that agent.
    const { agent, ...plain } = options
    const { Authorization: token, ...others } = { ...plain.headers } as Record<string, unknown>
    // `kubectl create token` prints a line break, which node:http refuses in a header.
    const headers = { ...others, ...(typeof token === 'string' ? { Authorization: token.trimEnd() } : {}) }
    const sent = { ...plain, headers: headers as https.RequestOptions['headers'] }
    if (isPlain) return sent as https.RequestOptions
    shared ??= agent
    return { ...sent, ...defined({ agent: shared }) } as https.RequestOptions
  }
  return { server, source, connect }
}

/** The API server, or in words why there is none. A token goes over TLS, or does not leave the node. */
export function findServer(settings: AccessSettings, env: NodeJS.ProcessEnv): FoundServer | string {
  const found = configuredServer(settings, env)
  if (found === undefined) return 'no --api-server, no kubeconfig of a kubelet, and KUBERNETES_SERVICE_HOST is not set'
  const { server, source } = found
  if (!URL.canParse(server)) return `${JSON.stringify(server)} (${source}) is no URL`
  const { origin, protocol, hostname } = new URL(server)
  if (protocol === 'https:') return { ...found, server: origin }
  const isLocal = ['127.0.0.1', '[::1]', 'localhost'].includes(hostname)
  if (protocol === 'http:' && isLocal) return { server: origin, source }
  return `${server} (${source}): only https, or http to loopback`
}

function configuredServer(settings: AccessSettings, env: NodeJS.ProcessEnv): FoundServer | undefined {
  const { server, caFile, kubeconfigs, hostRoot } = settings
  const mounted = `${serviceAccountDirectory}/ca.crt`
  if (server !== undefined) return { server, source: 'options', caFile: caFile ?? mounted }
  for (const file of kubeconfigs) {
    const cluster = clusterOf(file, hostRoot)
    if (cluster === undefined) continue
    const ca = caFile === undefined ? cluster : { caFile }
    const hasCa = 'caData' in ca || ca.caFile !== undefined
    return { server: cluster.server, source: 'kubeconfig', ...(hasCa ? ca : { caFile: mounted }) } as FoundServer
  }
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = env
  if (!host) return undefined
  const name = host.includes(':') ? `[${host}]` : host
  return { server: `https://${name}:${port}`, source: 'environment', caFile: caFile ?? mounted }
}

/** Address and CA of a kubeconfig's current cluster, with paths of the host; undefined without a file or a cluster. */
function clusterOf(file: string, hostRoot: string) {
  try {
    const config = new KubeConfig()
    config.loadFromString(readFileSync(`${hostRoot}${file}`, 'utf8'))
    const cluster = config.getCurrentCluster()
    if (!cluster?.server) return undefined
    const { server, caFile, caData } = cluster
    // As with kubectl a relative path begins at the kubeconfig's directory.
    const path = caFile && resolve(`${hostRoot}${dirname(file)}`, isAbsolute(caFile) ? `${hostRoot}${caFile}` : caFile)
    return { server, ...defined({ caData: caData || undefined, caFile: caData ? undefined : path || undefined }) }
  } catch {
    return undefined
  }
}

/** The address in the server's URL, which may have a name instead. */
export function addressOfServer(server: string): NodeAddress | undefined {
  return URL.canParse(server) ? parseAddress(new URL(server).hostname.replace(/^\[|\]$/g, '')) : undefined
}

/** `body` is sent as JSON, of the media type `type`. */
interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly body?: unknown
  readonly type?: string
}

/** A failed request. `status`: 0 without an answer. */
export class ApiError extends Error {
  readonly status: number
  constructor(message: string, status = 0) {
    super(message)
    this.name = 'ApiError'
    this.status = status
  }
}

/** Bounds on a request. */
interface Bounds {
  /** The longest silence, in milliseconds; `deadlineMs`: of the whole request. */
  readonly silenceMs: number
  readonly deadlineMs?: number
  readonly signal?: AbortSignal
}

const deadlineMs = 20_000

/** Of an answer or a line: above any object, since etcd takes 1.5 MiB (--max-request-bytes). */
const mostCharacters = 32 * 1024 * 1024

/**
 * A watch sends nothing, so only the kernel notices a vanished server or a forgotten connection of a load balancer:
 * after this time it probes ten times, a second apart (libuv, uv__tcp_keepalive), and ends the connection.
 */
const keepAliveMs = 15_000

/** The answer's JSON. Throws ApiError. */
export async function askApi(
  access: Access,
  request: ApiRequest,
  bounds: Bounds = { silenceMs: deadlineMs, deadlineMs },
): Promise<unknown> {
  const text = await wholeOf(readApi(access, request, bounds))
  try {
    return JSON.parse(text)
  } catch {
    throw new ApiError(`${request.method} ${request.path}: the answer is no JSON`)
  }
}

/** A good answer's text, in pieces as they come. Throws ApiError. */
export async function* readApi(access: Access, request: ApiRequest, bounds: Bounds): AsyncGenerator<string> {
  const { method, path, body, type = 'application/json' } = request
  const url = new URL(`${access.server}${path}`)
  const text = body === undefined ? undefined : JSON.stringify(body)
  const headers = { Accept: 'application/json', ...(text === undefined ? {} : { 'Content-Type': type }) }
  const silent = new AbortController()
  const tooLong = new Error(`nothing came for ${bounds.silenceMs / 1000} s`)
  const timer = setTimeout(() => silent.abort(tooLong), bounds.silenceMs)
  const deadline = bounds.deadlineMs === undefined ? undefined : AbortSignal.timeout(bounds.deadlineMs)
  const signal = AbortSignal.any([silent.signal, bounds.signal, deadline].filter((each) => each !== undefined))
  let cause: unknown
  try {
    const sent = (url.protocol === 'http:' ? http : https).request(url, {
      ...(await access.connect({ method, headers })),
      signal,
    })
    sent.on('socket', (socket) => socket.setKeepAlive(true, keepAliveMs))
    // Where the answer is read says only that it broke off.
    sent.on('error', (error) => {
      cause ??= error
    })
    sent.end(text)
    const [response] = (await once(sent, 'response')) as [http.IncomingMessage]
    response.setEncoding('utf8')
    const { statusCode = 0 } = response
    if (statusCode < 200 || statusCode > 299)
      throw new ApiError(`${method} ${url.pathname}: ${statusCode} ${reason(await wholeOf(response))}`, statusCode)
    for await (const piece of response) {
      timer.refresh()
      yield piece as string
    }
  } catch (error) {
    if (error instanceof ApiError) throw error
    const { message } = (signal.reason ?? cause ?? error) as Error
    throw new ApiError(`${method} ${url.pathname}: ${message}`)
  } finally {
    clearTimeout(timer)
  }
}

async function wholeOf(pieces: AsyncIterable<string>): Promise<string> {
  let text = ''
  for await (const piece of pieces) {
    text += piece
    if (text.length > mostCharacters) throw new ApiError(`an answer of more than ${mostCharacters} characters`)
  }
  return text
}

/** The lines of a watch, each a JSON document. Throws ApiError for a long one. */
export async function* linesOf(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const piece of pieces) {
    const lines = `${rest}${piece}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > mostCharacters) throw new ApiError(`more than ${mostCharacters} characters in one line`)
    for (const line of lines) if (line.trim() !== '') yield line
  }
}

/** The message of a Status, on one line. */
function reason(answer: string): string {
  const message = parseObject(answer)?.['message']
  return typeof message === 'string' ? message.replace(/\s+/g, ' ').slice(0, 300) : ''
}

// How long to wait before the API server is asked again. Thousands of agents ask one server: none in step with others.

const firstMs = 500
const longestMs = 30_000

/** Milliseconds to wait after `failures` failures in a row. `chance`: 0 to 1. */
export function backoffMs(failures: number, chance: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(failures, 16)) * (0.5 + chance / 2)
}
