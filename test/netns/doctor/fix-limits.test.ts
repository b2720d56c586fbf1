// SPDX-License-Identifier: Apache-2.0
// `trestle doctor --fix --apply` mends what is trestle's, and touches nothing of others though it names it: rules, files,
// services, modules, rp_filter, reservations of other plugins. Each of them is wrong on this node.

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { execaSync } from 'execa'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type DoctorNode, openDoctorNode, podArgs, type Shown } from '../../support/doctor-node.ts'
import { trestle } from '../../support/host.ts'
import { stateEnv, stateOf } from '../../support/state-layout.ts'

const sysctlFile = '/run/sysctl.d/50-hardening.conf'
/** What changes services, modules and pods; each only writes down that it was called. */
const tools = ['systemctl', 'service', 'modprobe', 'insmod', 'rmmod', 'crictl', 'kubectl', 'kill']

let node: DoctorNode
beforeEach(() => {
  node = openDoctorNode()
})
afterEach(() => {
  rmSync(sysctlFile, { force: true })
  node.close()
})

function done(line: string): string {
  const { exitCode, stdout, stderr } = node.sh(line)
  expect(exitCode, `${line}: ${stderr}`).toBe(0)
  return stdout
}

/** Makes what is wrong of others, each with the finding that names it. */
function spoilOthers(): readonly string[] {
  done('iptables-nft -I FORWARD -s 10.240.0.0/24 -j DROP')
  done('ip link add up1 type veth peer name up1x && ip addr add 198.18.9.2/24 dev up1')
  done('ip link set up1 up && ip link set up1x up && ip route add default via 198.18.9.1 metric 500')
  done('sysctl -qw net.ipv4.conf.up1.rp_filter=1')
  mkdirSync(dirname(sysctlFile), { recursive: true })
  writeFileSync(sysctlFile, 'net.ipv4.ip_forward = 0\n')
  const ipam = { type: 'host-local', subnet: '10.9.0.0/24' }
  const plugins = [{ type: 'trestle', bridge: 'br9', ipam }]
  node.write('05-old.conflist', { cniVersion: '1.0.0', name: 'old', plugins })
  return ['config-shadowed', 'firewall-drops', 'forwarding-reverts', 'rp-filter']
}

/** Everything of others, as it is now. */
function ofOthers(): unknown {
  const files = readdirSync(node.configDir).map((name) => [name, readFileSync(`${node.configDir}/${name}`, 'utf8')])
  return {
    files,
    sysctl: readFileSync(sysctlFile, 'utf8'),
    rules: done('iptables-nft -S'),
    rpFilter: done('sysctl net.ipv4.conf.up1.rp_filter net.ipv4.conf.all.rp_filter'),
    links: done('ip -o link show up1'),
    routes: done('ip route show default'),
  }
}

/** Runs doctor where every tool that changes others only leaves its name. */
function fixed(): { readonly findings: readonly Shown[]; readonly called: string } {
  const [bin, called] = [`${node.root}/stubs`, `${node.root}/called`]
  mkdirSync(bin)
  writeFileSync(called, '')
  for (const tool of tools) writeFileSync(`${bin}/${tool}`, `#!/bin/sh\necho ${tool} >>${called}\n`, { mode: 0o755 })
  const env = { ...stateEnv(node), PATH: `${bin}:${dirname(trestle)}:${process.env['PATH']}` }
  const where = ['--config-dir', node.configDir, '--bin-dir', node.binDir, '--no-runtime', '--log', node.log]
  const words = [`--net=${node.path}`, '--', trestle, 'doctor', ...where, '--fix', '--apply', '-o', 'json']
  const { stdout, exitCode } = execaSync('nsenter', words, { env, reject: false })
  expect(exitCode, stdout).toBe(1)
  return { ...(JSON.parse(stdout) as { findings: readonly Shown[] }), called: readFileSync(called, 'utf8') }
}

it('mends its own rules, links, reservations and forwarding, and leaves what others have as it was', () => {
  node.addPod('a', {}, podArgs('a'))
  const foreign = spoilOthers()
  const before = ofOthers()
  const leaked = stateOf(node, 'pods').address('10.240.0.77')
  done(`nft delete table inet trestle && ip link set cni0 down && sysctl -qw net.ipv4.ip_forward=0`)
  // Of a pod of an earlier boot, whose record is lost.
  const other = `s/"containerId":"[^"]*"/"containerId":"gone"/g; s/"bootId":"[^"]*"/"bootId":"before"/`
  done(`sed '${other}' ${stateOf(node, 'pods').finished('a')} >${leaked}`)
  const broken = node.doctor().ids
  expect(broken).toEqual(expect.arrayContaining(['network-differs', 'forwarding-off']))
  expect(broken).toContain('reservations-leaked')
  const { findings, called } = fixed()
  const left = findings.filter(({ severity }) => severity !== 'note').map(({ id }) => id)
  expect(left.toSorted()).toEqual(foreign)
  expect(ofOthers()).toEqual(before)
  expect(called).toBe('')
})
