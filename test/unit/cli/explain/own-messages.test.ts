// SPDX-License-Identifier: Apache-2.0
// Every message of the CNI path leads `trestle explain` to its code: kubelet prints messages, and no codes.

import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { recognise } from '../../../../src/cli/explain/recognise.ts'
import { readConfig } from '../../../../src/cni/config/config.ts'
import { CniCode, toCniError, withoutDoneWords } from '../../../../src/cni/model/error.ts'
import { readInvocation } from '../../../../src/cni/model/invocation.ts'

/** The funnel's for what no code path makes; and STATUS's, whose reasons are below. */
const others = ['an empty list of errors', 'not ready: ']

interface Message {
  readonly name: string
  readonly code: number
  readonly text: string
}

/** `new CniError(CniCode.x, 'text'` and its templates with a word in place of each value. */
function messagesOf(file: string): readonly Message[] {
  const found = readFileSync(file, 'utf8').matchAll(/new CniError\(\s*CniCode\.(\w+),\s*(?:'([^'\n]*)'|`([^`\n]*)`)/g)
  return [...found].map(([, name = '', plain, template = '']) => {
    const filled = template.replace(/\$\{([^}]*)\}/g, (_, value: string) => (value.includes('.code') ? 'EIO' : '7'))
    return { name, code: CniCode[name as keyof typeof CniCode], text: plain ?? filled }
  })
}

const messages = globSync('src/{cni,plan,compile,system,commands}/**/*.ts')
  .flatMap(messagesOf)
  // A message made of values only, like `KEY: PROBLEM`, has no words of its own.
  .filter(({ text }) => /[a-z]/.test(text.replaceAll('7', '').replaceAll('EIO', '')))
  .filter(({ text }) => !others.some((part) => text.includes(part)))

const pasted = (text: string) =>
  `E1121 rpc error: code = Unknown desc = plugin type="trestle" failed (add): ${text}; details`

describe('a message of a call', () => {
  it('there are messages', () => {
    expect(messages.length).toBeGreaterThan(50)
  })

  it.each(messages)('$name: $text', ({ code, text }) => {
    expect(recognise(pasted(text)).codes.map((each) => each.code)).toContain(code)
  })
})

describe('a message of DEL', () => {
  const hyphened = (text: string) => withoutDoneWords({ cniVersion: '1.1.0', code: 1, msg: text }).msg
  it('is known with its hyphen too', () => {
    const said = messages.map(({ text, code }) => [hyphened(text), code] as const)
    const unknown = said.filter(([text, code]) => !recognise(pasted(text)).codes.some((each) => each.code === code))
    expect(unknown).toEqual([])
    expect(recognise(pasted('cannot run nft: not-found')).codes.map(({ code }) => code)).toContain(100)
  })
})

const network = { cniVersion: '1.0.0', name: 'n', type: 'trestle' }
const [CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME] = ['c', '/run/netns/c', 'eth0']
const call = readInvocation({ CNI_COMMAND: 'ADD', CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME })

describe('STATUS', () => {
  it.each([
    'nft not found',
    'ip, nft not found',
    'CAP_NET_ADMIN and CAP_SYS_ADMIN missing',
    'no IP addresses available in range set 10.9.0.1-10.9.0.6',
    'the state directory /run/trestle cannot be used',
    'bridge cni0 has 1023 of 1023 ports',
  ])('not ready: %s', (why) => {
    const text = `reason:NetworkPluginNotReady message:Network plugin returns error: not ready: ${why}`
    expect(recognise(text).codes.map(({ code }) => code)).toContain(CniCode.notAvailable)
  })
})

it('an address in no range is 102', () => {
  const found = recognise(pasted('failed to allocate all requested IPs: 10.8.0.3'))
  expect(found.codes.map(({ code }) => code)).toEqual([CniCode.addressUnavailable])
})

describe('a configuration that is refused', () => {
  it.each([
    [{ ...network, podcidr: '10.9.0.0/99' }],
    [{ ...network, podcidr: '10.9.0.5/24' }],
    [{ ...network, podcidr: '10.9.0.0/24', ipMasq: 'yes' }],
    [{ ...network, mode: 'bridged' }],
    [{ ...network, bridge: 'a-name-that-is-too-long' }],
    [{ ...network, hairpinMode: true, promiscMode: true }],
    [{ ...network, podcidr: '10.9.0.0/24', tuning: { sysctl: { 'kernel.hostname': 'x' } } }],
    [{ ...network, cniVersion: '9.9.9' }],
    [{ ...network, name: '' }],
    [{ ...network, portmap: { externalSetMarkChain: 'X' } }],
  ])('%j', (conf) => {
    let code: number | undefined
    try {
      readConfig(JSON.stringify(conf), call)
    } catch (thrown) {
      const { message, ...error } = toCniError(thrown)
      code = error.code
      expect(recognise(pasted(message)).codes.map((each) => each.code)).toEqual([code])
    }
    expect(code).toBeDefined()
  })
})

it('libcni may name the network as well', () => {
  const text = 'plugin type="trestle" name="pods" failed (add): podcidr: given together with ipam; use one of the two'
  expect(recognise(text).codes.map(({ code }) => code)).toEqual([CniCode.invalidConfig])
})

describe('what is not ours', () => {
  it.each(['exit code 1', 'HTTP probe failed with statuscode: 503', 'pod web: image "x" is not present'])(
    '%s',
    (text) => {
      expect(recognise(text)).toMatchObject({ errors: [], codes: [] })
    },
  )

  it('and an own message without a known word gets the way to go on', () => {
    const { errors, codes } = recognise('plugin type="trestle" failed (add): something quite new')
    expect([errors.map(({ id }) => id), codes]).toEqual([['trestle-failed'], []])
  })

  it('a failed command is 100 by what it quotes', () => {
    const text = "set eth0 up: Operation not supported; ip in the pod's network namespace, input:\nlink set"
    expect(recognise(text).codes.map(({ code }) => code)).toEqual([CniCode.commandFailed])
  })
})
