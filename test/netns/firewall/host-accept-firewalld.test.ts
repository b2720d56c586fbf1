// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept with firewalld: the bridge, or the ranges of routed pods, in its trusted zone at run time, or in
// that of the configuration, unless the administrator chose a zone for it.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, ipamConf, later, netConf } from '../../support/traffic/pods.ts'

const conf = netConf({ firewall: {}, removeWhenEmpty: true })

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** A firewall-cmd that keeps one zone in a file beside it and writes down what it was asked. */
const standIn = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
case "$*" in
  --state) test -e running ;;
  --get-zone-of-source=*) test -e source-zone && cat source-zone ;;
  --get-zone-of-interface=*) test -e running || exit 252; test -e zone && cat zone ;;
  --zone=*--add-source=*) echo "$1" | cut -d= -f2 > source-zone ;;
  --zone=*--remove-source=*) rm source-zone ;;
  --zone=*--add-interface=*) echo "$1" | cut -d= -f2 > zone ;;
  --zone=*--remove-interface=*) rm zone ;;
esac
`

/** What is asked of it, and how often. e2e/firewalld.test.ts has the real one. */
describe('firewalld, played by a stand-in', () => {
  let directory: string
  beforeEach(() => {
    directory = mkdtempSync(`${tmpdir()}/trestle-test-`)
    writeFileSync(`${directory}/firewall-cmd`, standIn, { mode: 0o755 })
  })
  afterEach(() => rmSync(directory, { recursive: true }))

  const file = (name: string) =>
    existsSync(`${directory}/${name}`) ? readFileSync(`${directory}/${name}`, 'utf8') : ''
  const env = () => ({ PATH: `${directory}:${process.env['PATH']}` })

  it('that runs gets the bridge into its trusted zone once, and out of it again', () => {
    writeFileSync(`${directory}/running`, '')
    const a = attach(host, conf, { id: 'a', env: env() })
    expect(file('zone')).toBe('trusted\n')
    const calls = file('calls')
    const b = attach(host, conf, { id: 'b', env: env() })
    expect(file('calls')).toBe(calls)
    for (const pod of [a, b]) expectSilent(later(host, 'DEL', { conf, pod }))
    expect(file('zone')).toBe('')
    expect(file('calls')).toContain('--zone=trusted --remove-interface=cni0')
  })

  it('that runs gets the range of routed pods into its trusted zone once, and out of it again', () => {
    const more = { mode: 'ptp', firewall: {}, removeWhenEmpty: true }
    const routed = ipamConf({ type: 'host-local', subnet: '10.240.0.0/24' }, more)
    writeFileSync(`${directory}/running`, '')
    const a = attach(host, routed, { id: 'a', env: env() })
    expect(file('source-zone')).toBe('trusted\n')
    const calls = file('calls')
    expect(calls).toContain('--zone=trusted --add-source=10.240.0.0/24')
    const b = attach(host, routed, { id: 'b', env: env() })
    expect(file('calls')).toBe(calls)
    for (const pod of [a, b]) expectSilent(later(host, 'DEL', { conf: routed, pod }))
    expect(file('source-zone')).toBe('')
  })

  it('that runs gets the bridge into the zone of firewalldZone, also when that changes', () => {
    const inZone = (firewalldZone: string) => ({ ...conf, firewall: { firewalldZone } })
    writeFileSync(`${directory}/running`, '')
    const a = attach(host, inZone('pods'), { id: 'a', env: env() })
    expect(file('zone')).toBe('pods\n')
    const b = attach(host, inZone('internal'), { id: 'b', env: env() })
    expect(file('zone')).toBe('internal\n')
    expect(file('calls')).toContain('--zone=pods --remove-interface=cni0')
    for (const pod of [a, b]) expectSilent(later(host, 'DEL', { conf: inZone('internal'), pod }))
    expect(file('zone')).toBe('')
  })

  it('that ended, or left the node, is no difference for CHECK; an interface out of its zone is', () => {
    writeFileSync(`${directory}/running`, '')
    const pod = attach(host, conf, { id: 'a', env: env() })
    const check = (more = env()) => host.cni('CHECK', { ...conf, prevResult: pod.result }, { ...pod.call, env: more })
    expectSilent(check())
    rmSync(`${directory}/zone`)
    expectError(check(), 107, 'the accept of cni0 is missing in firewalld zone trusted')
    rmSync(`${directory}/running`)
    expectSilent(check())
    rmSync(`${directory}/firewall-cmd`)
    expectSilent(check())
    expectSilent(later(host, 'DEL', { conf, pod }))
  })

  it.each([
    ['does not run', false, ''],
    ['has the bridge in a zone already', true, 'public\n'],
  ])('that %s is left alone', (_, isRunning, zone) => {
    if (isRunning) writeFileSync(`${directory}/running`, '')
    if (zone !== '') writeFileSync(`${directory}/zone`, zone)
    const pod = attach(host, conf, { id: 'a', env: env() })
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(file('zone')).toBe(zone)
    expect(file('calls')).not.toMatch(/add-interface|remove-interface/)
  })
})
