// SPDX-License-Identifier: Apache-2.0
// State that outlives what it describes, or is seen from elsewhere: after a reboot everything is free
// at once; seen from a mount namespace without the pods' namespaces, nothing is.

import { writeFileSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { until } from '../../support/faults/process-identities.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { addressesOf } from '../../support/locks/parallel.ts'
import { stateEnv } from '../../support/state-layout.ts'

/** Six addresses, one of them the gateway's. */
const conf = { cniVersion: '1.1.0', name: 'small', type: 'trestle', podcidr: '10.95.0.0/29' }
const bootIdFile = '/proc/sys/kernel/random/boot_id'
const full = 5

describe('state', () => {
  let host: Host
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  const fill = (label: string, count = full) =>
    Array.from({ length: count }, (_, at) => {
      const pod = { id: `${label}${at}`, netns: host.pod(`${label}${at}`) }
      return { ...pod, added: host.cni('ADD', conf, pod) }
    })

  it('of an earlier boot holds no address back (plugins#697: addresses leak after a reboot)', async () => {
    const old = fill('old')
    expect(old.map(({ added }) => added.code)).toEqual(old.map(() => 0))
    for (const { netns } of old) host.removePod(netns)
    host.run('ip', ['link', 'del', 'cni0'])
    host.run('nft', ['flush', 'ruleset'])
    // The kernel takes a namespace's links away some time after its name.
    await until('the old links are gone', () => !snapshot(host).links.includes('veth'))
    const other = `${host.stateDir}.boot-id`
    writeFileSync(other, '11111111-2222-3333-4444-555555555555\n')
    execaSync('mount', ['--bind', other, bootIdFile])
    try {
      const now = fill('new')
      expect(now.map(({ added }) => added.stdout)).toEqual(now.map(() => expect.not.stringContaining('"code"')))
      expect(new Set(now.flatMap(({ added }) => addressesOf(added))).size).toBe(full)
      for (const { id, netns } of now) expect(host.cni('DEL', conf, { id, netns }).code).toBe(0)
    } finally {
      execaSync('umount', [bootIdFile])
      execaSync('rm', ['-f', other])
    }
    expect(snapshot(host).links).not.toContain('veth')
  })

  it('of pods whose namespaces are gone is reclaimed when the pool is full, and only then theirs', () => {
    const pods = fill('p')
    for (const { netns } of pods.slice(0, 2)) host.removePod(netns)
    const [freed, live] = [pods.slice(0, 2), pods.slice(2)].map((some) =>
      some.flatMap(({ added }) => addressesOf(added)),
    )
    const added = fill('later', 2).flatMap((each) => addressesOf(each.added))
    expect([...added].sort()).toEqual([...(freed ?? [])].sort())
    expect(live).toHaveLength(3)
    const third = host.cni('ADD', conf, { id: 'third', netns: host.pod('third') })
    expect(third.json).toMatchObject({ msg: expect.stringContaining('no IP addresses available') })
  })

  it('seen from a mount namespace where the pods are plain files is not taken for dead', () => {
    const before = snapshot(host)
    const pods = fill('p')
    const late = host.pod('late')
    const script = `
      for pod in ${pods.map(({ netns }) => netns).join(' ')}; do umount "$pod"; done
      exec "$@"`
    const elsewhere = execaSync(
      'unshare',
      [
        '--mount',
        '--propagation',
        'private',
        'bash',
        '-euc',
        script,
        'elsewhere',
        'nsenter',
        `--net=${host.path}`,
        '--',
        trestlePath(),
      ],
      {
        input: JSON.stringify(conf),
        env: {
          ...stateEnv(host),
          CNI_COMMAND: 'ADD',
          CNI_CONTAINERID: 'late',
          CNI_IFNAME: 'eth0',
          CNI_NETNS: late,
          CNI_PATH: '',
        },
        reject: false,
      },
    )
    expect(elsewhere.exitCode).toBe(1)
    expect(JSON.parse(elsewhere.stdout)).toMatchObject({ msg: expect.stringContaining('no IP addresses available') })
    for (const { netns } of pods) expect(host.inPod(netns, 'ping', ['-c1', '-w10', '10.95.0.1']).code).toBe(0)
    for (const { id, netns } of pods) expect(host.cni('DEL', conf, { id, netns }).code).toBe(0)
    expectNothingLeft(host, before)
  })
})

function trestlePath(): string {
  return execaSync('realpath', [process.env['CNI_BIN'] ?? 'dist/trestle']).stdout
}
