// SPDX-License-Identifier: Apache-2.0
// Errors as kubelet, the runtimes and the kernel print them, and what `trestle explain` makes of them.

import { describe, expect, it } from 'vitest'
import { knownErrors } from '../../../../src/cli/explain/known-errors.ts'
import { recognise } from '../../../../src/cli/explain/recognise.ts'
import { checks } from '../../../../src/cli/lint/checks.ts'
import { runCli } from '../../../support/collect.ts'

const sandbox = 'rpc error: code = Unknown desc = failed to setup network for sandbox "3fe3"'

/** Texts and the ids and codes in them. */
const texts: readonly (readonly [text: string, ids: readonly string[], codes?: readonly number[]])[] = [
  [
    'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized',
    ['cni-not-initialized', 'network-not-ready'],
  ],
  [
    `cni config load failed: failed to load CNI config list file /etc/cni/net.d/10-a.conflist: error parsing configuration list: invalid character '}' looking for beginning of object key string: invalid cni config: failed to load cni config`,
    ['config-not-json', 'cni-not-initialized'],
  ],
  [
    "failed to load CNI config list file /etc/cni/net.d/10-a.conflist: error parsing configuration list: no 'plugins' key",
    ['no-plugins', 'config-not-json'],
  ],
  ['cni config load failed: no network config found in /etc/cni/net.d', ['no-network-config', 'cni-not-initialized']],
  ['no CNI configuration file in /etc/cni/net.d/. Has your network provider started?', ['no-network-config']],
  ['network type not found in /etc/cni/net.d/10-a.conf: invalid cni config', ['no-type']],
  ['no net configuration with name "pods" in /etc/cni/net.d', ['no-such-network']],
  [
    `${sandbox}: plugin type="bridge" failed (add): failed to find plugin "bridge" in path [/opt/cni/bin]`,
    ['plugin-not-found'],
  ],
  [`${sandbox}: fork/exec /opt/cni/bin/trestle: exec format error`, ['exec-format']],
  [`${sandbox}: fork/exec /opt/cni/bin/trestle: permission denied`, ['plugin-may-not-run']],
  ['open /opt/cni/bin/bridge: text file busy', ['text-file-busy']],
  ['plugin bridge does not support config version "1.1.0"', ['version-not-supported']],
  ['rpc error: code = Unknown desc = failed to find network info for sandbox "3fe3"', ['no-pod-address']],
  ['Startup probe failed: dial tcp 10.244.1.58:7878: i/o timeout', ['probe-times-out']],
  [
    'Liveness probe failed: Get "http://10.240.0.5:8080/healthz": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
    ['probe-times-out'],
  ],
  ['IPv4: martian source 10.240.0.5 from 192.0.2.10, on dev cni0', ['martian-source']],
  ['10.1.2.3 has been allocated to 3fe3, duplicate allocation is not allowed', ['host-local-duplicate']],
  [
    'failed to open netns "/var/run/netns/cni-1": failed to Statfs "/var/run/netns/cni-1": no such file or directory',
    ['netns-gone'],
  ],
  ['failed to add IP addr {2001:db8::2/64} to "eth0": permission denied', ['ipv6-disabled']],
  ['failed to connect "veth1" to bridge cni0: exchange full', ['bridge-full']],
  ['Another app is currently holding the xtables lock. Perhaps you want to use the -w option?', ['xtables-lock']],
  [
    'plugin type="trestle" failed (add): netplugin failed: "/opt/cni/bin/trestle: error while loading shared libraries: libatomic.so.1: cannot open shared object file: No such file or directory\\n"',
    ['library-missing'],
  ],
  [
    'networkPlugin cni failed to set up pod "a_b" network: netplugin failed with no error message',
    ['no-error-message'],
  ],
  [
    'RunPodSandbox from runtime service failed: rpc error: code = DeadlineExceeded desc = context deadline exceeded',
    ['call-too-long'],
  ],
  [
    `${sandbox}: plugin type="trestle" failed (add): no IP addresses available in range set: 10.1.0.1-10.1.0.6`,
    [],
    [101],
  ],
  [`${sandbox}: plugin type="trestle" failed (add): container 3fe3 already has eth0 on network pods`, [], [103]],
  [`${sandbox}: plugin type="trestle" failed (add): host port 8080/tcp is taken; by ns/web`, [], [104]],
  ['{"cniVersion":"1.1.0","code":108,"msg":"\\"cni0\\" already exists but is not a bridge"}', [], [108]],
  ['msg="{\\"cniVersion\\":\\"1.1.0\\",\\"code\\":109}"', [], [109]],
]

describe('a pasted text', () => {
  it.each(texts.map(([text, ids, codes = []]) => ({ text, ids, codes })))('$text', ({ text, ids, codes }) => {
    const found = recognise(text)
    expect(found.errors.map(({ id }) => id)).toEqual(ids)
    expect(found.codes.map(({ code }) => code)).toEqual(codes)
  })

  it('there is one for every known error', () => {
    const seen = new Set(texts.flatMap(([, ids]) => ids))
    expect(knownErrors.filter(({ id }) => !seen.has(id)).map(({ id }) => id)).toEqual([])
  })

  it('of a million letters is answered at once', () => {
    const text = 'liveness probe failed '.repeat(50_000)
    expect(recognise(text).errors).toEqual([])
  })
})

describe('the table', () => {
  it('has ids of its own, and names findings that there are', () => {
    const ids = knownErrors.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids.filter((id) => id in checks)).toEqual([])
  })
})

describe('trestle explain TEXT', () => {
  it('prints cause and cure of each error in it, quoted or as words', async () => {
    const text = 'failed to find plugin "bridge" in path [/opt/cni/bin]'
    for (const args of [[text], text.split(' ')]) {
      const { code, stdout } = await runCli(['explain', ...args])
      expect(code).toBe(0)
      expect(stdout).toMatch(/^plugin-not-found: .*\n {2}cause: .*\n {2}what to do: .*\n {2}findings .*plugin-missing/)
    }
  })

  it('takes the id that it prints', async () => {
    expect((await runCli(['explain', 'no-pod-address'])).stdout).toContain('no address on eth0')
  })

  it('exits 1 for a text with nothing that it knows, in both formats', async () => {
    const { code, stdout } = await runCli(['explain', 'all is well'])
    expect([code, stdout]).toEqual([1, 'no error that is known here is in this text\n'])
    const asJson = await runCli(['explain', 'all is well', '-o', 'json'])
    expect(asJson).toMatchObject({ code: 1, json: { errors: [], codes: [], exitCode: 1 } })
  })

  it('as JSON says which words it knew', async () => {
    const { json } = await runCli(['explain', 'E1121 cni plugin not initialized', '-o', 'json'])
    expect(json).toMatchObject({ errors: [{ id: 'cni-not-initialized', said: 'cni plugin not initialized' }] })
    expect(JSON.stringify(json)).not.toContain('pattern')
  })
})
