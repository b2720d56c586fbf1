// SPDX-License-Identifier: Apache-2.0
// Of pods that are virtual machines (Kata, Firecracker, KubeVirt) or have a kernel of their own (gVisor): the devices
// between the pod's interface and theirs.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of the network devices of virtual machines. */
export const machineErrors: readonly KnownError[] = [
  {
    id: 'tap-refused',
    pattern: oneOf(
      /ioctl\(TUNSETIFF\): (?:Device or resource busy|Operation not permitted|Invalid argument)/,
      /Open tap device failed: ?[^\n]{1,160}|\bTapOpen\([^\n]{1,120}/,
      /Could not (?:create TAP interface|setup macvtap fds \S+): (?![^\n]{0,120}file exists)[^\n]{1,160}/,
      /Invalid TUN\/TAP Backend provided by \S+|failed to create tap device named \S+ Reason: [^\n]{1,80}/,
      /Cannot open(?:\/create the)? TAP device[.:] [^\n]{1,160}|Could not configure tap device: [^\n]{1,80}/,
      /\b(?:Tap|CreateTap|OpenTun|TapOpen)\((?:CreateTap|OpenTun|Os \{|IoctlError|IfreqExecuteError)[^\n]{0,120}/,
      /could not (?:configure|open) \/dev\/net\/tun(?: \([^)\n]*\))?: [^\n]{1,60}/,
      /failed to create tap device: (?:device or resource busy|operation not permitted|no such (?:file|device)|invalid argument)[^\n]{0,20}/,
      /TapSet(?:Offload|VnetHdrSize|Interface)\(\w[^\n]{1,100}|Error while setting the offload flags: [^\n]{1,60}/,
      /(?:The )?host device name \S+ is already in use/,
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
    id: 'tap-down',
    pattern: /Failed to (?:write to|read from) tap: [^\n]{1,120}/i,
    who: 'Firecracker',
    meaning: 'the tap device that is the network card of the virtual machine is not up: its packets are lost',
    causes: [
      'the tap was not there, so Firecracker made one of that name, which it leaves down',
      'the tap was made in another network namespace than the one Firecracker (jailer, netns) runs in',
    ],
    look: ['ip -d tuntap list; ip -br link', 'lsns -t net'],
    cure: 'make the tap before the machine starts, in its namespace, and bring it up: ip link set TAP up',
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
  {
    id: 'vm-interface-kind',
    pattern: oneOf(
      /\w network interfaces? (?:are )?not supported by the microvm provider|unknown network interface type \S+ for \S+/,
      /Unsupported network interface: \S+|tuntap network \S+ mode unsupported|Macvtap\w* does not support Hot \w+/i,
      /tun networking device not yet supported|endpoint is not supported: \S+|attach is unsupported for VFIO endpoint/,
      /(?:rx|tx) rate limiter is unsupported for [\w -]{1,40} endpoint|Unsupported endpoint ?type \S+[^\n]{0,60}/,
      /Host networking requested, not supported by runtime|Network device mode not determined correctly/,
      /\wEndpoint does not support (?:Attach|Hot )[^\n]{0,60}|unable to add PhysicalEndpoint \S+ because[^\n]{0,60}|unknown DAN device type/,
      /(?:create endpoint|entity from netns|new network with netns)\b[\s\S]{0,80}?unsupported link type: [\w-]{1,20}/,
      /config disable_new_netns (?:only works with \S{1,12} internetworking_model|conflicts with enable_netmon)/,
      /needs network device hotplug but the configured hypervisor does not support it/,
    ),
    who: 'Kata, flintlock',
    meaning: 'the virtual machine cannot get a network card of the kind that the pod or its definition has',
    causes: [
      'the hypervisor has no such card: Firecracker knows tap alone, no macvtap, and adds none to a running machine',
      'a plugin gives the pod an interface that Kata does not know (a tun, another kind of tunnel)',
      '"link type: device" is mostly tunl0, which the module ipip (Calico with IPIP) puts into each namespace: older ' +
        'releases of the Rust runtime do not skip it',
      '"Host networking requested": a virtual machine cannot share the network of the host (hostNetwork, --net=host)',
      'disable_new_netns in configuration.toml: it needs internetworking_model="none", no netmon, and a container ' +
        'without a network (docker --net=none)',
    ],
    look: [
      'grep -n -e internetworking_model -e "^path" /etc/kata-containers/configuration.toml',
      'ip -n NETNS -d link show',
    ],
    cure:
      'use a plugin that makes a veth, macvlan or ipvlan (Kata) or a tap (Firecracker, flintlock), or another ' +
      'hypervisor; update Kata where it stops at tunl0, or let Calico use VXLAN; take disable_new_netns out again',
  },
  {
    id: 'gvisor-route',
    pattern: oneOf(
      /default route with no gateway "[^"]*"[^\n]{0,120}/,
      /more than one default route found[,:]? (?:interface: |")[^\n]{0,160}|unexpected address size for gateway: [^\n]{1,60}/,
      /invalid interface name "[^"]*" for default route/,
    ),
    who: 'gVisor (runsc)',
    meaning: 'gVisor has a network stack of its own, and cannot take over the default route that the pod has',
    causes: [
      'the default route has no gateway: it leads to a tunnel or a point-to-point link (wg0, tun0)',
      'the pod has two default routes: a second network brings one, or a VPN',
      'the container shares the network of the host, whose routes are then the ones that count',
    ],
    look: ['ip -n NETNS route; ip -n NETNS -6 route', 'trestle lint'],
    cure:
      'give the default route a gateway, and keep it out of the second network; where the routes of the host are ' +
      'needed run runsc with --network=host',
  },
  {
    id: 'gvisor-network',
    pattern: oneOf(
      /urpc method "Network\.\w+" failed: [^\n]{1,120}|getting GSO for interface "[^"]*": [^\n]{1,60}/,
      /unable to enable the PACKET_VNET_HDR option[^\n]{0,60}|cannot run with network enabled in root network namespace/,
      /CreateNIC(?:WithOptions)?\([^\n]{1,200}\) failed|AddProtocolAddress\([^\n]{1,160}\) failed/,
      /(?:unable|failed) to create AF_XDP socket[^\n]{0,60}|inconsistent gsoMaxSize[^\n]{0,80}/,
      /creating interfaces from net namespace "[^"]*": (?:unable to (?:create raw socket|bind to)|failed to createSocket)[^\n]{1,80}/,
      /failed to (?:save existing|restore) (?:rules with error|iptables error) \([^\n]{1,80}/,
    ),
    who: 'gVisor (runsc)',
    meaning: 'gVisor did not get its network stack onto the interface of the pod',
    causes: [
      '"failed: EOF": its sandbox process died just then: the kernel is too old for what it asks (GSO before 4.14), ' +
        'or a limit killed it',
      '"root network namespace": the container has the network of the host, which gVisor does not take over',
      'it may open no raw socket: it runs without CAP_NET_RAW, or rootless',
    ],
    look: ['uname -r; runsc --version', 'ls -t /tmp/runsc* /var/log/runsc* 2>/dev/null | head', 'dmesg | tail'],
    cure:
      'take --debug --debug-log=/tmp/runsc/ into the runtime arguments: the log of boot says more. On an old kernel ' +
      'give --gso=false; for the network of the host --network=host',
  },
  {
    id: 'vm-result-without-tap',
    pattern: oneOf(
      /failed to parse VM network configuration from CNI output[^\n]{0,160}/,
      /expected to find (?:1 IP for vm interface|at most 1 interface (?:in sandbox|with name)) "[^"]*", but instead found[^\n]{0,80}/,
    ),
    who: 'the Go SDK of Firecracker',
    meaning:
      'the result of the plugins does not have the one tap, with one address, that the virtual machine is to get',
    causes: [
      'tc-redirect-tap is not in the list, or not the last of it',
      'the plugin before it gave no address, or more than one (dual stack)',
    ],
    look: ['cat /etc/cni/conf.d/*.conflist', 'ls -l /opt/cni/bin/tc-redirect-tap'],
    cure: 'put {"type": "tc-redirect-tap"} last in "plugins", behind one that gives a single IPv4 address (ptp)',
  },
  {
    id: 'vm-mac-used',
    pattern: /The (?:guest )?MAC address:? \S+ is already in use|The MAC address is already in use: \S+/i,
    who: 'Firecracker',
    meaning: 'two network cards of one virtual machine were given one MAC address',
    causes: ['a card was added twice, under two names', 'the MAC is copied from another card of the machine'],
    look: ['curl --unix-socket FIRECRACKER-SOCKET http://localhost/vm/config'],
    cure: 'give each card a guest_mac of its own, or leave it out',
  },
]
