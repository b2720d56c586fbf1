// SPDX-License-Identifier: Apache-2.0
// `trestle agent --template`: what an operator says of the configuration is in it within a moment, and what cannot be used
// is said by log, event, metric and readiness, and changes nothing.

import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { nodeWithApi } from '../../support/cluster/agent-node.ts'
import { isReady, scrape, until } from '../../support/cluster/cluster.ts'

const node = nodeWithApi()
let versions = 0

const template = () => `${node.files.root}/template/pods.conflist`

/** Puts a text there as kubelet does it with a ConfigMap: links, the last of which is replaced. */
function put(text: string): void {
  const directory = `${node.files.root}/template`
  const version = `..${versions++}`
  mkdirSync(`${directory}/${version}`, { recursive: true })
  writeFileSync(`${directory}/${version}/pods.conflist`, text)
  symlinkSync(version, `${directory}/..data_tmp`)
  renameSync(`${directory}/..data_tmp`, `${directory}/..data`)
  if (versions === 1) symlinkSync('..data/pods.conflist', template())
}

const own = (keys: object) => JSON.stringify({ plugins: [{ type: 'trestle', ...keys }] }, undefined, 1)
const plugin = () => node.files.configuration().plugins[0]

function readiness(): { readonly status: number; readonly text: string } {
  const script =
    "fetch('http://127.0.0.1:9917/readyz').then(async (a) => console.log(JSON.stringify({ status: a.status, text: await a.text() })))"
  return JSON.parse(node.host.run(process.execPath, ['-e', script]).stdout)
}

it('writes what the template says, follows it, and keeps the last one that was right', async () => {
  versions = 0
  put(own({ mtu: 1400, firewall: { hostAccept: 'off' } }))
  const running = node.start(['--template', template(), '--look', '1'])
  await running.seen(isReady, 'ready')
  const first = { type: 'trestle', podcidr: '10.244.1.0/24', mtu: 1400, firewall: { hostAccept: 'off' } }
  expect(plugin()).toMatchObject(first)
  const pod = node.host.pod('a')
  const conf = { ...plugin(), cniVersion: '1.1.0', name: 'pods' }
  expect(node.host.cni('ADD', conf, { id: 'a', netns: pod }).code).toBe(0)
  expect(JSON.parse(node.host.inPod(pod, 'ip', ['-j', 'link', 'show', 'eth0']).stdout)[0].mtu).toBe(1400)

  put(own({ mtu: 1300, firewall: { hostAccept: 'off' } }))
  await until(() => plugin().mtu === 1300, 'the new MTU')
  await running.seen(({ problem }) => problem === 'MtuChanged', 'the problem of the pod that runs')

  put('{\n "plugins": [\n  { "type": "trestle",\n    "podcidr": "10.0.0.0/8" } ] }')
  const { message = '' } = await running.seen(({ problem }) => problem === 'BadTemplate', 'the problem')
  expect(message).toContain(`${template()}: line 4: `)
  await node.api.seen(({ body }) => (body as { reason?: string })?.reason === 'BadTemplate', 'the event')
  await until(() => readiness().status === 503, 'no readiness')
  expect(readiness().text).toContain('line 4')
  expect(scrape(node.host)['trestle_agent_problems{id="BadTemplate"}']).toBe(1)
  expect(plugin()).toMatchObject({ mtu: 1300, podcidr: '10.244.1.0/24' })

  put(own({}))
  await until(() => plugin().mtu === undefined, 'the configuration without an MTU')
  await until(() => readiness().status === 200, 'readiness')
  expect(plugin().firewall).toEqual({ hostAccept: 'auto' })
  expect(node.host.cni('DEL', conf, { id: 'a', netns: pod }).code).toBe(0)
})

it('writes no configuration while the first template cannot be used', async () => {
  versions = 0
  put('{ "plugins": [ { "type": "trestle", "mtu": "large" } ] }')
  const running = node.start(['--template', template()])
  await running.seen(({ problem }) => problem === 'BadTemplate', 'the problem')
  expect(() => node.files.configuration()).toThrow('ENOENT')
  put(own({}))
  await running.seen(isReady, 'ready')
  expect(plugin().podcidr).toBe('10.244.1.0/24')
})

it('a plugin of the template that the node lacks: no readiness and the former configuration, until it is there', async () => {
  versions = 0
  put(own({ mtu: 1400 }))
  const running = node.start(['--template', template(), '--look', '1'])
  await running.seen(isReady, 'ready')
  put(JSON.stringify({ plugins: [{ type: 'trestle' }, { type: 'meter' }] }))
  await node.api.seen(({ body }) => (body as { reason?: string })?.reason === 'NoProgram', 'the event')
  await until(() => readiness().status === 503, 'no readiness')
  expect(readiness().text).toContain('bin has no meter: pods get no network')
  expect(node.files.configuration().plugins).toMatchObject([{ type: 'trestle', mtu: 1400 }])
  writeFileSync(`${node.files.root}/bin/meter`, '#!/bin/sh\n', { mode: 0o755 })
  await until(() => readiness().status === 200, 'readiness')
  expect(node.files.configuration().plugins.map(({ type }: { type: string }) => type)).toEqual(['trestle', 'meter'])
})
