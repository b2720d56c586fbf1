// SPDX-License-Identifier: Apache-2.0
// Errors about the node: state, locks, commands, and what STATUS finds.

import type { SomeErrorTexts } from './error-texts.ts'

export const nodeErrors = {
  'interface-missing': {
    cause: 'a chained plugin works on the interface of an earlier one, and the pod has none of that name',
    cure: 'see the order of the list, and what the plugin before trestle printed',
  },
  'interface-name-taken': {
    cause: 'the pod has an interface of this name already, made by somebody else',
    cure: 'use another name, or remove it, unless it is lo: `details` has the command',
  },
  'netns-unusable': {
    cause: 'CNI_NETNS is no network namespace, or that of the node',
    cure: 'the caller has to give the path of the namespace of the pod',
  },
  'netns-not-visible': {
    cause: 'the call runs in another mount namespace than the runtime and cannot see which pods live',
    cure: 'run it where the runtime runs: nsenter -t 1 -m',
  },
  'state-unusable': {
    cause: 'the state directory is no directory of root, can be written by others, or is on a full disk',
    cure: 'make /run/trestle a directory of root, mode 755 or stricter, on a disk with free space',
  },
  'state-not-kept': {
    cause: 'a write below the state directory was refused: a full, read-only or damaged file system',
    cure: 'make it writable, with free space; the call can be repeated',
  },
  'state-disk-full': {
    cause: 'the disk that holds the state is full, or a quota is reached',
    cure: 'make room where state is kept, /run/trestle as a rule',
  },
  'file-refused': {
    cause: 'the kernel refused an operation on a file; the message has its word and the path',
    cure: 'make the path writable, with free space; the call can be repeated',
  },
  'resolv-conf-unreadable': {
    cause: 'the file that ipam.resolvConf names is not there, or no file of at most 1 MiB',
    cure: 'correct the path, or leave the key out',
  },
  'sysctl-allowlist-invalid': {
    cause: 'the allowlist for tuning is there and cannot be read, or a line of it is no regular expression',
    cure: 'correct the file, or remove it to allow every key below net',
  },
  'attachment-busy': {
    cause: 'another call for the same container and interface has not ended',
    cure: 'the runtime tries again; if it stays, `details` names the process',
  },
  'lock-held': {
    cause: 'another call has held a lock for longer than this one could wait',
    cure: 'the runtime tries again; if it stays, see what the process in the message waits for',
  },
  'command-too-slow': {
    cause: 'a command did not end before the deadline of the call: a busy node, or a kernel that hangs',
    cure: 'the runtime tries again; if it stays, see the load of the node and its kernel log',
  },
  'killed-call-at-work': {
    cause: 'a call was killed, and a command that it started still waits for the kernel',
    cure: '`details` says how to see for what; what the call had is kept until the command has ended',
  },
  'killed-call-not-visible': {
    cause: '/proc is of another pid namespace, so nothing shows whether the commands of a killed call live',
    cure: 'mount /proc of the pid namespace that trestle runs in, or run it where the runtime runs',
  },
  'cleanup-not-recorded': {
    cause: 'DEL could not remove everything, or could not write down what is left',
    cure: 'make the state directory writable, with free space: the runtime sends DEL again',
  },
  'cleanup-incomplete': {
    cause: 'something of an attachment could not be removed; its record keeps it',
    cure: 'later calls try again; the address stays reserved until then',
  },
  'not-ready-state': {
    cause: 'STATUS: the state directory cannot be used',
    cure: 'make /run/trestle a directory of root, mode 755 or stricter, on a disk with free space',
  },
  'not-ready-capability': {
    cause: 'STATUS: the process lacks a capability that an ADD needs',
    cure: '`details` says how to give it to the container or the unit of the runtime',
  },
  'not-ready-tool': {
    cause: 'STATUS: a command that an ADD runs, also for what `capabilities` lets pods ask for, is not on PATH',
    cure:
      'install it (Debian: iproute2, util-linux, nftables, procps; Fedora has tc in iproute-tc), or add its ' +
      'directory to PATH',
  },
  'not-ready-nft': {
    cause: 'STATUS: nftables is too old for the rules',
    cure: 'update it; `details` has the version that is needed',
  },
  'not-ready-pool': {
    cause: 'STATUS: every address of a range set is in use by a live pod, or in its cooldown',
    cure: 'remove pods, or add a range to `ipam.ranges`',
  },
  'not-ready-bridge': {
    cause: 'STATUS: the bridge has 1023 ports, and Linux allows no more',
    cure: 'use a second network with another `bridge`',
  },
  'not-ready-network': {
    cause: 'STATUS: the network is not set up yet, and the ADD that is to do it would be refused with 110 or 108',
    cure: 'the message has the range or the bridge that is in use, `details` what can be done',
  },
  'not-ready-master': {
    cause: 'STATUS: the interface that macvlans are to be put on is not on the node',
    cure: 'name one that is there as `master`: `ip -br link` shows them',
  },
  'not-ready-ipam': {
    cause: 'STATUS: the plugin of `ipam.type` is missing or failed',
    cure: 'see its error in the message; install it into a directory of CNI_PATH',
  },
  'api-server-unknown': {
    cause: '`trestle agent`: neither its flags nor a kubeconfig nor its environment says where the API server is',
    cure: 'name it with --api-server and --ca-file',
  },
  'command-failed': {
    cause: 'ip, nft, tc or another command failed; the message has what it was meant to do and its own words',
    cure: '`details` holds the input, what it printed, and what to do where that is known',
  },
  'command-missing': {
    cause: 'a command that trestle runs is not on PATH',
    cure: 'install it (Debian: iproute2, util-linux, nftables, procps), or add its directory to PATH',
  },
  'command-not-started': {
    cause: 'a command is there and could not be started: its mode, or a limit of processes or memory',
    cure: 'see the mode of the file and the limits of the node; `details` has the word of the kernel',
  },
  'command-output-too-long': {
    cause: 'a command printed more than any node has links, routes or rules',
    cure: 'run the command of `details` by hand and see what it lists',
  },
  'network-not-seen': {
    cause: 'a command that lists links, routes or rules failed',
    cure: '`details` has what it printed',
  },
  'firewalls-not-seen': {
    cause: 'the rules of the firewalls on the node could not be listed',
    cure: 'do what `details` says, or set firewall.hostAccept to "off" to go without',
  },
  'firewall-accept': {
    cause:
      'a firewall of the node drops what pods forward, and the accept could not be put into its rules or taken out',
    cure: 'do what `details` says, or set firewall.hostAccept to "off" to leave that firewall alone',
  },
  'ipv6-not-there': {
    cause: 'the configuration has an IPv6 range, and the kernel was started with ipv6.disable=1 or built without',
    cure: 'take the IPv6 range out, or start the kernel with IPv6',
  },
  'sysctl-not-set': {
    cause: 'the kernel refused a key below /proc/sys: mostly /proc is read-only in the container',
    cure: '`details` has the key; set it on the node, or give the container what `details` names',
  },
  'duplicate-address': {
    cause: 'another machine in the network of the bridge has the address',
    cure: 'give the other one up, or take the address out of the range with ipam.exclude',
  },
  'address-tentative': {
    cause: 'duplicate address detection did not end: the bridge has no carrier, or is down',
    cure: 'see `ip link show` of the bridge, or leave "enabledad" out',
  },
  'loopback-missing': {
    cause: 'the namespace of the pod has no lo, which every network namespace has',
    cure: 'see what CNI_NETNS leads to',
  },
  'upstream-rules-left': {
    cause: 'rules that the upstream plugins had made for a pod could not be removed',
    cure: '`details` has the command and what it printed; later calls try again',
  },
} as const satisfies SomeErrorTexts
