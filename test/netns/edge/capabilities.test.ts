// SPDX-License-Identifier: Apache-2.0
// A runtime that lacks a capability: STATUS says so before a pod comes, and each error which one it is and what needs it.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import {
  type Call,
  environment,
  type Finished,
  type Host,
  openHost,
  snapshot,
  trestle,
  type Verb,
} from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'

const conf = netConf()

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** A call by root without `capability`, `net_admin` say; Finished.json is not looked at by itself. */
function without(capability: string, verb: Verb, call: Call & { readonly conf?: object }): Finished {
  const env = environment(verb, { ...call, env: stateEnv(host) })
  const words = Object.entries(env).map(([key, value]) => `${key}=${value}`)
  const dropped = ['setpriv', '--bounding-set', `-${capability}`, '--inh-caps', `-${capability}`]
  return host.run('env', ['-i', ...words, ...dropped, trestle], JSON.stringify(call.conf ?? conf))
}

const needs = 'trestle needs CAP_NET_ADMIN and CAP_SYS_ADMIN'

describe.each(['net_admin', 'sys_admin'] as const)('without CAP_%s', (capability) => {
  it.each([
    ['with addresses', conf],
    ['layer 2 only', netConf({ podcidr: undefined })],
    ['with rules only', netConf({ podcidr: undefined, macspoofchk: true })],
  ])('ADD names it, and nothing is left when DEL can look: %s', (_, each) => {
    const before = snapshot(host)
    const failed = without(capability, 'ADD', { conf: each, netns: host.pod('a') })
    expectError(failed, 100, needs)
    expectSilent(host.cni('DEL', each))
    expectNothingLeft(host, before)
  })

  it('CHECK names it, DEL ends well, and what it owes is settled by the next one', () => {
    const before = snapshot(host)
    const pod = attach(host, conf, { id: 'a' })
    const asked = { id: 'a', netns: pod.netns }
    expectError(without(capability, 'CHECK', { ...asked, conf: { ...conf, prevResult: pod.result } }), 100, needs)
    const deleted = without(capability, 'DEL', asked)
    expectSilent(deleted)
    if (capability === 'net_admin') expect(deleted.stderr).toContain('Operation not permitted')
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })
})

it('a refusal for another reason names none', () => {
  const refused = host.cni('ADD', netConf({ tuning: { sysctl: { 'net.core.rmem_max': '300000' } } }), {
    netns: host.pod('a'),
  })
  expectError(refused, 100, 'a key that is read-only in a pod')
  expect(refused.stdout).not.toContain('CAP_NET_ADMIN')
})
