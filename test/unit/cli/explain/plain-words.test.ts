// SPDX-License-Identifier: Apache-2.0
// Errors in words that nobody wrote down: known by what was to be done and how it failed, where a text speaks of
// networks at all.

import { describe, expect, it } from 'vitest'
import { knownErrors } from '../../../../src/cli/explain/catalogue/known-errors.ts'
import { plainWords } from '../../../../src/cli/explain/plain-words.ts'
import { causesOf } from './texts.ts'

const failed = (words: string): string => `plugin type="acme" name="mynet" failed (add): ${words}`

describe('an error without known words', () => {
  it.each([
    ['interface-exists', 'wiring step 2: could not instantiate the host bridge: file exists'],
    ['link-gone', 'no way to enslave interface acme0: device does not exist'],
    ['link-busy', 'on renaming of the link acme-tmp to eth0: device or resource busy'],
    ['kernel-module', 'acme: creating a geneve port: operation not supported'],
    ['netlink-permission', 'acme: the link of the pod: RTM_SETLINK: operation not permitted'],
    ['netns-gone', 'acme: look into network namespace of web: no such file or directory'],
    ['ipv6-disabled', 'acme: could not put address fd00:1:2::5/64 there: permission denied'],
    ['route-refused', 'acme: while adding the second of 2 routes: network is unreachable'],
    ['sysctl-refused', 'acme: write to /proc/sys/net/core/somaxconn: read-only file system'],
    ['etcd-unreachable', 'acme: lookup in etcd cluster of this zone: no route to host'],
    ['agent-port-taken', 'acme-agent ended: listen on 0.0.0.0:9095 for netns events: address already in use'],
    ['plugin-panic', 'panic: runtime error: slice bounds out of range [3:1]'],
  ])('is %s: %s', (id, words) => {
    expect(causesOf(failed(words))).toEqual([id])
  })

  it.each([
    'acme: could not set up the pod: quota of zone b',
    'acme: file exists',
    'acme: permission denied',
    'acme: creating the bridge took 3 s. Config of zone b was read. All is well, and nothing is to be done, wherever one looks at it from: the file exists',
  ])('stays unknown where what was to be done and how it failed do not stand together: %s', (words) => {
    expect(causesOf(failed(words))).toEqual([])
  })

  it('stays unknown in a text that does not speak of networks', () => {
    expect(causesOf('could not instantiate the host bridge of the theme: file exists')).toEqual([])
  })

  it('is asked for last: known words count first', () => {
    const text = failed('creating the bridge: file exists; failed to find plugin "acme" in path [/opt/cni/bin]')
    expect(causesOf(text)).toEqual(['plugin-not-found'])
  })
})

it('each of these words means an error that is known', () => {
  const ids = knownErrors.map(({ id }) => id)
  expect(plainWords.filter(({ id }) => !ids.includes(id))).toEqual([])
})
