// SPDX-License-Identifier: Apache-2.0
// The errors of DEL. containerd takes a DEL for done whose error says "not found", or, without a namespace, "no such
// file or directory" (go-cni, Remove): an error of ours must say neither, or what it is about is never tried again. A
// delegated plugin may have said it.

import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Finished, type Host, openHost } from '../../support/host.ts'
import { installIpam, refuse } from '../../support/ipam-plugin.ts'
import { expectError } from '../../support/outcome.ts'
import { ipamConf, netConf } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** A state directory that nothing can be written to. */
function withReadOnlyState(play: () => Finished): Finished {
  execaSync('mount', ['--bind', host.stateDir, host.stateDir])
  execaSync('mount', ['-o', 'remount,bind,ro', host.stateDir])
  try {
    return play()
  } finally {
    execaSync('umount', [host.stateDir])
  }
}

describe('an error of DEL is one document, and no words that a runtime takes for done (cni#670: errors are swallowed)', () => {
  it('for a delegated plugin that is missing', () => {
    const conf = ipamConf({ type: 'absent' })
    expectStays(host.cni('DEL', conf, { netns: '', path: '/nowhere' }), 105)
  })

  const broken = 'sh: 1: lease-tool: not found'
  it.each([
    ['an error object', refuse(11, 'open /var/lib/leases: no such file or directory'), 11],
    ['an error object with details', `echo '{"code":105,"msg":"x","details":"${broken}"}'; exit 1`, 105],
    ['stderr only', `echo '${broken}' >&2; exit 127`, 105],
    ['something else on stdout', 'echo "Error: No such file or directory, lease not found"; exit 1', 105],
  ])("for a delegated plugin's own words: %s", (_, line, code) => {
    const ipam = installIpam({ DEL: line })
    try {
      expectStays(host.cni('DEL', ipamConf({ type: 'scripted' }), { netns: '', path: ipam.path }), code)
      expect(ipam.calls()).toEqual(['DEL'])
    } finally {
      ipam.remove()
    }
  })

  it('for state that cannot be written', () => {
    const call = { netns: host.pod('a') }
    expect(host.cni('ADD', netConf(), call).code).toBe(0)
    expectStays(
      withReadOnlyState(() => host.cni('DEL', netConf(), call)),
      11,
    )
    expect(host.cni('DEL', netConf(), call).code).toBe(0)
  })

  it.each([
    ['{', 6],
    [JSON.stringify(netConf({ name: '' })), 7],
    [JSON.stringify(netConf({ cniVersion: '9.0.0' })), 1],
  ])('for the configuration %s', (conf, code) => expectStays(host.cni('DEL', conf, { netns: '' }), code))

  it('for a container id that is none', () => expectStays(host.cni('DEL', netConf(), { id: '../x', netns: '' }), 4))
})

/** Fails unless it is an error of this code that containerd takes for one. */
function expectStays(finished: Finished, code: number): void {
  expectError(finished, code)
  expect(finished.stdout).not.toMatch(/not found|no such file or directory/)
}
