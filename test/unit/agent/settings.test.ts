// SPDX-License-Identifier: Apache-2.0
// What the options of `trestle agent` mean.

import { describe, expect, it } from 'vitest'
import { agentCommand, readSettings } from '../../../src/agent/settings.ts'
import { texts } from './cluster-facts.ts'

type Values = Readonly<Record<string, string | boolean>>
const read = (values: Values, env: NodeJS.ProcessEnv = { NODE_NAME: 'node-1' }) => readSettings({ values }, env)

describe('the settings', () => {
  it('have defaults, and the name of the node from the pod', () => {
    expect(read({})).toMatchObject({
      ...{ node: 'node-1', mode: 'ptp', network: 'pods', lookMs: 5000, gcMs: 600_000 },
      ...{ overlay: { when: 'auto', port: 4790, vni: 4790 }, listen: { host: '127.0.0.1', port: 9917 } },
      ...{ confDir: '/etc/cni/net.d', binDir: '/opt/cni/bin', hostRoot: '', isCloudRouted: false, clusterRanges: [] },
      template: { file: '/etc/trestle/pods.conflist', isAsked: false },
      access: { kubeconfigs: expect.arrayContaining(['/etc/kubernetes/kubelet.conf']), hostRoot: '' },
    })
    expect(read({ 'node-name': 'other' }).node).toBe('other')
    expect(read({}, {}).node).toMatch(/^[a-z0-9]/)
  })

  it('are those of the options', () => {
    const overlay = { 'overlay-port': '8472', 'overlay-vni': '16777215' }
    expect(read({ overlay: 'never', ...overlay }).overlay).toEqual({ when: 'never', port: 8472, vni: 16_777_215 })
    expect(read({ 'cloud-routes': true, overlay: 'always' })).toMatchObject({ overlay: { when: 'never' } })
    const paths = { template: '/etc/t/', 'conf-dir': '/c/', 'host-root': '/proc/1/root', kubeconfig: '/k' }
    expect(read({ mode: 'bridge', listen: '[::1]:80', look: '60', gc: '0', ...paths })).toMatchObject({
      ...{ mode: 'bridge', listen: { host: '::1', port: 80 }, lookMs: 60_000, gcMs: 0, confDir: '/c' },
      ...{ template: { file: '/etc/t', isAsked: true }, access: { hostRoot: '/proc/1/root', kubeconfigs: ['/k'] } },
    })
  })

  it('serve nothing with --listen off', () => {
    expect(read({ listen: 'off' })).not.toHaveProperty('listen')
  })

  it('have the ranges of the cluster in canonical text', () => {
    expect(texts(read({ 'cluster-cidr': '10.244.0.0/16, FD00:10:244::/48' }).clusterRanges)).toEqual([
      '10.244.0.0/16',
      'fd00:10:244::/48',
    ])
  })

  it.each([
    ...['node-name ../x', 'node-name Node', 'mode vxlan', 'overlay off', 'overlay-port 0', 'overlay-port 65536'],
    ...['overlay-vni 16777216', 'overlay-vni 0x1', 'conf-dir relative', 'bin-dir ./x', 'template x'],
    ...['listen nowhere', 'listen 127.0.0.1:99999', 'listen ::1:80', 'look 0', 'look 1.5', 'gc -5', 'gc 86401'],
    ...['cluster-cidr 10.244.0.0/16,', 'cluster-cidr 10.244.0.1/16', 'cluster-cidr 0.0.0.0/0'],
    // an empty value, of a variable that is not set, would bound nothing without a word.
    'cluster-cidr ',
  ])('refuse --%s', (line) => {
    const [option = '', value = ''] = line.split(' ')
    expect(() => read({ [option]: value })).toThrow(`--${option}`)
  })

  it('read each option that help names, and no other', () => {
    const asked = new Set<string>()
    const values = new Proxy<Values>({}, { get: (_, name) => void asked.add(String(name)) })
    readSettings({ values }, { NODE_NAME: 'a' })
    expect([...asked].sort()).toEqual(Object.keys(agentCommand.options).sort())
  })
})
