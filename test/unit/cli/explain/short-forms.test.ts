// SPDX-License-Identifier: Apache-2.0
// Known errors as people retell them: the thing and what is wrong with it, in a few words.

import { expect, it } from 'vitest'
import { knownErrors } from '../../../../src/cli/explain/catalogue/known-errors.ts'
import { shortForms } from '../../../../src/cli/explain/short-forms.ts'
import { causesOf } from './texts.ts'

it.each([
  ['plugin-not-found', 'failed to find plugin'],
  ['plugin-not-found', 'failed to find plugin in path'],
  ['plugin-not-found', 'loopback plugin missing'],
  ['plugin-not-found', 'bridge CNI plugin is not installed'],
  ['plugin-not-found', '/opt/cni/bin is empty on the new node'],
  ['flannel-subnet-env', 'describe shows an error about there being no file /run/flannel/subnet.env'],
  ['flannel-subnet-env', 'subnet.env not found'],
  ['calico-nodename', 'missing file /var/lib/calico/nodename'],
  ['no-network-config', '/etc/cni/net.d is empty'],
  ['br-netfilter', 'missing br-netfilter module or unset br-nf-call-iptables'],
  ['br-netfilter', 'bridge-nf-call-iptables is 0'],
  ['forwarding-off', 'ip_forward is not set to 1'],
  ['forwarding-off', 'IP forwarding is disabled'],
  ['api-unreachable', 'timeout curling 10.96.0.1:443'],
  ['api-unreachable', 'pods cannot reach 10.43.0.1:443'],
  ['cilium-agent', 'cilium.sock: no such file or directory'],
  ['agent-socket', '/run/multus/multus.sock not found'],
  ['bridge-other-address', 'cni0 already has an IP address different from the one it should have'],
  ['bridge-other-address', 'cni0 has a different IP than flannel.1'],
  ['interface-exists', 'the VETH pair is not getting created and fails with file exists'],
  ['netns-gone', 'the netns does not exist any more'],
  ['kernel-module', 'vxlan: operation not supported'],
  ['xtables-lock', 'xtables lock held by another app'],
  ['name-reserved', 'pod sandbox name is reserved'],
  ['dockershim-checkpoint-damaged', 'a corrupt dockershim checkpoint jams up CNI'],
  ['dockershim-checkpoint-damaged', 'the dockershim checkpoint of the sandbox is empty'],
  ['nomad-network-missing', 'the fingerprinter says CNI config dir is not set or does not exist'],
  ['agent-capability-refused', 'unable to apply caps: operation not permitted'],
  ['hairpin-off', 'a pod cannot reach itself through its service'],
])('%s: %s', (id, words) => {
  expect(causesOf(words)).toEqual([id])
})

it.each([
  'IP forwarding is enabled',
  'created veth0 and veth1, then wrote the file; the directory existed',
  'failed to find plugin "io.containerd.grpc.v1" in v1 plugin registry',
  'curl of 10.20.30.40:8080 timed out',
  '/opt/cni/bin has 18 files. The volume is missing',
  'the bridge over the river is missing',
  'the checkpoint of the training run is corrupted',
  'listen tcp 10.0.0.1:80: bind: permission denied',
  'failed to find plugin "babel-plugin-foo"',
  'curl: (28) Failed to connect to 192.168.1.1:443: Connection timed out',
  'collectd: the dhcp plugin is missing',
  'MountVolume.SetUp failed for volume "cni": /opt/cni/bin does not exist',
])('is nothing that is known: %s', (words) => {
  expect(causesOf(words)).toEqual([])
})

it('means errors that are known', () => {
  expect(shortForms.map(({ id }) => id).filter((id) => !knownErrors.some((known) => known.id === id))).toEqual([])
})
