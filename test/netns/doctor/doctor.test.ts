// SPDX-License-Identifier: Apache-2.0
// `trestle doctor` on real damage: each is found and called by its name, nothing else is found beside it, and the cure that
// is printed cures it: nothing is found any more, and the pods have traffic.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type DoctorNode, openDoctorNode } from '../../support/doctor-node.ts'
import { snapshot } from '../../support/host.ts'
import type { Pod } from '../../support/traffic/pods.ts'
import { type Damage, damages } from './damages.ts'

let node: DoctorNode
let a: Pod
let b: Pod
beforeEach(() => {
  node = openDoctorNode()
  a = node.addPod('a', { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] })
  b = node.addPod('b')
})
afterEach(() => node.close())

const filled = (line: string) =>
  line.replace(/\bVETH\b/g, a.hostLink).replace(/\bNS\b/g, a.netns.slice('/run/netns/'.length))

/** Runs a line that has to succeed. */
function done(line: string): void {
  const { exitCode, stderr } = node.sh(filled(line))
  expect(exitCode, `${line}: ${stderr}`).toBe(0)
}

describe('doctor', () => {
  it('finds nothing on a node whose pods have their network', () => {
    expect(node.broken(a, b)).toEqual([])
    expect(node.doctor()).toMatchObject({ code: 0, findings: [], document: { notLooked: [] } })
  })

  it.each(damages)('names it, and its cure cures: $what', ({ make, id, names, cure, isForGood }: Damage) => {
    done(make)
    const found = node.doctor()
    expect(found.ids, JSON.stringify(found.findings)).toEqual([id])
    expect(found.code).toBe(1)
    const [first] = found.findings
    expect(`${first?.on} ${first?.seen}`).toMatch(names)
    if (isForGood) return
    done(first?.run ?? cure ?? 'exit 9')
    expect(node.doctor()).toMatchObject({ code: 0, ids: [] })
    expect(node.broken(a, b)).toEqual([])
  })

  it('changes nothing', () => {
    done('nft flush ruleset && ip link set cni0 down')
    const before = snapshot(node)
    node.doctor()
    expect(snapshot(node)).toEqual(before)
  })
})

describe('what is no fault', () => {
  it.each([
    ['rp_filter 1 with symmetric routes', 'sysctl -qw net.ipv4.conf.all.rp_filter=1'],
    [
      'FORWARD with policy DROP behind an accept',
      'iptables-nft -A FORWARD -s 10.240.0.0/24 -j ACCEPT && iptables-nft -A FORWARD -d 10.240.0.0/24 -j ACCEPT && iptables-nft -P FORWARD DROP',
    ],
    ['a drop off the path', 'iptables-nft -A FORWARD -s 10.66.0.0/16 -j DROP'],
    ['a drop of one port', 'iptables-nft -A FORWARD -s 10.240.0.0/24 -p tcp --dport 25 -j DROP'],
    [
      'a drop in the input hook',
      'iptables-nft -P INPUT ACCEPT && iptables-nft -A INPUT -s 10.240.0.0/24 -p tcp --dport 22 -j DROP',
    ],
  ])('stays silent: %s', (_, make) => {
    done(make)
    expect(node.doctor()).toMatchObject({ code: 0, ids: [] })
    expect(node.broken(a, b)).toEqual([])
  })
})

describe('pairs of faults', () => {
  it.each([
    ['net.ipv4.ip_forward=0', 'ip link set VETH down', ['forwarding-off', 'port-differs']],
    ['net.ipv4.ip_forward=0', 'nft flush ruleset', ['forwarding-off', 'rules-missing']],
    ['net.ipv4.ip_forward=0', 'iptables-nft -P FORWARD DROP', ['forwarding-off', 'firewall-drops']],
    ['net.ipv6.conf.cni0.disable_ipv6=1', 'ip link set VETH nomaster', ['ipv6-disabled', 'port-differs']],
    ['net.ipv6.conf.cni0.disable_ipv6=1', 'ip -n NS route del default', ['ipv6-disabled', 'pod-differs']],
  ])('are both named: %s and %s', (setting, make, ids) => {
    done(`sysctl -qw ${setting}`)
    done(make)
    expect(node.doctor().ids).toEqual(ids)
  })
})
