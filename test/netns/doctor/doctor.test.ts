// SPDX-License-Identifier: Apache-2.0
// `trestle doctor` changes nothing, and says nothing of what is no fault. What it says of faults: faults/.

import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type DoctorNode, openDoctorNode } from '../../support/doctor-node.ts'
import { snapshot } from '../../support/host.ts'
import { stateWord } from '../../support/state-layout.ts'
import type { Pod } from '../../support/traffic/pods.ts'

let node: DoctorNode
let a: Pod
let b: Pod
beforeEach(() => {
  node = openDoctorNode()
  a = node.addPod('a', { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] })
  b = node.addPod('b')
})
afterEach(() => node.close())

/** Runs a line that has to succeed. */
function done(line: string): void {
  const { exitCode, stderr } = node.sh(line)
  expect(exitCode, `${line}: ${stderr}`).toBe(0)
}

/** Doctor of a node without a state directory, and whether it has one afterwards. */
function askWithoutState() {
  const states = `${node.root}/none`
  const ask = `${stateWord({ stateDir: `${states}/trestle` })} trestle doctor --config-dir ${node.configDir} --bin-dir ${node.binDir} --no-runtime --log ${node.log}`
  const { exitCode, stdout } = node.sh(ask)
  return { exitCode, stdout, isThere: existsSync(states) }
}

describe('doctor', () => {
  it('finds nothing on a node whose pods have their network', () => {
    expect(node.broken(a, b)).toEqual([])
    expect(node.doctor()).toMatchObject({ code: 0, findings: [], document: { notLooked: [] } })
  })

  it('changes nothing', () => {
    done('nft flush ruleset && ip link set cni0 down')
    const before = snapshot(node)
    node.doctor()
    expect(snapshot(node)).toEqual(before)
  })

  it('says without root what it did not look at, and of no part that it is fine unseen', () => {
    const asNobody = `setpriv --reuid=65534 --regid=65534 --clear-groups ${node.root}/trestle doctor --no-runtime`
    const words = `--config-dir ${node.configDir} --bin-dir ${node.binDir}`
    // The scratch of a test is root's alone, and the repository may be.
    done(`chmod 755 ${node.root} && cp -L "$(command -v trestle)" ${node.root}/trestle`)
    const { exitCode, stdout, stderr } = node.sh(`${asNobody} ${words}`)
    expect(exitCode, stdout + stderr).toBe(3)
    for (const group of ['host', 'network', 'addresses', 'ports', 'firewall', 'log'])
      expect(stdout).toMatch(new RegExp(`^${group} +not looked at: `, 'm'))
    expect(stdout).toContain('pods of trestle: not known\n')
    expect(stdout).not.toMatch(/as above; not looked at: as above/)
  })

  it('says that it looked at no log where the file that is named is not there: exit code 3', () => {
    const { exitCode, stdout } = node.sh('trestle doctor --only log --no-runtime --log /nonexist')
    expect(exitCode, stdout).toBe(3)
    expect(stdout).toMatch(/^log +not looked at: cannot read \/nonexist: there is no such file$/m)
  })

  it('reads a log that comes in a pipe', () => {
    const line = 'level=error msg="failed to setup network for sandbox: cni plugin not initialized"'
    const { exitCode, stdout } = node.sh(`echo '${line}' | trestle doctor --only log --no-runtime --log /dev/stdin`)
    expect(exitCode, stdout).toBe(1)
    expect(stdout).toContain('cni-not-initialized')
  })

  it('says that it could not look into pods where nsenter does not run, and nothing against the pods', () => {
    const hidden = 'mount --bind /dev/null "$(readlink -f "$(command -v nsenter)")"'
    const options = `--config-dir ${node.configDir} --bin-dir ${node.binDir} --no-runtime --log ${node.log}`
    const { stdout } = node.sh(`unshare -m sh -c '${hidden} && trestle doctor ${options} -o json'`)
    const { findings, notLooked } = JSON.parse(stdout)
    expect(findings.map(({ id }: { id: string }) => id)).toEqual(['not-ready-tool'])
    expect(notLooked).toEqual([{ group: 'network', why: 'the inside of 2 pods: cannot run nsenter: EACCES' }])
  })

  it('makes no state directory where there is none, and says that the node is ready', () => {
    for (const { netns } of [a, b]) node.removePod(netns)
    const { exitCode, stdout, isThere } = askWithoutState()
    expect({ exitCode, isThere }, stdout).toEqual({ exitCode: 0, isThere: false })
    expect(stdout).toContain('pods of trestle: none\n')
  })

  it('finds pods whose state was lost with its directory, makes none, and prints what writes it again', () => {
    const { exitCode, stdout, isThere } = askWithoutState()
    expect({ exitCode, isThere }, stdout).toEqual({ exitCode: 1, isThere: false })
    expect(stdout).toMatch(/state-lacks.*\n.*the record of eth0 of container a; the record of eth0 of container b$/m)
    expect(stdout).toContain('pods of trestle: not known\n')
    done(`mv ${node.stateDir} ${node.root}/lost`)
    const lost = node.doctor()
    expect(lost.findings.map(({ id }) => id)).toEqual(['state-lacks'])
    done(lost.findings.find(({ id }) => id === 'state-lacks')?.run ?? 'exit 9')
    expect(node.doctor().ids).toEqual([])
  })
})

