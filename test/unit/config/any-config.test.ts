// SPDX-License-Identifier: Apache-2.0
// Configurations made of known keys and plausible values at the wrong places: read, or refused with a
// code of ours, never with a crash.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CniError, Code } from '../../../src/cni/errors.ts'
import { writeResult } from '../../../src/cni/results.ts'
import { readConfig, readDelConfig } from '../../../src/config/read-config.ts'
import { callOf, configText } from '../call.ts'

const texts =
  ' 10.0.0.0/24 10.0.0.1 fd00::1 fd00::/64 ::/0 0.0.0.0/0 x static trestle host-local dhcp tcp net.core.x 02:00:00:00:00:01 1.1.0 0.2.0 eth0 /a off auto chained bridge ptp loopback __proto__ constructor'
const keys =
  'cniVersion type mode podcidr bridge isGateway hairpinMode promiscMode vlan vlanTrunk minID maxID id mtu ipam subnet ranges rangeStart rangeEnd gateway routes dst gw addresses address dns nameservers search domain args cni ips mac sysctl runtimeConfig portMappings hostPort containerPort protocol hostIP ipRanges bandwidth ingressRate ingressBurst portmap conditionsV4 firewall tuning sbr gateways record prevResult interfaces name sandbox interface version ip4 ip6 ip cni.dev/valid-attachments containerID ifname exclude __proto__ NAME Type IPAM'
const word = fc.constantFrom(...texts.split(' '))
const key = fc.constantFrom(...keys.split(' '))
const leaf = fc.oneof(
  word,
  fc.integer({ min: -2, max: 5000 }),
  fc.boolean(),
  fc.constant(null),
  fc.string(),
  fc.double(),
)
const value = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.dictionary(key, tie('tree'), { maxKeys: 5, noNullPrototype: true }),
  ),
})).tree
const configs = fc.dictionary(key, value, { maxKeys: 4, noNullPrototype: true })
const foreseen: readonly number[] = Object.values(Code).filter((code) => code !== Code.internal)

/** The code that `run` is refused with, or undefined; anything but a CniError fails the test. */
function codeOf(run: () => void): number | undefined {
  try {
    run()
    return undefined
  } catch (thrown) {
    if (thrown instanceof CniError) return thrown.code
    throw thrown
  }
}

describe('any configuration of known keys', () => {
  it('is read into plain data or refused with a foreseen code', () => {
    const verbs = fc.constantFrom('ADD', 'CHECK', 'GC', 'STATUS')
    fc.assert(
      fc.property(configs, verbs, fc.constantFrom('1.1.0', '0.4.0', '0.2.0'), (changes, verb, cniVersion) => {
        const stdin = configText({ cniVersion, ...changes })
        const code = codeOf(() => {
          const conf = readConfig(stdin, callOf(verb))
          expect(JSON.parse(JSON.stringify(conf))).toEqual(conf)
          if (conf.mode !== 'ipam' && conf.prevResult !== undefined)
            JSON.parse(writeResult(conf.prevResult, conf.cniVersion))
        })
        expect([undefined, ...foreseen]).toContain(code)
        expect([undefined, 1, 6, 7]).toContain(codeOf(() => readDelConfig(stdin)))
      }),
      { numRuns: 3000 },
    )
  })
})
