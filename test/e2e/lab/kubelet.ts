// SPDX-License-Identifier: Apache-2.0
// A kubelet without an API server on a private machine with containerd: pods are files, what became of them is asked over HTTP.
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, vi } from 'vitest'
import { type Lab, peers } from './lab.ts'

/** What is looked at of a pod in kubelet's list. */
export interface Seen {
  readonly name: string
  readonly isReady: boolean
  readonly addresses: readonly string[]
  readonly restarts: number
}

interface Listed {
  readonly metadata: { readonly name: string }
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
    readonly podIPs?: readonly { readonly ip: string }[]
    readonly containerStatuses?: readonly { readonly restartCount: number }[]
  }
}

/** A TCP and a UDP host port of the same number, to ports 80 and 53 of the pod. */
export interface Wanted {
  readonly name: string
  readonly hostPort: number
  readonly annotations?: Readonly<Record<string, string>>
}

/** Starts kubelet, the first time or again; returns when it answers. */
export async function startKubelet(lab: Lab): Promise<void> {
  const script = fileURLToPath(new URL('kubelet-start.sh', import.meta.url))
  const { exitCode, stderr } = await lab.run('bash', [script, lab.dir, peers])
  expect(exitCode, stderr).toBe(0)
}

/** Ends kubelet by the process id it has inside; the pods live on. */
export async function stopKubelet(lab: Lab): Promise<void> {
  const pid = (await readFile(join(lab.dir, 'kubelet.pid'), 'utf8')).trim()
  await lab.run('kill', [pid])
  await vi.waitFor(async () => expect((await lab.run('kill', ['-0', pid])).exitCode).not.toBe(0), { timeout: 60_000 })
}

/** Hands kubelet a pod with one busybox that serves /www, with a readiness and a liveness probe from the node. */
export async function putPod(lab: Lab, { name, hostPort, annotations = {} }: Wanted): Promise<void> {
  const httpGet = { path: '/', port: 80 }
  const ports = [
    { containerPort: 80, hostPort, protocol: 'TCP' },
    { containerPort: 53, hostPort, protocol: 'UDP' },
  ]
  const container = {
    name: 'web',
    image: 'lab.local/busybox:1',
    imagePullPolicy: 'Never',
    command: ['/bin/httpd', '-f', '-p', '80', '-h', '/www'],
    ports,
    readinessProbe: { httpGet, periodSeconds: 1, timeoutSeconds: 10 },
    // Not one that a loaded machine fails.
    livenessProbe: { httpGet, periodSeconds: 2, timeoutSeconds: 10, failureThreshold: 3 },
  }
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', annotations },
    spec: { terminationGracePeriodSeconds: 1, automountServiceAccountToken: false, containers: [container] },
  }
  const file = join(lab.dir, 'manifests', `${name}.json`)
  await writeFile(join(lab.dir, 'pod.json'), JSON.stringify(pod))
  await rename(join(lab.dir, 'pod.json'), file)
}

/** Takes a pod away from kubelet. */
export const dropPod = (lab: Lab, name: string): Promise<void> => rm(join(lab.dir, 'manifests', `${name}.json`))

/** The answer to a GET of `path`, headers included; empty when there is none. `from`: a network namespace, else the node. */
export async function httpGet(lab: Lab, target: string, { path = '/', from = '' } = {}): Promise<string> {
  const inside = from === '' ? [] : ['ip', 'netns', 'exec', from]
  const [file = '', ...args] = [...inside, 'timeout', '20', 'socat', '-t10', '-', `${target},connect-timeout=2`]
  return (await lab.run(file, args, { input: `GET ${path} HTTP/1.0\r\n\r\n` })).stdout
}

/** The pods that kubelet knows, by name. */
export async function seenPods(lab: Lab): Promise<Seen[]> {
  const answer = await httpGet(lab, 'TCP4:127.0.0.1:10255', { path: '/pods' })
  const { items } = JSON.parse(answer.slice(answer.indexOf('{')) || '{"items":[]}') as {
    items: readonly Listed[] | null
  }
  return (items ?? []).map(({ metadata, status }) => ({
    name: metadata.name.replace(/-lab$/, ''), // kubelet adds the node's name
    isReady: status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false,
    addresses: (status.podIPs ?? []).map(({ ip }) => ip),
    restarts: status.containerStatuses?.[0]?.restartCount ?? 0,
  }))
}

/** Waits until all these pods and no others are there, and ready; at most 120 s. */
export async function whenReady(lab: Lab, names: readonly string[]): Promise<Seen[]> {
  return vi.waitFor(
    async () => {
      const pods = (await seenPods(lab)).sort((a, b) => a.name.localeCompare(b.name))
      expect(pods.filter((pod) => pod.isReady).map(({ name }) => name)).toEqual([...names].sort())
      return pods
    },
    { timeout: 120_000, interval: 200 },
  )
}
