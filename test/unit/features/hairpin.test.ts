// SPDX-License-Identifier: Apache-2.0
// Which links and which pods are masqueraded towards themselves.

import { describe, expect, it } from 'vitest'
import { attachmentRuleOps, teardownOps } from '../../../src-before/drivers/attach.ts'
import { hairpinElements, selfHairpinElements } from '../../../src-before/features/masquerade.ts'
import type { AttachmentSpec } from '../../../src-before/model/attachment.ts'
import type { Op } from '../../../src-before/model/op.ts'
import { specsOf } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const lease = { ips: [{ address: '10.1.0.2/24' }, { address: 'fd00:1::2/64' }], routes: [] }
const podcidr = ['10.1.0.0/24', 'fd00:1::/64']
const ports = { runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 80 }] } }
const of = (conf: Json) => specsOf(read(conf), lease)
const pair = (link: string) => ({ set: 'hairpinlink', key: [link, link] })
const self = [
  { set: 'self4', key: ['10.1.0.2', '10.1.0.2'] },
  { set: 'self6', key: ['fd00:1::2', 'fd00:1::2'] },
]
const elementsIn = (ops: readonly Op[], name: string) =>
  ops.flatMap((op) => ('key' in op && 'set' in op && op.set.startsWith(name) ? [op.key] : []))

describe('what is routed back to its own link', () => {
  it.each<[string, Json, readonly object[]]>([
    ['the bridge of a network that masquerades', { podcidr }, [pair('cni0')]],
    ['the gateway of a VLAN, where the bridge routes nothing', { podcidr, vlan: 7 }, [pair('cni0.7')]],
    ['no link of routed pods', { podcidr, mode: 'ptp' }, []],
    ['no bridge that translates nothing', { podcidr, portmap: { snat: false } }, []],
  ])('is %s', (_, conf, elements) => {
    expect(hairpinElements(of(conf).network)).toEqual(elements)
  })

  it('is said by a chained pod with host ports for the bridge that is not ours, and not taken away with it', () => {
    const { spec } = of({ podcidr, ...ports })
    const { port: _, host: __, ...rest } = spec
    const chained: AttachmentSpec = {
      ...rest,
      mode: 'chained',
      chained: { dev: 'eth0', hostLink: 'veth1' },
      ...(spec.hostPorts ? { hostPorts: { ...spec.hostPorts, link: 'br9' } } : {}),
    }
    expect(elementsIn(attachmentRuleOps(chained), 'hairpinlink')).toEqual([pair('br9').key])
    expect(elementsIn(teardownOps(chained, 1), 'hairpinlink')).toEqual([])
  })
})

describe('a pod that reaches itself', () => {
  it.each<[string, Json, readonly object[]]>([
    ['has host ports', { podcidr, ...ports }, self],
    ['is routed', { podcidr, mode: 'ptp' }, self],
    ['is isolated on its bridge', { podcidr, ipMasq: false, firewall: { ingressPolicy: 'isolated' } }, self],
    ['is not one without host ports: kube-proxy masquerades what it translates', { podcidr }, []],
    ['is not one with snat off', { podcidr, ...ports, portmap: { snat: false } }, []],
  ])('%s', (_, conf, elements) => {
    expect(selfHairpinElements(of(conf).spec)).toEqual(elements)
  })
})
