// SPDX-License-Identifier: Apache-2.0
// The unit of `trestle restore` (conf-examples/trestle-restore.service): what systemd reads of it.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const firewalls = ['nftables.service', 'firewalld.service', 'docker.service']

/** Sections to keys to values; comments left out. */
function parsed(text: string): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const sections: Record<string, Record<string, string>> = {}
  let section: Record<string, string> = {}
  for (const line of text.split('\n').filter((each) => each !== '' && !each.startsWith('#'))) {
    const name = /^\[(.+)\]$/.exec(line)?.[1]
    if (name !== undefined) {
      section = {}
      sections[name] = section
    } else section[line.slice(0, line.indexOf('='))] = line.slice(line.indexOf('=') + 1)
  }
  return sections
}

describe('the unit of restore', () => {
  const unit = parsed(readFileSync('conf-examples/trestle-restore.service', 'utf8'))

  it.each(['After', 'PartOf', 'ReloadPropagatedFrom'])('follows every firewall: %s', (key) => {
    expect(unit['Unit']?.[key]?.split(' ')).toEqual(firewalls)
  })

  it('runs at start and at reload, and counts as active in between', () => {
    expect(unit['Service']).toEqual({
      Type: 'oneshot',
      RemainAfterExit: 'yes',
      ExecStart: '/opt/cni/bin/trestle restore',
      ExecReload: '/opt/cni/bin/trestle restore',
      SuccessExitStatus: '1',
    })
  })

  it('is started with the machine and with each firewall', () => {
    expect(unit['Install']?.['WantedBy']?.split(' ')).toEqual(['multi-user.target', ...firewalls])
  })
})
