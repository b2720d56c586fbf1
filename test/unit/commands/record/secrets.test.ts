// SPDX-License-Identifier: Apache-2.0
// Shapes of secrets. Those of the second file were written before the rules that mask them.

import { describe, expect, it } from 'vitest'
import { isSecretName, masked, maskedWords } from '../../../../src/recording/secrets.ts'
import known from './secret-shapes.json' with { type: 'json' }
import unseen from './secret-shapes-unseen.json' with { type: 'json' }

const all = [...known, ...unseen] as [string, string][]

describe('secrets', () => {
  it('are of 60 shapes', () =>
    expect(all.map(([, text]) => text).filter((text) => text.includes('CANARY'))).toHaveLength(60))

  it.each(all)('%s is masked', (_, text) => {
    expect(masked(text)).not.toContain('CANARY')
    expect(masked(text)).toContain('***')
  })

  it.each(all)('%s is masked as part of a text around it', (_, text) => {
    expect(masked(`before\n${text}\nafter`)).not.toContain('CANARY')
    expect(masked(JSON.stringify({ said: text, next: 1 }))).not.toContain('CANARY')
  })

  it('of a command line are masked in the word after the option', () => {
    const words = ['kubectl', '--token', 'CANARY', '--server=https://u:CANARY@x', '-n', 'default']
    expect(maskedWords(words)).toEqual(['kubectl', '--token', '***', '--server=https://***@x', '-n', 'default'])
  })

  it.each(['GITHUB_TOKEN', 'AWS_SECRET_ACCESS_KEY', 'DB_PASS', 'Authorization', 'tlsKey', 'example.com/passkey'])(
    '%s is such a name',
    (name) => expect(isSecretName(name)).toBe(true),
  )
})

/** A record of these is replayed as it is. */
describe('no secret', () => {
  const settings = [
    ...['net.ipv4.tcp_syncookies', 'net/ipv4/tcp_syncookies', 'net.sctp.cookie_hmac_alg', 'net.sctp.auth_enable'],
    ...['net.sctp.cookie_preserve_enable', 'net/sctp/addip_noauth_enable'],
  ]
  it.each(settings)('is the setting %s', (name) => {
    const conf = JSON.stringify({ type: 'trestle', tuning: { sysctl: { [name]: '1' } } })
    expect(masked(conf)).toBe(conf)
    expect(masked(`failed on ${conf}`)).toBe(`failed on ${conf}`)
    const lines = `sysctl -w ${name}=1\n${name} = 1\n${name}: 1\n/proc/sys/${name.replaceAll('.', '/')}: 1\n`
    expect(masked(lines)).toBe(lines)
  })

  it.each(['{"name":"sk-production","type":"trestle"}', 'K8S_POD_NAME=sk-predictor-7d9f8b6c5d-x2k9l'])(
    'is the name in %s',
    (text) => expect(masked(text)).toBe(text),
  )
})

it.each(['net.ipv6.conf.all.stable_secret', 'net/ipv6/conf/eth0/stable_secret', 'net.ipv4.tcp_fastopen_key'])(
  'the setting %s is a secret',
  (name) => {
    expect(masked(JSON.stringify({ sysctl: { [name]: 'CANARY' } }))).not.toContain('CANARY')
    expect(masked(`sysctl -w ${name}=CANARY`)).not.toContain('CANARY')
    expect(masked(`said {"${name}":"CANARY"}`.replaceAll('net/ipv6/conf/eth0/', ''))).not.toContain('CANARY')
  },
)

it('leaves JSON that can be read', () => {
  const text = '{"credentials": {"a": {"b": "x"}}, "auth": {"secret": 1}, "tokens": null, "mtu": 1500}'
  expect(JSON.parse(masked(text))).toEqual({ credentials: '***', auth: '***', tokens: null, mtu: 1500 })
})

describe('masking', () => {
  const parts = ['a.-', '"', '\\"', 'token', '://', '"token":', ' -', '{"a":"', '\\\\"', 'auth ', 'a:']
  const runs = [
    '\n',
    ' ',
    '\\',
    'x-',
    'eyJaaaaaa-',
    '-----BEGIN PRIVATE KEY-----',
    '--token ',
    '<token>',
    'bearer ',
    '- ',
  ]
  // Processor time: a loaded machine takes longer. An expression that tries each start with each end takes minutes.
  it.each([...parts, ...runs])('64 KB of %j take no time that grows with its square', (part) => {
    const start = process.cpuUsage()
    masked(part.repeat(65_536 / part.length))
    expect(process.cpuUsage(start).user / 1000).toBeLessThan(2000)
  })
})

describe('what is no secret stays', () => {
  it.each([
    '{"cniVersion":"1.1.0","name":"n","type":"trestle","podcidr":"10.1.0.0/24","macvlanMode":"passthru"}',
    'add element inet trestle ports4 { tcp . 8080 : 10.1.0.2 . 80 }',
    'link add veth0 type veth peer name eth0 netns /proc/self/fd/3',
    '{"code":7,"msg":"podcidr: \\"x\\" is not a range [value-invalid]","details":"use 10.240.0.0/24"}',
    'plugin type="flannel" failed (add): open /run/flannel/subnet.env: no such file or directory',
    '{"author":"x","authority":"y"}',
    'IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=1-2',
    'Unexpected token } in JSON at position 5',
    'cannot read the token: no such file or directory',
  ])('%s', (text) => expect(masked(text)).toBe(text))
})
