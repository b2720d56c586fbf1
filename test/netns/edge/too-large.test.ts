// SPDX-License-Identifier: Apache-2.0
// An attachment whose record would be longer than a record may be, and the largest of what is sent by standard input:
// bounded in memory and time, refused with a clear error, and nothing is left.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft, expectUntouched } from '../../support/allowance.ts'
import { environment, type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { attach, ipamConf, later, netConf } from '../../support/traffic/pods.ts'

let host: Host
let netns: string
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
  before = snapshot(host)
})
afterEach(() => host.close())

const many = <T>(count: number, entry: (at: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => entry(at))

it('an ADD whose record could not be read again is refused with code 7', () => {
  const dns = { search: many(1024, (at) => `${at}.${'s'.repeat(1100)}`) }
  expectError(host.cni('ADD', netConf({ dns }), { netns }), 7, 'too large')
  expectNothingLeft(host, before)
})

it('an ADD with as many routes and host ports as there may be works, and so does its DEL', () => {
  const portMappings = many(1024, (at) => ({ hostPort: 20_000 + at, containerPort: 80, protocol: 'tcp' }))
  const routes = many(1024, (at) => ({ dst: `10.${100 + (at >> 8)}.${at & 255}.0/24` }))
  const conf = ipamConf({ type: 'trestle', subnet: '10.240.0.0/24', routes }, { runtimeConfig: { portMappings } })
  const pod = attach(host, conf, { netns })
  expect(pod.result.routes.length).toBeGreaterThan(1023)
  expectSilent(later(host, 'CHECK', { conf, pod }))
  expectSilent(later(host, 'DEL', { conf, pod }))
  expectNothingLeft(host, before)
})

describe('4 MiB on stdin', () => {
  const bytes = 4 * 1024 * 1024 - 300
  const filled = (unit: string) => unit.repeat(Math.floor(bytes / unit.length))
  const head = '{"cniVersion":"1.1.0","name":"net","type":"trestle"'
  const bombs: Readonly<Record<string, string>> = {
    brackets: filled('['),
    'closed brackets': '['.repeat(bytes / 2) + ']'.repeat(bytes / 2),
    objects: filled('{"a":'),
    'port mappings': `${head},"runtimeConfig":{"portMappings":[${filled('{},')}{}]}}`,
    ranges: `${head},"ipam":{"type":"trestle","ranges":[${filled('[{"subnet":"10.0.0.0/24"}],')}[]]}}`,
    routes: `${head},"ipam":{"type":"trestle","routes":[${filled('{"dst":"10.0.0.0/24"},')}{}]}}`,
    VLANs: `${head},"vlanTrunk":[${filled('{"minID":1,"maxID":4094},')}{}]}`,
    'one string without an end': `${head},"a":"${filled('a')}`,
    'one name': `{"cniVersion":"1.1.0","type":"trestle","name":"${filled('n')}"}`,
    'line breaks': `${filled('\n')}x`,
  }
  // An idle Node takes 40 MiB; the address space it reserves is no memory, so the limit is on the heap and the data.
  const limits = ['--data=1073741824', '--cpu=20', '--core=0', '--']

  it.each(Object.keys(bombs))('of %s are refused within 512 MiB and a few seconds of processor time', (name) => {
    const env = environment('ADD', { netns, env: stateEnv(host) })
    const report = `${host.stateDir}.time`
    const words = ['-q', '-o', report, '-f', '%M %U', 'prlimit', ...limits, trestle]
    const answered = host.run(
      'env',
      ['-i', ...Object.entries(env).map(([key, value]) => `${key}=${value}`), '/usr/bin/time', ...words],
      bombs[name],
    )
    const [kibibytes, seconds] = host.run('cat', [report]).stdout.trim().split(' ').map(Number)
    host.run('rm', [report])
    // What is JSON of the right depth is refused by its key.
    expectError(answered, ['one name', 'port mappings', 'ranges', 'routes', 'VLANs'].includes(name) ? 7 : 6)
    expect(answered.stdout.length).toBeLessThan(1000)
    expect(kibibytes).toBeLessThan(512 * 1024)
    expect(seconds).toBeLessThan(10)
    expectUntouched(host, before)
  })
})
