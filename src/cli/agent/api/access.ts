// SPDX-License-Identifier: Apache-2.0
// How the API server is reached: address and CA as plan/agent/access.ts decides, identity from the ServiceAccount
// alone. The kubelet's credentials are not used: they may not list nodes.

import { readFileSync } from 'node:fs'
import type { RequestOptions } from 'node:https'
import { dirname, isAbsolute, resolve } from 'node:path'
import { KubeConfig } from '@kubernetes/client-node'
import { CniError } from '../../../cni/model/error.ts'
import { type ApiServer, type ApiSources, apiServer } from '../../../plan/agent/access.ts'
import { type AccessSettings, serviceAccountDir } from '../settings/settings.ts'

/** A client's configuration, and where the API server was found. */
export interface Access {
  readonly config: KubeConfig
  readonly found: ApiServer
  /** Adds token and CA to the options of a request. All requests of this access may share a connection. */
  readonly connect: (options: RequestOptions) => Promise<RequestOptions>
}

/**
 * Reads everything anew: a token that was rotated, a kubelet that talks to another server by now. Throws CniError 50
 * where there is no address.
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
  // Without TLS, which is for loopback alone, there is nothing to verify, and the library wants to be told so.
  const cluster = { name: 'cluster', server, skipTLSVerify: server.startsWith('http:'), ...ca }
  // The library reads the file again when what it has is a minute old.
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
    // The library makes an agent of https each time: one handshake for each page of a list. http refuses such a one.
    const { agent, ...plain } = options
    const sent = { ...plain, headers: withoutLineEnd(plain.headers) }
    if (isPlain) return sent
    shared ??= agent
    return { ...sent, ...(shared === undefined ? {} : { agent: shared }) }
  }
}

/** `kubectl create token` ends its line, and node:http refuses a header with a line break in it. */
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

/**
 * Address and CA of a kubeconfig's current cluster, its paths being the host's; undefined where there is no such file,
 * or nothing in it.
 */
function clusterOf(file: string, hostRoot: string): ApiSources['kubeconfig'] {
  try {
    const config = new KubeConfig()
    config.loadFromString(readFileSync(`${hostRoot}${file}`, 'utf8'))
    const cluster = config.getCurrentCluster()
    if (cluster === null || !cluster.server) return undefined
    const { server, caFile, caData } = cluster
    // kubectl takes a relative path as one beside the kubeconfig.
    const path = caFile && resolve(`${hostRoot}${dirname(file)}`, isAbsolute(caFile) ? `${hostRoot}${caFile}` : caFile)
    return { server, ...(path ? { caFile: path } : {}), ...(caData ? { caData } : {}) }
  } catch {
    return undefined
  }
}