describe('what is no fault', () => {
  const forward = "nft add table inet fw && nft add chain inet fw f '{ type filter hook forward priority 10 ; }'"

  it.each([
    ['rp_filter 1 with symmetric routes', 'sysctl -qw net.ipv4.conf.all.rp_filter=1'],
    [
      'rp_filter 1 beside a link with a range for documentation, and one default route',
      'ip link add up2 type veth peer name up2x && ip link set up2 up && ip link set up2x up && ip addr add 203.0.113.2/24 dev up2 && sysctl -qw net.ipv4.conf.all.rp_filter=1',
    ],
    [
      'FORWARD with policy DROP behind an accept',
      'iptables-nft -A FORWARD -s 10.240.0.0/24 -j ACCEPT && iptables-nft -A FORWARD -d 10.240.0.0/24 -j ACCEPT && iptables-nft -P FORWARD DROP',
    ],
    [
      'a guard against strangers behind an accept of answers',
      'iptables-nft -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT && iptables-nft -A FORWARD -d 10.240.0.0/24 -j DROP',
    ],
    [
      'the same of nft, with a map of states',
      "nft add table inet fw && nft add chain inet fw f '{ type filter hook forward priority 10 ; }' && nft add rule inet fw f ct state vmap '{ established : accept, related : accept, invalid : drop }' && nft add rule inet fw f oifname cni0 drop",
    ],
    [
      'FORWARD with policy DROP behind accepts of answers and of what leaves by the uplink',
      'iptables-nft -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT && iptables-nft -A FORWARD -o up0 -j ACCEPT && iptables-nft -P FORWARD DROP',
    ],
    ['a drop of fragments alone', 'iptables-nft -A FORWARD -s 10.240.0.0/24 -f -j DROP'],
    [
      'a drop behind a return with a condition that is not followed',
      'iptables-nft -N LOCAL-FW && iptables-nft -A FORWARD -j LOCAL-FW && iptables-nft -A LOCAL-FW -m addrtype --dst-type UNICAST -j RETURN && iptables-nft -A LOCAL-FW -j DROP',
    ],
    [
      'a drop of connections of TCP that begin without SYN',
      `${forward} && nft add rule inet fw f 'tcp flags & (fin | syn | rst | ack) != syn ct state new drop'`,
    ],
    [
      'a drop of forged IPv4 sources in a table of both families',
      `${forward} && nft add rule inet fw f iifname cni0 ip saddr != 10.240.0.0/24 drop`,
    ],
    ['a drop of UDP but for some ports', `${forward} && nft add rule inet fw f 'udp dport != { 53, 123 } drop'`],
    [
      'a policy drop behind accepts in chains that a map of links leads to',
      `nft add table inet fw && nft add chain inet fw f '{ type filter hook forward priority 10 ; policy drop ; }' && nft add chain inet fw z && nft add rule inet fw z accept && nft add rule inet fw f 'iifname vmap { "cni0" : jump z, "up0" : jump z }'`,
    ],
    ['a drop off the path', 'iptables-nft -A FORWARD -s 10.66.0.0/16 -j DROP'],
    ['a drop of one port', 'iptables-nft -A FORWARD -s 10.240.0.0/24 -p tcp --dport 25 -j DROP'],
    [
      'a drop in the input hook',
      'iptables-nft -P INPUT ACCEPT && iptables-nft -A INPUT -s 10.240.0.0/24 -p tcp --dport 22 -j DROP',
    ],
    [
      'a firewall of the node with its own accepts',
      'iptables-nft -A INPUT -i lo -j ACCEPT && iptables-nft -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT && iptables-nft -A INPUT -p tcp --dport 22 -j ACCEPT && iptables-nft -P INPUT DROP',
    ],
    [
      'forged sources dropped at the uplink, before the way is chosen',
      'iptables-nft -t raw -A PREROUTING -i up0 -s 10.0.0.0/8 -j DROP',
    ],
    [
      'a table that is dormant',
      "nft add table inet fw '{ flags dormant ; }' && nft add chain inet fw f '{ type filter hook forward priority 0 ; policy drop ; }'",
    ],
    ['a policy rule behind a table that has a way', 'ip rule add pref 40000 from 10.240.0.0/24 blackhole'],
  ])('stays silent: %s', (_, make) => {
    done(make)
    expect(node.broken(a, b)).toEqual([])
    expect(node.doctor()).toMatchObject({ code: 0, ids: [] })
  })

  it('stays silent: a wider network of a link that contains the range, where `allowOverlap` says so', () => {
    node.close()
    node = openDoctorNode({ allowOverlap: true })
    done('ip addr add 10.0.0.9/8 dev up0')
    const pods = [node.addPod('a'), node.addPod('b')] as const
    expect(node.broken(...pods)).toEqual([])
    expect(node.doctor()).toMatchObject({ code: 0, ids: [] })
  })
})

