// SPDX-License-Identifier: Apache-2.0
// Pods of a real cluster that say who called them, and callers in their network namespaces.

import { expect } from 'vitest'
import { type Cluster, list, whenAllReady } from './cluster.ts'

/** A pod as a place to call from, and to be called at; its addresses in the cluster's order of families. */
export interface AppPod {
  readonly name: string
  readonly node: string
  readonly addresses: readonly string[]
}

const port = 8080
const who = '#!/bin/sh\\nprintf "Content-Type: text/plain\\\\n\\\\ncaller %%s\\\\n" "$REMOTE_ADDR"\\n'
const serve = [
  `b=/bin/busybox; $b mkdir -p /tmp/w/cgi-bin; printf '${who}' > /tmp/w/cgi-bin/who`,
  `$b chmod 755 /tmp/w/cgi-bin/who; exec httpd -f -p ${port} -h /tmp/w`,
].join('; ')

function template(app: string, hostPort?: number) {
  const container = {
    ...{ name: 'web', image: 'lab.local/busybox:1', imagePullPolicy: 'Never', command: ['/bin/sh', '-c', serve] },
    ports: [{ containerPort: port, ...(hostPort === undefined ? {} : { hostPort }) }],
    readinessProbe: { httpGet: { path: '/cgi-bin/who', port }, periodSeconds: 1, timeoutSeconds: 5 },
  }
  return {
    metadata: { labels: { app, example: 'trestle' } },
    spec: { terminationGracePeriodSeconds: 0, automountServiceAccountToken: false, containers: [container] },
  }
}

/** A Deployment `web` behind a Service, and a DaemonSet `port` with a host port; waits until all of them are ready. */
export async function servePods(
  cluster: Cluster,
  { replicas, nodes, hostPort }: { readonly replicas: number; readonly nodes: number; readonly hostPort: number },
): Promise<void> {
  const metadata = (app: string) => ({ name: app, namespace: 'default', labels: { app, example: 'trestle' } })
  const selector = (app: string) => ({ matchLabels: { app } })
  const spread = [
    {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'ScheduleAnyway',
      labelSelector: selector('web'),
    },
  ]
  const web = template('web')
  const items = [
    {
      ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: metadata('web') },
      spec: {
        ...{ replicas, selector: selector('web') },
        template: { ...web, spec: { ...web.spec, topologySpreadConstraints: spread } },
      },
    },
    {
      ...{ apiVersion: 'apps/v1', kind: 'DaemonSet', metadata: metadata('port') },
      spec: { selector: selector('port'), template: template('port', hostPort) },
    },
    {
      ...{ apiVersion: 'v1', kind: 'Service', metadata: metadata('web') },
      spec: { selector: { app: 'web' }, ipFamilyPolicy: 'PreferDualStack', ports: [{ port, targetPort: port }] },
    },
  ]
  await cluster.apply({ apiVersion: 'v1', kind: 'List', items })
  await whenAllReady(cluster, replicas, 'pods', '-l', 'app=web')
  await whenAllReady(cluster, nodes, 'pods', '-l', 'app=port')
}

/** The pods of an app, all of them ready. */
export async function appPods(cluster: Cluster, app = 'web'): Promise<readonly AppPod[]> {
  return (await list(cluster, 'pods', '-l', `app=${app}`)).map(({ metadata, spec, status }) => ({
    name: metadata.name,
    node: spec.nodeName ?? '',
    addresses: (status.podIPs ?? []).map(({ ip }) => ip),
  }))
}

/** The network namespace on a node that has an address that begins so; empty where none has. */
export async function whereIs(cluster: Cluster, node: string, address: string): Promise<string> {
  const look = `nsenter --net=$n ip -o address show | grep -qF ' ${address}'`
  const { stdout } = await cluster.on(node, `for n in /run/netns/*; do if ${look}; then echo $n; fi; done`)
  return stdout.trim()
}

/** What a server at `address` answers to a pod. */
export async function answerFrom(cluster: Cluster, from: AppPod, address: string): Promise<string> {
  const netns = await whereIs(cluster, from.node, `${from.addresses[0]}/`)
  expect(netns, `the namespace of ${from.name}`).toMatch(/^\/run\/netns\/\S+$/)
  const target = address.includes(':') ? `TCP6:[${address}]:${port}` : `TCP4:${address}:${port}`
  const request = "printf 'GET /cgi-bin/who HTTP/1.0\\r\\n\\r\\n'"
  const call = `nsenter --net=${netns} timeout 20 socat -t10 - ${target},connect-timeout=5`
  const { stdout, stderr } = await cluster.on(from.node, `${request} | ${call}`)
  return stdout === '' ? stderr : stdout
}

/** Whom the server of an answer has seen; the whole answer where it does not say. */
export function caller(answer: string): string {
  return /^caller \[?(?:::ffff:)?([^\]\n]+)/m.exec(answer)?.[1] ?? answer
}
