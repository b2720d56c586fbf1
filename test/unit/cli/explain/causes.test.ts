// SPDX-License-Identifier: Apache-2.0
// Of several errors in one text the innermost is the cause; another plugin's words are not taken for trestle's; and what
// was recognised and what was not is told.

import { describe, expect, it } from 'vitest'
import { recognise } from '../../../../src/commands/explain/recognise.ts'
import { runCli } from '../../../support/collect.ts'

const roles = (text: string) => recognise(text).errors.map(({ id, role }) => `${id} ${role}`)
const codes = (text: string) => recognise(text).codes.map(({ code }) => code)

const full = 'no IP addresses available in range set: 10.1.2.1-10.1.2.254'
const nested = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "3fe3": plugin type="multus" name="multus-cni-network" failed (add): [ns/web:cbr0]: error adding container to network "cbr0": plugin type="portmap" failed (add): running [/usr/sbin/iptables -t nat -S --wait]: exit status 4: iptables v1.8.7 (nf_tables):  CHAIN_ADD failed (No such file or directory): chain PREROUTING`

describe('the innermost error', () => {
  it('counts', () => {
    expect(roles(nested)).toEqual(['iptables-refused cause'])
  })

  it('is the one of the ADD, and not that of cleaning up after it', () => {
    const text =
      'networkPlugin cni failed to set up pod "a_b" network: failed to set bridge addr: could not add IP address to "cni0": permission denied, failed to clean up sandbox container "b1" network for pod "a": networkPlugin cni failed to teardown pod "a_b" network: running [/usr/sbin/iptables -t nat -D POSTROUTING -j CNI-5d08 --wait]: exit status 2: iptables v1.8.3 (legacy): Couldn\'t load target `CNI-5d08\':No such file or directory'
    expect(roles(text)).toEqual(['ipv6-disabled cause', 'iptables-chain-gone after'])
  })

  it('comes before what only passes it on', () => {
    const text = `cni config load failed: failed to load CNI config list file /etc/cni/net.d/a.conflist: error parsing configuration list: unexpected end of JSON input: invalid cni config`
    expect(roles(text)).toEqual(['config-not-json cause', 'cni-not-initialized around'])
  })

  it('a word of one error beats words that many programs print', () => {
    const text =
      'CNI: x509: certificate signed by unknown authority; open /run/flannel/subnet.env: no such file or directory'
    expect(roles(text)[0]).toBe('flannel-subnet-env cause')
  })

  it('lines have causes of their own', () => {
    const text = `  Warning  FailedCreatePodSandBox  9s  kubelet  ${nested}\n  Warning  Unhealthy  3s  kubelet  Readiness probe failed: Get "http://10.1.2.3/": dial tcp 10.1.2.3:80: i/o timeout\n  Normal  Pulling  1s  kubelet  Pulling image "nginx"\n  Warning  FailedCreatePodSandBox  9s  kubelet  open /run/flannel/subnet.env: no such file or directory`
    expect(roles(text)).toEqual(['iptables-refused cause', 'probe-times-out cause', 'flannel-subnet-env cause'])
  })
})

describe("another plugin's words", () => {
  it.each([
    [`plugin type="bridge" failed (add): failed to allocate for range 0: ${full}`, ['host-local-full cause'], []],
    [`plugin type="trestle" failed (add): ${full} [pool-exhausted]`, [], [101]],
    [`plugin type="trestle-canary" failed (add): ${full} [pool-exhausted]`, [], [101]],
    [
      `plugin type="multus" failed (add): [a/b:c]: error adding container: plugin type="trestle" failed (add): ${full} [pool-exhausted]`,
      [],
      [101],
    ],
    [full, ['host-local-full cause'], []],
    ['{"cniVersion":"1.1.0","code":108,"msg":"\\"cni0\\" already exists but is not a bridge"}', [], [108]],
  ])('%s', (text, ids, numbers) => {
    expect([roles(text), codes(text)]).toEqual([ids, numbers])
  })

  it("a number from 100 on is a plugin's own, and 999 of the reference plugins is no defect of trestle's", () => {
    const azure =
      '{ "code": 100, "msg": "Failed to allocate address: Failed to delegate: Failed to allocate address: No available addresses" }'
    expect([roles(azure), codes(azure)]).toEqual([['cloud-no-address cause'], []])
    expect(codes('plugin type="bridge" failed (add): {"cniVersion":"1.0.0","code":105,"msg":"odd"}')).toEqual([])
    expect(codes('{"cniVersion":"1.0.0","code":999,"msg":"odd"}')).toEqual([])
    expect(codes('{"code":101,"error":"of a web service"}')).toEqual([])
  })
})

describe('what was recognised', () => {
  const text = 'Failed to create pod sandbox: plugin type="frob" failed (add): the frobnicator is out of oil'

  it('is told of a text without a known error', async () => {
    const { code, stdout } = await runCli(['explain', text])
    expect([code, stdout]).toEqual([1, 'not known here\n'])
  })

  it.each(['plugin type="trestle" failed (status): ', 'cni plugin not initialized: '])(
    'names the STATUS of trestle that a runtime passes on behind %j',
    async (wrapped) => {
      const status = `${wrapped}not ready: no IP addresses available in range set: 10.1.0.1-10.1.0.6 [not-ready-pool]`
      const text = `container runtime network not ready: NetworkReady=false message:Network plugin returns error: ${status}`
      const { stdout } = await runCli(['explain', text])
      expect(stdout).toMatch(/^not-ready-pool: .*\n {2}cause: STATUS: every address of a range set is held/)
      expect(stdout.match(/^ {2}causes?/gm)).toHaveLength(1)
    },
  )

  it('is in the JSON document', async () => {
    const { json } = await runCli(['explain', `E1122 10:00:01.123456 811 kubelet.go:7] ${text}: ${full}`, '-o', 'json'])
    expect(json).toMatchObject({
      diagnoses: [{ id: 'host-local-full', role: 'cause', said: full, look: [expect.any(String), expect.any(String)] }],
      recognised: [full],
    })
  })

  it('errors around the cause take a line each', async () => {
    const { stdout } = await runCli([
      'explain',
      'NetworkReady=false message:Network plugin returns error: cni plugin not initialized',
    ])
    expect(stdout).toMatch(/^cni-not-initialized: [\s\S]*\naround it: network-not-ready: the runtime says/)
  })
})
