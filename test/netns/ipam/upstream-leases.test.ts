// SPDX-License-Identifier: Apache-2.0
// A node that was switched from the upstream plugins: reservations in host-local's directory.

import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, ipamConf } from '../../support/traffic/pods.ts'

describe.each([
  ['the default directory', '/var/lib/cni/networks', undefined],
  ['a directory of the configuration', '/run/leases', '/run/leases'],
])('reservations of host-local in %s', (_, directory, dataDir) => {
  const conf = ipamConf({ type: 'host-local', subnet: '10.240.0.0/29', dataDir })
  let host: Host
  beforeEach(() => {
    host = openHost()
    mkdirSync(`${directory}/net`, { recursive: true })
    for (const at of [2, 3, 4]) writeFileSync(`${directory}/net/10.240.0.${at}`, `old${at}\r\neth0`)
    writeFileSync(`${directory}/net/last_reserved_ip.0`, '10.240.0.4')
    writeFileSync(`${directory}/net/lock`, '')
  })
  afterEach(() => {
    host.run('rm', ['-rf', directory])
    mkdirSync(directory, { recursive: true })
    host.close()
  })
  const file = (at: number) => `${directory}/net/10.240.0.${at}`

  it('are not given out, nor by request', () => {
    expect(attach(host, conf, { id: 'a' }).address).toBe('10.240.0.5')
    expect(attach(host, conf, { id: 'b' }).address).toBe('10.240.0.6')
    expectError(host.cni('ADD', conf, { id: 'c', netns: host.pod('c') }), 101)
    expectError(host.cni('ADD', conf, { id: 'c', netns: host.pod('d'), args: 'IP=10.240.0.3' }), 102, '10.240.0.3')
    const full = host.cni('STATUS', conf)
    expectError(full, 50)
    expect(full.stdout).toContain('3 of them by host-local')
  })

  it('are released by the DEL of their pod, and of nobody else', () => {
    expectSilent(host.cni('DEL', conf, { id: 'old3', ifName: 'net1' }))
    expectSilent(host.cni('DEL', conf, { id: 'old', netns: '' }))
    expect([2, 3, 4].map((at) => existsSync(file(at)))).toEqual([true, true, true])
    expectSilent(host.cni('DEL', conf, { id: 'old3', netns: '' }))
    expect([2, 3, 4].map((at) => existsSync(file(at)))).toEqual([true, false, true])
  })

  it('in the old format, with the container id alone, are released for every interface', () => {
    writeFileSync(file(2), 'old2')
    expectSilent(host.cni('DEL', conf, { id: 'old2', ifName: 'net5' }))
    expect(existsSync(file(2))).toBe(false)
  })

  it('from before the machine started no longer count', () => {
    utimesSync(file(2), 1000, 1000)
    const given = ['a', 'b', 'c'].map((id) => attach(host, conf, { id }).address)
    expect(given).toEqual(['10.240.0.5', '10.240.0.6', '10.240.0.2'])
  })

  it('say where to go on: neighbours may still know the address of a pod that just went by its MAC', () => {
    for (const at of [2, 3, 4]) expectSilent(host.cni('DEL', conf, { id: `old${at}`, netns: '' }))
    expect(attach(host, conf, { id: 'a' }).address).toBe('10.240.0.5')
    writeFileSync(`${directory}/net/last_reserved_ip.0`, '10.240.0.2')
    expect(attach(host, conf, { id: 'b' }).address, 'its own last one counts from then on').toBe('10.240.0.6')
  })

  it('of other networks are not released, and files that are no address mean nothing', () => {
    mkdirSync(`${directory}/other`)
    const theirs = `${directory}/other/10.240.0.9`
    writeFileSync(theirs, 'old3\r\neth0')
    writeFileSync(`${directory}/net/10.240.0.5.bak`, 'x\r\neth0')
    expect(attach(host, conf, { id: 'a' }).address).toBe('10.240.0.5')
    expectSilent(host.cni('DEL', conf, { id: 'old3', netns: '' }))
    expect([existsSync(theirs), existsSync(file(3))]).toEqual([true, false])
  })
})
