// SPDX-License-Identifier: Apache-2.0
// Configurations and plugins that a runtime cannot use, or should not.

import type { Fault } from './fault.ts'

/** A list with one plugin in place of the node's own. */
const list = (plugin: object, more: object = {}) =>
  JSON.stringify({ cniVersion: '1.1.0', name: 'pods', plugins: [plugin], ...more })
const own = { type: 'trestle', podcidr: ['10.240.0.0/24', 'fd00:240::/64'], capabilities: { portMappings: true } }
/** Puts a text in place of the list; the cure puts the list back, as an editor would. */
const written = (text: string) => ({
  make: `cp $CONF/10-pods.conflist $SCRATCH/ && cat >$CONF/10-pods.conflist <<'LIST'\n${text}\nLIST`,
  cure: 'cp $SCRATCH/10-pods.conflist $CONF/',
})

/** The header of a program for arm64 (elf(5)): 183 is EM_AARCH64. */
const elfOfArm = String.raw`\177ELF\002\001\001\0\0\0\0\0\0\0\0\0\002\0\267\0\001\0\0\0`

export const configurationFaults: readonly Fault[] = [
  {
    what: 'a list of another network that comes first',
    source: 'kubernetes/kubernetes#100309',
    make: `cat >$CONF/05-old.conflist <<'LIST'\n${list({ type: 'trestle', bridge: 'br9', ipam: { type: 'host-local', subnet: '10.9.0.0/24' } }, { name: 'old' })}\nLIST`,
    doctor: ['config-shadowed'],
    names: 'of the pods here live in network pods',
    tidy: 'rm -f $CONF/05-old.conflist.disabled',
  },
  {
    what: 'a file cut short that comes first',
    source: 'containerd/cri#889',
    make: `echo '{ "name": "x",' >$CONF/05-old.conflist`,
    doctor: ['json-syntax'],
    lint: ['json-syntax'],
    names: '05-old.conflist',
    says: 'ADD',
    explain: ['config-not-json'],
    tidy: 'rm -f $CONF/05-old.conflist.disabled',
  },
  {
    what: 'a comma too many',
    source: 'cilium/cilium#8474',
    ...written(list(own).replace('}]', '},]')),
    doctor: ['json-syntax'],
    lint: ['json-syntax'],
    says: 'ADD',
    explain: ['config-not-json'],
  },
  {
    what: 'no configuration',
    source: 'kubernetes/kubeadm#2795',
    make: 'mv $CONF/10-pods.conflist $SCRATCH/',
    doctor: ['dir-empty'],
    lint: ['dir-empty'],
    says: 'ADD',
    explain: ['no-network-config'],
    cure: 'mv $SCRATCH/10-pods.conflist $CONF/',
  },
  {
    what: 'a configuration whose name no runtime reads',
    source: 'containernetworking/cni#447',
    make: 'mv $CONF/10-pods.conflist $CONF/10-pods.conflist.bak',
    doctor: ['dir-empty'],
    lint: ['dir-empty'],
    says: 'ADD',
    explain: ['no-network-config'],
    cure: 'mv $CONF/10-pods.conflist.bak $CONF/10-pods.conflist',
  },
  {
    what: 'a list in a file for one plugin',
    source: 'containernetworking/cni#258',
    make: 'mv $CONF/10-pods.conflist $CONF/10-pods.conf',
    doctor: ['list-in-conf'],
    lint: ['list-in-conf'],
    cure: 'mv $CONF/10-pods.conf $CONF/10-pods.conflist',
  },
  {
    what: 'the plugin is not installed',
    source: 'kubernetes/kops#9286',
    make: 'rm $BIN/trestle',
    doctor: ['plugin-missing'],
    lint: ['plugin-missing'],
    says: 'ADD',
    explain: ['plugin-not-found'],
    cure: 'ln -s $(command -v trestle) $BIN/trestle',
  },
  {
    what: 'the plugin may not be started',
    source: 'flannel-io/flannel#1730',
    make: `cp /bin/true $BIN/other && chmod 644 $BIN/other && ${written(list({ type: 'other' })).make}`,
    doctor: ['plugin-not-executable'],
    lint: ['plugin-not-executable'],
    says: 'ADD',
    explain: ['plugin-may-not-run'],
    cure: written('').cure,
    tidy: 'rm -f $BIN/other',
  },
  {
    what: 'the plugin is built for another machine',
    source: 'rancher/k3c#8',
    make: `printf '${elfOfArm}' >$BIN/other && head -c 4096 /dev/zero >>$BIN/other && chmod 755 $BIN/other && ${written(list({ type: 'other' })).make}`,
    doctor: ['plugin-version'],
    lint: ['plugin-version'],
    names: 'does not answer VERSION',
    says: 'ADD',
    explain: ['exec-format'],
    cure: written('').cure,
    tidy: 'rm -f $BIN/other',
  },
  {
    what: 'a version that the plugin does not know',
    source: 'containernetworking/plugins#919',
    ...written(list(own, { cniVersion: '1.9.0' })),
    doctor: ['cni-version-unknown'],
    lint: ['cni-version-unknown'],
    says: 'ADD',
    explain: ['version-unsupported'],
  },
  {
    what: 'a template that was not filled in',
    source: 'https://docs.tigera.io/calico/latest/reference/configure-cni-plugins',
    ...written(list({ ...own, mtu: '__CNI_MTU__' })),
    doctor: ['wrong-type'],
    lint: ['wrong-type'],
    names: 'mtu: "__CNI_MTU__"',
    says: 'ADD',
    explain: ['wrong-type'],
  },
  {
    what: 'a subnet that is none',
    source: 'containernetworking/cni#755',
    ...written(list({ ...own, podcidr: '10.240.0.0/240' })),
    doctor: ['podcidr-invalid'],
    lint: ['podcidr-invalid'],
    says: 'ADD',
    explain: ['podcidr-invalid'],
  },
  {
    what: 'a gateway outside of its subnet',
    source: 'containernetworking/plugins#551',
    ...written(
      list({
        type: 'trestle',
        isDefaultGateway: true,
        ipam: { type: 'host-local', subnet: '10.240.0.0/24', gateway: '10.241.0.1' },
      }),
    ),
    doctor: ['gateway-outside-subnet'],
    lint: ['gateway-outside-subnet'],
  },
]
