// SPDX-License-Identifier: Apache-2.0
// Nodes of a large cluster, each as large as a real one, and what becomes of them.
import { setTimeout as sleep } from 'node:timers/promises'

/** The InternalIP of node `at`: one segment has room for all. */
export const addressOf = (at) => `172.${16 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`

/** The ranges of node `at`, of both families. */
export const rangesOf = (at) => [
  `10.${64 + (at >> 8)}.${at & 255}.0/24`,
  `fd00:10:${(at >> 8).toString(16)}:${at & 255}::/64`,
]

const address6Of = (at) => `fd00:99::${at.toString(16)}`

/** A Node of about 15 KB, most of it the names of 50 images. */
export function nodeObject(at) {
  const [name, podCIDRs] = [`node-${at}`, rangesOf(at)]
  const digest = (n) => `${at}`.padStart(32, `${n % 10}`).repeat(2)
  const images = Array.from({ length: 50 }, (_, n) => ({
    names: [
      `registry.example.com/some-organisation/component-${n}@sha256:${digest(n)}`,
      `registry.example.com/some-organisation/component-${n}:v1.${n}.${at % 7}-build.${at}`,
    ],
    sizeBytes: 10_000_000 + n * 4321,
  }))
  const condition = (type, status) => ({
    type,
    status,
    reason: `KubeletHas${type}`,
    message: `kubelet says ${type} is ${status}`,
    lastHeartbeatTime: '2026-01-01T00:00:00Z',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  })
  const labels = Object.fromEntries(
    Array.from({ length: 20 }, (_, n) => [`example.com/label-${n}`, `value-${n}-${at}`]),
  )
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels, annotations: { 'example.com/state': 'x'.repeat(3000) } },
    spec: { podCIDR: podCIDRs[0], podCIDRs },
    status: {
      addresses: [
        { type: 'InternalIP', address: addressOf(at) },
        { type: 'InternalIP', address: address6Of(at) },
        { type: 'Hostname', address: name },
      ],
      conditions: [
        condition('MemoryPressure', 'False'),
        condition('DiskPressure', 'False'),
        condition('Ready', 'True'),
      ],
      images,
    },
  }
}

/** Registers nodes `from` to `to`, sixteen at a time. */
export async function register({ ask }, from, to) {
  let next = from
  const worker = async () => {
    while (next <= to) await ask('POST', '/api/v1/nodes', { body: nodeObject(next++) })
  }
  await Promise.all(Array.from({ length: 16 }, worker))
}

/** Gives a node other InternalIPs: those of node `other`, which has to be none of the cluster. */
export async function readdress({ ask }, at, other) {
  const addresses = [
    { op: 'replace', path: '/status/addresses/0/address', value: addressOf(other) },
    { op: 'replace', path: '/status/addresses/1/address', value: address6Of(other) },
  ]
  await ask('PATCH', `/api/v1/nodes/node-${at}/status`, { body: addresses, type: 'application/json-patch+json' })
}

/** Updates the status of one node after the other, so many a second, until `end` is called. Heartbeats alone. */
export function heartbeats({ ask }, nodes, perSecond) {
  const state = { isOn: true }
  const beating = (async () => {
    for (let beat = 0; state.isOn; beat++) {
      const value = new Date().toISOString().replace(/\..*/, 'Z')
      const body = [{ op: 'replace', path: '/status/conditions/2/lastHeartbeatTime', value }]
      const path = `/api/v1/nodes/node-${2 + (beat % (nodes - 1))}/status`
      await ask('PATCH', path, { body, type: 'application/json-patch+json' })
      await sleep(1000 / perSecond)
    }
  })()
  return async () => {
    state.isOn = false
    await beating
  }
}
