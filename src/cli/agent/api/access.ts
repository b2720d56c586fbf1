// SPDX-License-Identifier: Apache-2.0
// Access to the API server: address and CA by plan/agent/access.ts, identity from the ServiceAccount alone. The
// kubelet's credentials have no right to list nodes.

import { readFileSync } from 'node:fs'
import type { RequestOptions } from 'node:https'
import { dirname, isAbsolute, resolve } from 'node:path'
import { KubeConfig } from '@kubernetes/client-node'
import { CniError } from '../../../cni/model/error.ts'
import { type ApiServer, type ApiSources, apiServer } from '../../../plan/agent/access.ts'
import { type AccessSettings, serviceAccountDir } from '../settings/settings.ts'

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
