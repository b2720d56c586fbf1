// SPDX-License-Identifier: Apache-2.0
// Access to the API server: address and CA by `apiServer` below, identity from the ServiceAccount alone. The
// kubelet's credentials have no right to list nodes.

import { readFileSync } from 'node:fs'
import type { RequestOptions } from 'node:https'
import { dirname, isAbsolute, resolve } from 'node:path'
import { KubeConfig } from '@kubernetes/client-node'
import { type Address, parseAddress } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import { type AccessSettings, serviceAccountDir } from './settings.ts'

/** A client's configuration, and the source of the API server's address. */
export interface Access {
  readonly config: KubeConfig
  readonly found: ApiServer
  /** Adds token and CA to the options of a request. All requests of this access may share a connection. */
  readonly connect: (options: RequestOptions) => Promise<RequestOptions>
}

/**
 * Reads all files again: the token may have been rotated, the kubelet may use another server. Throws CniError 50
 * without an address.
 */
export function openAccess(settings: AccessSettings, env = process.env): Access {
  const found = apiServer(sourcesOf(settings, env))
  if (typeof found === 'string')
    throw new CniError('api-server-unknown', 'the API server cannot be found', {
      details: `${found}; name it with --api-server and --ca-file`,
    })
  const config = new KubeConfig()
  const { server, caFile, caData } = found
  const ca = { ...(caFile ? { caFile } : {}), ...(caData ? { caData } : {}) }
  // The library requires skipTLSVerify for plain HTTP, which is allowed to loopback alone.
  const cluster = { name: 'cluster', server, skipTLSVerify: server.startsWith('http:'), ...ca }
  // The library reads the file again when its copy is a minute old.
  const authProvider = { name: 'tokenFile', config: { tokenFile: settings.tokenFile } }
  config.loadFromOptions({
    clusters: [cluster],
    users: [{ name: 'agent', authProvider }],
    contexts: [{ name: 'agent', cluster: 'cluster', user: 'agent' }],
    currentContext: 'agent',
  })
  return { config, found, connect: connector(config, server.startsWith('http:')) }
}

function connector(config: KubeConfig, isPlain: boolean): Access['connect'] {
  let shared: RequestOptions['agent']
  return async (asked) => {
    // Where nothing is said, Node goes by NODE_TLS_REJECT_UNAUTHORIZED of its environment.
    const options: RequestOptions = { ...asked, rejectUnauthorized: true }
    await config.applyToHTTPSOptions(options)
    // The library makes a new https agent for each request, with a handshake for each page; node:http refuses that
    // agent.
    const { agent, ...plain } = options
    const sent = { ...plain, headers: withoutLineEnd(plain.headers) }
    if (isPlain) return sent
    shared ??= agent
    return { ...sent, ...(shared === undefined ? {} : { agent: shared }) }
  }
}

/** `kubectl create token` prints a line break, which node:http refuses in a header. */
function withoutLineEnd(headers: RequestOptions['headers']): RequestOptions['headers'] {
  const { Authorization: token, ...others } = { ...headers } as Record<string, unknown>
  return { ...others, ...(typeof token === 'string' ? { Authorization: token.trimEnd() } : {}) } as typeof headers
}

function sourcesOf({ server, caFile, kubeconfigs, hostRoot }: AccessSettings, env: NodeJS.ProcessEnv): ApiSources {
  const kubeconfig = kubeconfigs.map((file) => clusterOf(file, hostRoot)).find((cluster) => cluster !== undefined)
  const [host, port] = [env['KUBERNETES_SERVICE_HOST'], env['KUBERNETES_SERVICE_PORT']]
  return {
    flags: { ...(server === undefined ? {} : { server }), ...(caFile === undefined ? {} : { caFile }) },
    ...(kubeconfig === undefined ? {} : { kubeconfig }),
    environment: { ...(host ? { host } : {}), ...(port ? { port } : {}), caFile: `${serviceAccountDir}/ca.crt` },
  }
}

/** Address and CA of a kubeconfig's current cluster, with paths of the host; undefined without a file or a cluster. */
function clusterOf(file: string, hostRoot: string): ApiSources['kubeconfig'] {
  try {
    const config = new KubeConfig()
    config.loadFromString(readFileSync(`${hostRoot}${file}`, 'utf8'))
    const cluster = config.getCurrentCluster()
    if (cluster === null || !cluster.server) return undefined
    const { server, caFile, caData } = cluster
    // Like kubectl: a relative path begins at the kubeconfig's directory.
    const path = caFile && resolve(`${hostRoot}${dirname(file)}`, isAbsolute(caFile) ? `${hostRoot}${caFile}` : caFile)
    return { server, ...(path ? { caFile: path } : {}), ...(caData ? { caData } : {}) }
  } catch {
    return undefined
  }
}

// Where the API server is, found without Service, DNS or kube-proxy: what is given, else what the kubelet uses, else
// what the pod's environment says.

/** `server`: a URL without a path. `caFile` or `caData` (base64): who signed its certificate; neither for http. */
interface ApiServer {
  readonly server: string
  readonly caFile?: string
  readonly caData?: string
  /** Which of the three told, for the log. */
  readonly source: 'flags' | 'kubeconfig' | 'environment'
}

/** What each of the three says. `kubeconfig`: the cluster of the kubelet's kubeconfig, never its user. */
interface ApiSources {
  readonly flags: { readonly server?: string; readonly caFile?: string }
  readonly kubeconfig?: { readonly server: string; readonly caFile?: string; readonly caData?: string }
  readonly environment: { readonly host?: string; readonly port?: string; readonly caFile: string }
}

/** The API server, or in words why there is none to be found. */
export function apiServer({ flags, kubeconfig, environment }: ApiSources): ApiServer | string {
  if (flags.server !== undefined) {
    const caFile = flags.caFile ?? environment.caFile
    return checked({ server: flags.server, caFile, source: 'flags' })
  }
  if (kubeconfig !== undefined) {
    const ca = flags.caFile === undefined ? kubeconfig : { caFile: flags.caFile }
    const { caFile, caData } = { caFile: undefined, caData: undefined, ...ca }
    const known = caData === undefined ? { caFile: caFile ?? environment.caFile } : { caData }
    return checked({ server: kubeconfig.server, ...known, source: 'kubeconfig' })
  }
  const { host, port = '443', caFile } = environment
  if (host === undefined) return 'no --api-server, no kubeconfig of a kubelet, and KUBERNETES_SERVICE_HOST is not set'
  const name = parseAddress(host)?.family === 6 ? `[${host}]` : host
  return checked({ server: `https://${name}:${port}`, caFile: flags.caFile ?? caFile, source: 'environment' })
}

/** The address of a server, where its URL has one and no name. */
export function addressOf(server = ''): Address | undefined {
  return URL.canParse(server) ? parseAddress(new URL(server).hostname.replace(/^\[|\]$/g, '')) : undefined
}

/** The token goes over TLS, or does not leave the node. */
function checked(found: ApiServer): ApiServer | string {
  const url = URL.canParse(found.server) ? new URL(found.server) : undefined
  if (url === undefined) return `${JSON.stringify(found.server)} (${found.source}) is no URL`
  const server = url.origin
  if (url.protocol === 'https:') return { ...found, server }
  const isLocal = ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname)
  if (url.protocol !== 'http:' || !isLocal) return `${found.server} (${found.source}): only https, or http to loopback`
  return { server, source: found.source }
}
