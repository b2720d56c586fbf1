// SPDX-License-Identifier: Apache-2.0
// Of pods that are virtual machines (Kata, Firecracker, KubeVirt): the devices between the pod's interface and theirs.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of the network devices of virtual machines. */
export const machineErrors: readonly KnownError[] = [
  {
    id: 'tap-refused',
    pattern: oneOf(
      /Open tap device failed: [^\n]{1,160}|\bTapOpen\([^\n]{1,120}/,
      /Could not (?:create TAP interface|setup macvtap fds \S+): [^\n]{1,160}/,
      /Invalid TUN\/TAP Backend provided by \S+|failed to create tap device named \S+ Reason: [^\n]{1,80}/,
    ),
    who: 'Firecracker, Cloud Hypervisor, Kata, KubeVirt',
    meaning: 'the virtual machine of the pod could not open the tap device that is its network card',
    causes: [
      '"Resource busy": another machine has it: one that was not ended, or two that got one name',
      '"Invalid argument": there is a device of that name of another kind (a veth), or one made with multi_queue',
      '"Operation not permitted": it belongs to another user than the one of the machine',
      '/dev/net/tun is missing: the module tun is not loaded',
    ],
    look: ['ip -d tuntap list', 'fuser -v /dev/net/tun', 'modprobe tun; ls -l /dev/net/tun'],
    cure:
      'end the machine that still has it, or remove the device (ip tuntap del NAME mode tap); load tun, and name it ' +
      'in /etc/modules-load.d',
  },
  {
    id: 'vhost-net',
    pattern: /Could not setup vhost fds [^\n]{1,120}|open "?\/dev\/vhost-net"?: [a-z ]{1,40}/i,
    who: 'Kata',
    meaning:
      'the network card of the virtual machine is to be driven by the kernel (vhost), and /dev/vhost-net refuses',
    causes: [
      'no such file: the module vhost_net is not loaded, or the kernel has none',
      'permission denied: SELinux, or a runtime without root',
    ],
    look: [
      'ls -l /dev/vhost-net; lsmod | grep vhost',
      'grep -n disable_vhost_net /etc/kata-containers/configuration.toml',
    ],
    cure: "load it, now and at boot; or set disable_vhost_net = true in Kata's configuration",
    run: 'modprobe vhost_net; echo vhost_net >/etc/modules-load.d/vhost_net.conf',
  },
]
