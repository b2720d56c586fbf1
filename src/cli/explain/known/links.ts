// SPDX-License-Identifier: Apache-2.0
// Of links: macvlan and its like, bridges, names and MAC addresses.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of making and naming interfaces. */
export const linkErrors: readonly KnownError[] = [
  {
    id: 'master-missing',
    pattern: oneOf(
      /parent interface (?:\S+ )?(?:(?:does )?(?:not exist|not found)|(?:does )?was not found on the host)/,
      /invalid subinterface vlan name \S+/,
      /(?<!get |no )(?:master|parent|uplink|host) (?:interface|device|link)[^\n]{0,60}(?:does not exist|Link not found|no such (?:device|network interface))/,
      /failed to lookup (?:master "[^"]*"|device "[^"]*": Link not found)/,
      /error adding container to network "[^"]*": Link not found/,
      /failed to (?:find|lookup) (?:the )?(?:master|host) (?:interface|device)[^\n]{0,80}/,
      /error with host device: [^\n]{0,40}|no default route interface found/,
      /requested parent interface \S+ was not found|failed to get default route interface/,
      /unable to find (?:parent|master|any valid master) interface|Parent (?:device|interface) ['"][^'"]*['"] doesn't exist/,
      /error occurred looking up the (?:ip|mac)vlan parent iface \S+ error/,
      /type="(?:macvlan|ipvlan|macvtap|vlan)"[^\n]{0,60} failed \((?:add|cmdAdd)\): (?:failed to lookup[^\n]{0,60}: )?Link not found/,
      /(?:create|find|get) (?:the )?(?:\w+ ){0,3}master\b[^\n]{0,200}(?:Link not found|no such (?:device|network interface))/,
      /host device:\S+ is not present in the system/,
    ),
    who: 'macvlan, ipvlan, vlan, macvtap, host-device',
    meaning: 'the interface of `master` is not on this node',
    causes: [
      'nodes name it differently (eth0, ens3, enp1s0)',
      'an empty name: no `master` is given and the node has no default route',
      'it was moved into a pod (host-device), or renamed by udev a moment later',
      'the plugin runs in a container without the network of the host',
    ],
    look: ['ip -br link', 'ip route show default'],
    cure:
      'correct `master`; where names differ give the nodes one name with a systemd .link file, or one ' +
      'NetworkAttachmentDefinition for each kind of node',
  },
  {
    id: 'master-busy',
    pattern: oneOf(
      /(?:failed to create (?:the )?(?:macvlan|ipvlan|macvtap)[^\n]{0,60}|ensure there are no \w+ networks using the same [^\n]{0,20}: |error adding container to network "[^"]*": )device or resource busy/,
      /is already using parent interface \S+|Device or resource busy - Failed to create (?:mac|ip)vlan interface/,
      /create (?:mac|ip)vlan interface: Netlink error: Device or resource busy|(?:mac|ip)vlan[^\n]{0,200}Received a netlink error message Device or resource busy/,
      /device or resource busy"?[^\n]{0,40} (?:when|while) (?:creating|adding) (?:a |the )?(?:mac|ip)vlan\b/,
      /\bip link add [^\n]{0,120}?\b(?:mac|ip)v(?:lan|tap)\b[^\n]{0,80}\s[^\n]{0,40}RTNETLINK answers: Device or resource busy/,
    ),
    who: 'macvlan, ipvlan',
    meaning: 'the master interface serves something else that excludes it',
    causes: [
      'it has ipvlan interfaces and now a macvlan should go on it, or the other way round: the kernel allows one ' +
        'kind for each master',
      'it is a port of a bridge, a bond or Open vSwitch: use that as the master',
      'an interface of the earlier kind is left in a namespace that nobody uses',
    ],
    look: ['ip -d link show master MASTER', 'ip -d -br link show type ipvlan; ip -d -br link show type macvlan'],
    cure:
      'use one kind for each master (or a VLAN of it for the second); name the bridge or bond as `master` when it ' +
      'is a port',
  },
  {
    id: 'mac-in-use',
    pattern: oneOf(
      /(?<!vxlan[^\n]{0,120})failed to set (?:the )?(?:link|macvlan|interface|ipvlan)(?: "?[\w.-]+"?)? up: (?:device or resource busy|address already in use)/,
      /(?:error adding container to network "[^"]*"|failed to create (?:macvlan|ipvlan|macvtap)[^\n]{0,40}): address already in use/,
      /Address already in use - Failed to (?:perform ioctl|set(?:up)? (?:hw|mac) ?addr)[^\n]{0,200}/,
      /MAC address "[^"]*" already defined on another NIC|Failed to setup hw address for [^\n]{1,80}Address already in use/,
      /failed to add IP addr (?:\S+|\{[^}\n]{1,160}\}) to "[^"\n]{1,20}": address already in use/,
    ),
    who: 'the kernel',
    meaning: 'another macvlan on the same master has the MAC address that was asked for (ipvlan: the address)',
    causes: [
      'the annotation or the configuration gives a fixed `mac`, and the pod of before still lives on this node, or ' +
        'has leaked',
      'two pods have the same fixed `mac`',
    ],
    look: ['ip -d link show type macvlan', 'for n in /run/netns/*; do nsenter --net=$n ip -br link; done'],
    cure: 'wait for the end of the pod that has it, or give each pod a MAC of its own',
  },
  {
    id: 'vxlan-port-taken',
    pattern: oneOf(
      /vxlan[^\n]{0,200}\bset (?:the )?(?:link|interface|device)[^\n]{0,40} up: address already in use/,
      /set interface flannel\.\d+ to UP state: address already in use|Address already in use creating vxlan vport/,
      /(?:failed to add|adding|create) (?:a )?vxlan (?:interface |device |link )?\S+: file exists/,
      /device cilium_(?:vxlan|geneve): [^\n]{0,60}address already in use/,
      /ip link set (?:dev )?(?:\w*(?:vxlan|geneve)\w*|flannel\.\d+) up\b[^\n]{0,80}RTNETLINK answers: Address already in use/,
    ),
    who: 'docker, flannel, Cilium, meshnet',
    meaning: 'the UDP port or the number (VNI) of the tunnel is taken, so that its interface cannot be made or come up',
    causes: [
      'another network of the node tunnels over the same port (4789, 8472) with other settings: two add-ons, swarm',
      'the tunnel interface of an earlier network or pod is left, perhaps in a namespace of its own',
      '"file exists": the node has a VXLAN interface of this VNI already; there can be one for each port',
    ],
    look: ['ss -Hlnup', 'ip -d link show type vxlan; ls /run/docker/netns'],
    cure: 'remove the interface that is left, or give one of the networks another port (swarm init --data-path-port)',
  },
  {
    id: 'mac-invalid',
    pattern:
      /Failed setting MAC [^\n]{1,160}Cannot assign requested address|Cannot assign requested address - Failed to perform ioctl|failed to (?:create macvlan|set (?:the )?mac|add mac)[^\n]{0,80}cannot assign requested address|invalid args \S* for MAC addr|address \S*: invalid MAC address|failed to parse MAC address/i,
    who: 'the kernel',
    meaning: 'the MAC address that was asked for is none that an interface can have',
    causes: ['it is a multicast one: the second hexadecimal digit has to be even', 'it is all zeros'],
    look: ['kubectl get pod POD -o yaml | grep -A8 k8s.v1.cni.cncf.io/networks'],
    cure: 'use one that begins with 02, 06, 0a or 0e',
  },
  {
    id: 'interface-exists',
    pattern: oneOf(
      /(?:creat\w*|add(?:ing)?|mak\w*) (?:the |a |new )?(?:container |host |pod )?(?:veth|interface|tap(?! ingress)|macvlan|link)\b(?: pair)?[^\n]{0,80}: file exists/,
      /create (?:bridge|veth|macvlan|ipvlan) interface: Netlink error: File exists/,
      /container veth name (?:provided )?\([^)]*\)[^\n]{0,60} already exists|interface name \S+ already exists/,
      /failed to rename (?:link|veth|macvlan|ipvlan|vlan|tap|container interface) [^\n]{0,60}file exists/,
      /failed to create (?:macvlan|ipvlan|dummy|tap|macvtap): file exists/,
      /failed to move vf \d+ to netns: "?file exists/,
      /(?:failed to|could not) (?:rename|move|restore) (?!(?:the )?(?:link )?vf\b)[^\n]{0,160}: "?file exists/,
      /creating vxlan interface: file exists|ip link add [^\n]{1,120}RTNETLINK answers: File exists/,
    ),
    who: 'a plugin',
    meaning: 'the pod has an interface of this name already',
    causes: [
      'an ADD that was not followed by a DEL ran in this namespace before (cnitool, a kubelet that was restarted)',
      'two networks of the pod want the same name: two entries, or a default network that is named again in the ' +
        'annotation',
      'a plugin was called with the name lo or eth0 of another one',
      'docker overlay ("creating vxlan interface"): the vx-… or namespace of an earlier overlay is left on the node',
    ],
    look: ['crictl inspectp POD | grep -i netns', 'ip -n NETNS -br link', 'trestle lint'],
    cure:
      'delete the pod: it gets a new namespace. With cnitool run `del` first; give each network of the pod an ' +
      'interface name of its own. What docker overlay left goes with ip link delete vx-…, or a restart of the machine',
  },
  {
    id: 'multus-interface-gone',
    pattern: /(?:cannot set "[^"]*" interface name to "[^"]*": )?validateIfName: no net namespace[^\n]{0,200}/,
    who: 'Multus',
    meaning: "the Multus daemon does not see the pod's network namespace",
    causes: [
      'its pod has /run/netns not mounted from the host, or without HostToContainer propagation',
      'the pod ended meanwhile',
    ],
    look: ['kubectl -n kube-system get ds -o yaml | grep -B2 -A4 netns'],
    cure:
      'mount /run/netns of the host with mountPropagation: HostToContainer into the Multus DaemonSet; check the ' +
      'paths on k3s and rke2',
  },
  {
    id: 'bridge-is-none',
    pattern: /"[^"]+" already exists but is not a bridge|existing interface \S+ is not a bridge/,
    who: 'the bridge plugin',
    meaning: 'an interface of another kind has the name of the bridge',
    causes: ['`bridge` names a network card, a bond or a VLAN', 'another program made an interface with this name'],
    look: ['ip -d link show NAME'],
    cure: 'use another name for `bridge`; to put pods on a network card make it a port of a bridge, or use macvlan',
    alsoOurs: true,
  },
  {
    id: 'bridge-mac',
    pattern: /could not set bridge's mac: [a-z ]+/,
    who: 'the bridge plugin',
    meaning: 'the bridge could not be given the MAC that it has: it had none that is valid',
    causes: [
      'an ADD before it failed and left the bridge without a port',
      'systemd-udevd or NetworkManager changed the MAC at the same moment',
    ],
    look: ['ip -d link show type bridge', 'networkctl list; nmcli device 2>/dev/null'],
    cure:
      'when no pod is on it: ip link delete BRIDGE, and start again; let NetworkManager and networkd leave the ' +
      'bridge alone (unmanaged)',
  },
  {
    id: 'link-busy',
    pattern: oneOf(
      /(?:failed to|could not|unable to|cannot|can't) (?:rename|restore|move|connect|enslave|add|set)\b (?!the address)[^\n]{0,160}: device or resource busy/,
      /RTNETLINK answers: Device or resource busy|could not add network device \S+ to \S+ \(Device or resource busy\)/,
    ),
    who: 'the kernel',
    meaning: 'the interface cannot be changed now: it is up, or belongs to a bridge, a bond, a VRF or a container',
    causes: [
      'it is a port of something else already (ovs, a bond, another bridge)',
      'it was to be renamed while it is up, or udev or NetworkManager worked on it at that moment',
    ],
    look: ['ip -d link show INTERFACE', 'bridge link; ovs-vsctl show'],
    cure: 'take the interface out of what holds it (ip link set INTERFACE nomaster); keep udev and others off it',
    needsNetwork: true,
  },
  {
    id: 'bridge-port-refused',
    pattern: oneOf(
      /Device does not allow enslaving to a bridge|Can not enslave a bridge to a bridge/,
      /can't add \S+ to bridge \S+: (?:Operation not supported|Invalid argument|Too many levels of symbolic links)/,
      /(?:to|with) bridge [^\n]{1,80}: too many levels of symbolic links/,
    ),
    who: 'the kernel',
    meaning: 'the kernel does not take this interface as a port of a bridge',
    causes: [
      'it is a Wi-Fi card that is a client of an access point: it may send from its own MAC only',
      'it is a bridge itself, a loopback, an ipvlan, or a macvlan on that bridge',
    ],
    look: ['ip -d link show INTERFACE', 'bridge link'],
    cure: 'use a wired card or a VLAN of it; over Wi-Fi let the node route or masquerade (bridge without a port, ptp)',
  },
  {
    id: 'bridge-loop',
    pattern: /received packet on \S+ with own address as source address/i,
    who: 'the kernel',
    meaning: 'a bridge received a frame from its own MAC address: it came back by a loop, or another one has that MAC',
    causes: [
      'a loop: two ports of the bridge lead to the same network, a switch or hypervisor sends the frame back',
      'a copied machine or container, or two links, have the same MAC',
    ],
    look: ['bridge link; bridge fdb show', 'ip -d -br link | sort -k3'],
    cure: 'take one of the two ways out, or switch STP on (ip link set BRIDGE type bridge stp_state 1); change the MAC',
  },
  {
    id: 'bridge-port-down',
    pattern: /bridge port in error state: \S+/,
    who: 'the bridge plugin',
    meaning: 'the end of the pair that is the bridge port did not come up within some seconds',
    causes: ['the bridge is down, or somebody took the port down: NetworkManager, networkd', 'the node is overloaded'],
    look: ['ip -d link show master BRIDGE', 'networkctl list; nmcli device 2>/dev/null'],
    cure: 'bring the bridge up, and let NetworkManager and networkd leave veths alone (unmanaged)',
  },
]
