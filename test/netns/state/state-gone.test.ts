// SPDX-License-Identifier: Apache-2.0
// A state directory that nothing can be written to: no live pod's address or host port is given away, no call ends with
// an internal error, and afterwards every DEL leaves nothing.

import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { reservedPorts, stateOf } from '../../support/state-layout.ts'
import { failing } from '../../support/tool.ts'
import { attach, later, netConf, onHostJson, type Pod } from '../../support/traffic/pods.ts'

const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }]
const conf = netConf({ runtimeConfig: { portMappings } })
/** Each makes a tmpfs useless, and usable again. */
const troubles: readonly (readonly [string, string, (directory: string) => void, (directory: string) => void])[] = [
  [
    'full',
    'size=96k',
    (directory) => execFileSync('sh', ['-c', `dd if=/dev/zero of=${directory}/fill bs=1k 2>/dev/null || true`]),
    (directory) => rmSync(`${directory}/fill`),
  ],
  [
    'without inodes',
    'nr_inodes=60',
    (directory) =>
      execFileSync(
        'sh',
        ['-c', `mkdir ${directory}/fill; i=0; while touch ${directory}/fill/$i 2>/dev/null; do i=$((i+1)); done`],
        {
          stdio: 'ignore',
        },
      ),
    (directory) => rmSync(`${directory}/fill`, { recursive: true }),
  ],
  [
    'read-only',
    'size=1m',
    (directory) => execFileSync('mount', ['-o', 'remount,ro', directory]),
    (directory) => execFileSync('mount', ['-o', 'remount,rw', directory]),
  ],
]

describe.each(troubles)('a state directory that is %s', (how, options, spoil, mend) => {
  let host: Host
  let before: ReturnType<typeof snapshot>
  let pod: Pod
  beforeEach(() => {
    host = openHost()
    execFileSync('mount', ['-t', 'tmpfs', '-o', `mode=700,${options}`, 'tmpfs', host.stateDir])
    before = snapshot(host)
    pod = attach(host, conf)
  })
  afterEach(() => {
    execFileSync('umount', ['-l', host.stateDir])
    host.close()
  })

  it('keeps what it has: calls fail with a known code, DEL takes away what can be unlinked, all work again afterwards', () => {
    const other = host.pod('other')
    const running = snapshot(host)
    spoil(host.stateDir)
    expectError(host.cni('ADD', netConf(), { id: 'c2', netns: other }), 5)
    expect({ ...snapshot(host), state: '' }).toEqual({ ...running, state: '' })
    expectError(host.cni('STATUS', netConf()), 50)
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [{ containerID: 'c1', ifname: 'eth0' }] }))
    const deleted = later(host, 'DEL', { conf, pod })
    // Nothing can be unlinked there: record, address and port stay, and DEL is sent again.
    if (how === 'read-only') expectError(deleted, 11)
    else expectSilent(deleted)
    expect(onHostJson(host, ['link', 'show', 'type', 'veth'])).toEqual([])
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout).not.toContain('8080')
    expect(attachmentFiles(host)).toHaveLength(how === 'read-only' ? 3 : 0)

    mend(host.stateDir)
    expectSilent(host.cni('STATUS', netConf()))
    const added = attach(host, netConf(), { id: 'c2', netns: other })
    if (how === 'read-only') expect(added.address).not.toBe(pod.address)
    for (const each of [pod, added]) expectSilent(later(host, 'DEL', { conf, pod: each }))
    expectNothingLeft(host, before)
  })

  it('has no room for what a DEL cannot remove: 11, and record, address and port stay for the next one', () => {
    spoil(host.stateDir)
    const nft = failing('nft')
    try {
      expectError(later(host, 'DEL', { conf, pod, call: { env: nft.env } }), 11)
    } finally {
      nft.close()
    }
    expect(attachmentFiles(host)).toHaveLength(3)
    mend(host.stateDir)
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })
})

/** Records, reserved addresses and reserved host ports. */
function attachmentFiles(host: Host): readonly string[] {
  const { names } = stateOf(host, 'net')
  return [...names('attachments'), ...names('pending'), ...names('addresses'), ...reservedPorts(host)]
}
