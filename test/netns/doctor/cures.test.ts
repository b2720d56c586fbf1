// SPDX-License-Identifier: Apache-2.0
// The command that doctor prints against a firewall lets pods pass, and opens nothing that an administrator closed.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type DoctorNode, openDoctorNode } from '../../support/doctor-node.ts'
import type { Pod } from '../../support/traffic/pods.ts'
import { outside, pings, pingsOnce, seenBy, serve } from '../../support/traffic/traffic.ts'

/** An address beyond the node that pods are not to reach. */
const closed = '192.0.2.2'

let node: DoctorNode
let pod: Pod
beforeEach(() => {
  node = openDoctorNode({ podcidr: '10.240.0.0/24' })
  pod = node.addPod('a')
})
afterEach(() => node.close())

function done(line: string): void {
  const { exitCode, stderr } = node.sh(line)
  expect(exitCode, `${line}: ${stderr}`).toBe(0)
}

/** Makes the one fault that doctor finds, and runs what it prints against that. */
function cured(make: string): void {
  done(make)
  const { ids, findings } = node.doctor()
  expect(ids).toEqual(['firewall-drops'])
  done(findings.find(({ id }) => id === 'firewall-drops')?.run ?? 'exit 9')
  expect(node.doctor().ids).toEqual([])
}

const chainOf = (hook: string, words: string) =>
  `nft add table inet fw && nft add chain inet fw f '{ type filter hook ${hook} priority ${words} ; }'`
const drop = 'policy drop'
const nftClosed = `nft add rule inet fw f ip daddr ${closed} drop`

describe('in the forward hook', () => {
  it.each([
    [
      'a policy of iptables behind a chain of the administrator',
      `iptables-nft -P FORWARD DROP && iptables-nft -N DOCKER-USER && iptables-nft -A FORWARD -j DOCKER-USER && iptables-nft -A DOCKER-USER -d ${closed} -j DROP`,
    ],
    [
      'a last rule of iptables',
      `iptables-nft -A FORWARD -d ${closed} -j DROP && iptables-nft -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT && iptables-nft -A FORWARD -j REJECT`,
    ],
    ['a policy of nft', `${chainOf('forward', `0 ; ${drop}`)} && ${nftClosed}`],
    ['a policy of nft before the marks of trestle', `${chainOf('forward', `-200 ; ${drop}`)} && ${nftClosed}`],
    ['a last rule of nft', `${chainOf('forward', '0')} && ${nftClosed} && nft add rule inet fw f counter drop`],
  ])('%s', (_, make) => {
    cured(make)
    expect(pings(node, pod.netns, outside.far4), 'what is to pass').toBe(true)
    expect(pingsOnce(node, pod.netns, closed), 'what is closed').toBe(false)
  })
})

/** The rules of the administrator, as both tools list them. */
const listed = () => node.sh('iptables-nft -S FORWARD; nft list chain inet fw f').stdout

it.each([
  ['a wider range, of nft', `${chainOf('forward', '0')} && nft add rule inet fw f`, 'ip saddr 10.0.0.0/8 drop'],
  ['a wider range, of iptables', 'iptables-nft', '-A FORWARD -s 10.0.0.0/8 -j DROP'],
  ['new connections of everybody', 'iptables-nft', '-A FORWARD -m conntrack --ctstate NEW -j DROP'],
])('a rule that closes more than the pods stays: %s', (_, make, rule) => {
  cured(`${make} ${rule}`)
  expect(pings(node, pod.netns, outside.far4), 'what is to pass').toBe(true)
  expect(listed(), 'what is closed').toContain(rule)
})

it('against a drop that an administrator wrote for Docker no command is printed', () => {
  done('iptables-nft -N DOCKER-USER && iptables-nft -A FORWARD -j DOCKER-USER && iptables-nft -A DOCKER-USER -j DROP')
  const { findings } = node.doctor()
  expect(findings.map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'firewall-drops', run: undefined }])
})

describe('in the input hook', () => {
  /** Whether a pod opens a connection to a server on the node. */
  const reaches = (lastMs?: number) => seenBy(node, pod.netns, '10.240.0.1', lastMs) !== ''

  it('lets pods answer the node and ping it, and keeps its ports closed', async () => {
    node.atClose(await serve(node.path))
    cured(chainOf('input', `0 ; ${drop}`))
    expect(pings(node, pod.netns, '10.240.0.1')).toBe(true)
    expect(node.sh(`ping -n -c1 -w10 ${pod.address}`).exitCode).toBe(0)
    expect(reaches(2000)).toBe(false)
    done('nft delete table inet fw')
    expect(reaches(), 'without the firewall').toBe(true)
  })

  it('lets answers of pods pass where an administrator chose what pods open', () => {
    done(`${chainOf('input', `0 ; ${drop}`)} && nft add rule inet fw f ct state established,related accept`)
    const { ids, findings } = node.doctor()
    expect(ids).toEqual([])
    expect(findings.map(({ id, run }) => ({ id, run }))).toEqual([{ id: 'node-firewall', run: undefined }])
  })
})
