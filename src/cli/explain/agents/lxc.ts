// SPDX-License-Identifier: Apache-2.0
// Of LXC, LXD and Incus: their bridges with dnsmasq, interfaces for users without root; and of restored containers.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of LXC, LXD and Incus, and of CRIU where it puts a network back. */
export const lxcErrors: readonly KnownError[] = [
  {
    id: 'dnsmasq-failed',
    pattern: oneOf(
      /\bdnsmasq(?:\[\d+\])?: (?:cannot (?:open or create|open|read|create|access|change|set)|failed to (?:bind|create|open|load|read|set|find)|unknown (?:interface|user|group)|bad (?:option|command|line|dhcp|address|name)|junk found|illegal|inconsistent|duplicate|directory|missing|setting capabilities)\b(?![^\n]{0,100}Address already in use)[^\n]{0,160}/,
      /\bdnsmasq(?:\[\d+\])?: FAILED to start up(?![^\n]{0,100}Address already in use)/,
      /The DNS and DHCP service exited prematurely(?![^\n]{0,300}Address already in use)[^\n]{0,160}/,
    ),
    who: 'dnsmasq, run by lxc-net, LXD, Incus or libvirt',
    meaning: 'dnsmasq, which gives the containers of a bridge their addresses and names, does not start',
    causes: [
      'a directory or file that it was told to use is missing, or not its own (leases below /var/lib/misc or /var/log)',
      'AppArmor or SELinux forbids it the file',
      'the bridge or its address is not there yet ("unknown interface", "Cannot assign requested address")',
      'it was given an option that this release does not know: raw.dnsmasq of the network, LXC_DHCP_CONFILE',
    ],
    look: [
      'journalctl -b -u lxc-net -u lxd -u incus --grep dnsmasq | tail',
      'journalctl -k --grep "apparmor|avc" | tail; ip -br addr show type bridge',
    ],
    cure: 'make the directory, or correct the option that the message names; then restart lxc-net, LXD or Incus',
  },
  {
    id: 'lxc-user-nic',
    pattern: oneOf(
      /lxc-user-nic failed to (?:configure|delete) (?:the )?requested network(?![^\n]{0,160}No such file or directory)[^\n]{0,160}|lxc.user.nic[^\n]{0,80}Quota reached/,
      /(?:lxc_user_nic|usernic)[^\n]{0,60}(?:Quota reached|Failed to create new nic|Error (?:creating veth|attaching)|may not modify netns|not privileged over)[^\n]{0,80}/,
      /Networks of type \S+ are not supported by unprivileged containers|Network type \d+ not support for unprivileged use/,
      /failed to setup network &\{[^\n]{0,200}lxc-user-nic[^\n]{0,160}/,
    ),
    who: 'lxc-user-nic, for LXC without root',
    meaning: 'a user without root did not get the interface: only what root allowed for that bridge is made',
    causes: [
      '/etc/lxc/lxc-usernet has no line "USER veth BRIDGE NUMBER", or the user has that many interfaces already',
      'lxc-user-nic is not setuid root: a file system with nosuid, a package that was built without it',
      'the configuration asks for another type than veth',
    ],
    look: ['cat /etc/lxc/lxc-usernet; id -un', 'ls -l $(find /usr/lib* -name lxc-user-nic 2>/dev/null)'],
    cure: 'let root add the line to /etc/lxc/lxc-usernet (echo "USER veth lxcbr0 10"), or raise the number in it',
  },
  {
    id: 'lxd-network-down',
    pattern: oneOf(
      /Network "[^"]*" (?:is )?unavailable on this server/,
      /(?:lvl=eror|level=\w+) [^\n]{0,80}Failed (?:initializing|starting|to (?:bring up|start|initialize)) network\b[^\n]{0,200}/,
      /Failed to setup (?:lxc-net|lxd-bridge)/,
      /(?:device|validation failed for) "[^"]*"[^\n]{0,80}: (?:Network "[^"]*" not found|Network not found|Requested network doesn't exist)/,
    ),
    who: 'LXD, Incus, lxc-net',
    meaning: 'the managed network of the host did not start or is not there, so nothing can be connected to it',
    causes: [
      'its dnsmasq did not start: another one has port 53 of the address',
      'the range of the network is on another interface of the host, or its uplink was not up at boot',
      'the firewall (nft, iptables, ebtables) refused its rules',
      '"not found": the profile names a network of another host, or of another project',
    ],
    look: [
      'journalctl -b -u lxd -u incus -u snap.lxd.daemon -u lxc-net | grep -i network | tail',
      'ip -br addr; ss -Hlntup "sport = :53"',
    ],
    cure: 'clear what the log names; LXD and Incus try again every minute, or at their restart',
    wraps: true,
  },
  {
    id: 'criu-network',
    pattern:
      /Error \((?:criu\/)?(?:net|libnetlink)\.c:\d+\): [^\n]{1,120}|Can't restore link: -\d+|Unable to restore network links/i,
    who: 'CRIU, run by runc, crun, podman or LXC',
    meaning: 'the network of a checkpoint could not be saved, or not be put back',
    causes: [
      'the container has a link of a kind that CRIU cannot make, or one whose other end is in a namespace that CRIU ' +
        'was not told of',
      'an interface with that name or MAC is there already (-17, -16): the first container still runs',
      'iptables-restore, nft or ip is missing or fails where it restores; --tcp-established needs the same address',
    ],
    look: ['criu check --all', 'grep -n Error /var/lib/containers/storage/overlay-containers/*/userdata/restore.log'],
    cure:
      'end the first container; let the runtime make the network (podman and CRI do) and restore into it, or take ' +
      'what CRIU does not know out of it',
  },
]