describe('a pod whose sandbox has a network stack of its own', () => {
  const inPod = (words: string) => done(`nsenter --net=${a.netns} sh -c '${words}'`)
  // Its dummy is a veth here: not every kernel has the kind.
  const kubeVirt =
    'ip addr flush dev eth0 && ip link set eth0 down && ip link set eth0 name eth0-nic && ip link set eth0-nic address 02:00:00:00:00:77 up && ip link add k6t-eth0 up type bridge && ip link set eth0-nic master k6t-eth0 && ip link add eth0 type veth peer name dummy && ip addr add 10.240.0.2/24 dev eth0'
  it.each([
    ['gVisor', 'ip addr flush dev eth0'],
    ['KubeVirt', kubeVirt],
  ])('is a note: %s', (_, make) => {
    inPod(make)
    const { code, findings } = node.doctor()
    expect(findings).toMatchObject([{ id: 'addresses-inside', severity: 'note', seen: 'container a, eth0' }])
    expect(code).toBe(0)
  })

  it.each([
    ['keeps an address', 'ip addr del 10.240.0.2/24 dev eth0'],
    ['is down', 'ip addr flush dev eth0 && ip link set eth0 down'],
    ['has another MAC', 'ip addr flush dev eth0 && ip link set eth0 address 02:00:00:00:00:77'],
  ])('is none where the end of the pod %s', (_, make) => {
    inPod(make)
    expect(node.doctor().ids).toEqual(['pod-differs'])
  })
})
