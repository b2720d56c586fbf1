// SPDX-License-Identifier: Apache-2.0
// Where the API server is, found without Service, DNS or kube-proxy: what is given, else what the kubelet uses, else
// what the pod's environment says.

import { parseAddress } from '../../cni/model/address.ts'

/** `server`: a URL without a path. `caFile` or `caData` (base64): who signed its certificate; neither for http. */
export interface ApiServer {
  readonly server: string
  readonly caFile?: string
  readonly caData?: string
  /** Which of the three told, for the log. */
  readonly source: 'flags' | 'kubeconfig' | 'environment'
}

/** What each of the three says. `kubeconfig`: the cluster of the kubelet's kubeconfig, never its user. */
export interface ApiSources {
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
