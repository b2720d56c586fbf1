// SPDX-License-Identifier: Apache-2.0
// What pods and administrators put into a call is not repeated in errors, but for the value that is refused.

import { describe, expect, it } from 'vitest'
import { dispatch, type Verbs } from '../../../src/cni/dispatch.ts'
import { configText, envFor, type Json } from '../call.ts'

const secret = 'tops3cret'
const carriers: Json = {
  args: { cni: { token: secret, password: secret } },
  runtimeConfig: { 'io.kubernetes.cri.pod-annotations': { token: secret } },
  prevResult: { cniVersion: '1.1.0', ips: [{ address: '10.0.0.2/24' }], token: secret },
  delegate: { password: secret },
  [secret]: secret,
}
const podArgs = `IgnoreUnknown=1;TOKEN=${secret};K8S_POD_NAME=${secret}`

const unreached = async () => {
  throw new Error('not reached')
}
const handlers: Verbs = { add: unreached, del: unreached, check: unreached, gc: unreached, status: unreached }

describe('the error of a call that carries secrets', () => {
  it.each<[string, Json, Json, number]>([
    ['name', { name: 'a b' }, {}, 7],
    ['cniVersion', { cniVersion: '9.9.9' }, {}, 1],
    ['podcidr', { mode: 'bridge', podcidr: 'x' }, {}, 7],
    ['mode', { mode: 'x' }, {}, 7],
    ['ipam', { mode: 'bridge', ipam: { type: 'trestle' } }, {}, 7],
    ['mtu', { mtu: 'x' }, {}, 7],
    ['portMappings', { runtimeConfig: { portMappings: [{}], token: secret } }, {}, 7],
    ['args.cni.mac', { args: { cni: { mac: 'x', token: secret } } }, {}, 7],
    ['prevResult.ips', { prevResult: { ips: [{ address: 'x', token: secret }], token: secret } }, {}, 7],
    ['firewall', { firewall: { iptablesAdminChainName: 'x' } }, {}, 2],
    ['too deep', { deep: JSON.parse(`${'['.repeat(70)}"${secret}"${']'.repeat(70)}`) }, {}, 6],
    ['CNI_CONTAINERID', {}, { CNI_CONTAINERID: '/' }, 4],
    ['CNI_NETNS', {}, { CNI_NETNS: 'x' }, 4],
    ['CNI_ARGS, an unknown key', {}, { CNI_ARGS: `TOKEN=${secret}` }, 4],
    ['CNI_ARGS, no pair', {}, { CNI_ARGS: `TOKEN=${secret};x` }, 4],
    ['CNI_ARGS, IP', { mode: 'bridge', podcidr: '10.0.0.0/24' }, { CNI_ARGS: `${podArgs};IP=x` }, 4],
  ])('does not hold them: %s', async (_, changes, env, code) => {
    const call = {
      env: envFor('ADD', { CNI_ARGS: podArgs, ...(env as object) }),
      ownTypes: ['trestle'],
      stdin: () => configText({ ...carriers, ...changes }),
    }
    const { stdout, exitCode } = await dispatch(call, handlers)
    expect(exitCode).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ code })
    expect(stdout).not.toContain(secret)
  })

  it('nor when the configuration is no JSON', async () => {
    const stdin = () => `${configText(carriers).slice(0, -1)},}`
    const { stdout } = await dispatch({ env: envFor('ADD'), stdin, ownTypes: ['trestle'] }, handlers)
    expect(JSON.parse(stdout)).toMatchObject({ code: 6 })
    expect(stdout).not.toContain(secret)
  })
})
