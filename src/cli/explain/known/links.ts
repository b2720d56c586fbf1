// SPDX-License-Identifier: Apache-2.0
// Of links: macvlan and its like, names, MTU, DHCP.

import type { KnownError } from './known-error.ts'

/** Errors of making and naming interfaces. */
export const linkErrors: readonly KnownError[] = [
  {
    id: 'dhcp-netns',
    pattern: /DHCP\.(?:Allocate|Release): [^\n]{0,60}failed to (?:Statfs|open netns)[^\n]{0,160}/,
    who: 'the dhcp daemon',
    meaning: "the dhcp daemon does not see the pod's network namespace",
    causes: ['the daemon runs in a pod without /run/netns of the host, or without HostToContainer propagation'],
    look: ['kubectl get ds -A | grep -i dhcp', 'ls /run/netns'],
    cure:
      'mount /run/netns of the host into it with mountPropagation: HostToContainer (and hostPID where paths are ' +
      '/proc/…), or run the daemon on the host',
  },
  {
    id: 'dhcp-daemon',
    pattern:
      /(?:nv-proxy|dhcp-proxy|netavark-dhcp\S*)[^\n]{0,80}(?:no such file or directory|connection refused|not (?:running|found))|error dialing DHCP daemon[^\n]{0,100}|dhcp\.sock: connect: [^\n]{0,40}/,
    who: 'the dhcp plugin',
    meaning: 'the dhcp daemon does not run on this node: `ipam.type` dhcp only passes the call on to it',
    causes: [
      'nobody starts it: it is no part of any package',
      'a socket of an earlier run is left (connection refused)',
    ],
    look: ['ls -l /run/cni/dhcp.sock', 'pgrep -af "dhcp daemon"'],
    cure:
      'rm -f /run/cni/dhcp.sock; /opt/cni/bin/dhcp daemon  (as a service: systemd/cni-dhcp.service and .socket of ' +
      'the plugins repository)',
  },
  {
    id: 'dhcp-no-answer',
    pattern:
      /unable to receive an? (?:offer|ack)|no matching response packet received|got an error while the (?:discovery )?request|DHCP server (?:NACK'd own offer|did not renew lease)|(?:acquiring|renewing) (?:the )?(?:DHCP )?lease[^\n]{0,60}(?:failed|timed out|timeout)|unable to obtain (?:a )?(?:DHCP )?lease|DHCP[^\n]{0,60}(?:timed out|timeout)|no (?:DHCP packet received|more tries)(?: within \S+)?|error calling DHCP\.Allocate/,
    who: 'the dhcp daemon',
    meaning: 'no DHCP server answered in time',
    causes: [
      'the requests do not reach one: a VLAN, a switch or hypervisor that drops frames of unknown MACs (macvlan), ' +
        'Wi-Fi',
      'the server is slower than the daemon waits (5 or 10 s)',
      'with bridge: the bridge has no port into the LAN, or br_netfilter filters DHCP',
    ],
    look: ['tcpdump -ni MASTER -e port 67 or port 68', 'bridge link'],
    cure:
      'let the hypervisor accept forged MACs and promiscuous mode; start the daemon with -broadcast=true and a ' +
      'longer -timeout',
  },
  {
    id: 'master-missing',
    pattern:
      /parent interface \S+ (?:does not exist|not found)|(?:master|parent|uplink|host) (?:interface|device|link)[^\n]{0,60}(?:does not exist|Link not found|no such (?:device|network interface))|failed to lookup (?:master "[^"]*"|device "[^"]*": Link not found)|error adding container to network "[^"]*": Link not found|failed to (?:find|lookup) (?:master|host) (?:interface|device)[^\n]{0,80}|error with host device: [^\n]{0,40}|no default route interface found/i,
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
    pattern:
      /(?:failed to create (?:the )?(?:macvlan|ipvlan|macvtap)[^\n]{0,60}|error adding container to network "[^"]*": )device or resource busy/i,
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
    pattern:
      /failed to set (?:the )?(?:link|macvlan|interface|ipvlan)(?: "?[\w.-]+"?)? up: (?:device or resource busy|address already in use)|(?:error adding container to network "[^"]*"|failed to create (?:macvlan|ipvlan|macvtap)[^\n]{0,40}): address already in use/i,
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
    id: 'mac-invalid',
    pattern:
      /failed to (?:create macvlan|set (?:the )?mac|add mac)[^\n]{0,80}cannot assign requested address|invalid args \S* for MAC addr|address \S*: invalid MAC address|failed to parse MAC address/i,
    who: 'the kernel',
    meaning: 'the MAC address that was asked for is none that an interface can have',
    causes: ['it is a multicast one: the second hexadecimal digit has to be even', 'it is all zeros'],
    look: ['kubectl get pod POD -o yaml | grep -A8 k8s.v1.cni.cncf.io/networks'],
    cure: 'use one that begins with 02, 06, 0a or 0e',
  },
  {
    id: 'interface-exists',
    pattern:
      /(?:creat\w*|add(?:ing)?|mak\w*) (?:the |a |new )?(?:container |host |pod )?(?:veth|interface|tap|macvlan|link)\b(?: pair)?[^\n]{0,80}: file exists|create (?:bridge|veth|macvlan|ipvlan) interface: Netlink error: File exists|container veth name provided \([^)]*\) already exists|container veth name \("[^"]*"\) peer provided \("[^"]*"\) already exists|interface name \S+ already exists|failed to rename (?:link|veth|macvlan|ipvlan|vlan|tap|container interface) [^\n]{0,60}file exists|failed to create (?:macvlan|ipvlan|dummy|tap|macvtap): file exists/,
    who: 'a plugin',
    meaning: 'the pod has an interface of this name already',
    causes: [
      'an ADD that was not followed by a DEL ran in this namespace before (cnitool, a kubelet that was restarted)',
      'two networks of the pod want the same name: two entries, or a default network that is named again in the ' +
        'annotation',
      'a plugin was called with the name lo or eth0 of another one',
    ],
    look: ['crictl inspectp POD | grep -i netns', 'ip -n NETNS -br link', 'trestle lint'],
    cure:
      'delete the pod: it gets a new namespace. With cnitool run `del` first; give each network of the pod an ' +
      'interface name of its own',
  },
  {
    id: 'multus-interface-gone',
    pattern: /cannot set "[^"]*" interface name to "[^"]*": validateIfName: no net namespace[^\n]{0,200}/,
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
    pattern: /"[^"]+" already exists but is not a bridge/,
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
    id: 'mtu-invalid',
    pattern:
      /\bmtu\b[^\n]{0,80}(?:invalid argument|numerical result out of range)|failed to make veth pair: (?:invalid argument|numerical result out of range)|failed to create (?:bridge|vlan)[^\n]{0,60}: (?:invalid argument|numerical result out of range)|invalid MTU \d+, must be|mtu (?:greater|less) than device (?:maximum|minimum)|invalid VLAN ID \d+|vlan (?:id|QoS PCP|Proto) \S+ invalid|interface name is too long|interface name (?:must be less than|should be less than)|failed to parse MTU/i,
    who: 'the kernel',
    meaning: 'a value for the interface is out of bounds: mostly its MTU, or the length of its name',
    causes: [
      '`mtu` above 65535: some add-ons take that of lo (65536) when the default route has none they understand',
      'a name of more than 15 characters',
      '`mtu` of a macvlan larger than that of its master',
    ],
    look: ['trestle lint', 'ip -br link; ip route show default'],
    cure: 'set `mtu` to what the uplink carries (1500, less a tunnel), or leave it out',
  },
  {
    id: 'route-refused',
    pattern:
      /(?:add|adding|replace|create|set(?:ting)? up)\b[^\n]{0,40}\b(?:routes?|gateway)\b[^\n]{0,200}(?:file exists|network is unreachable|no route to host|nexthop has invalid gateway|network is down)|failed to add (?:default |host )?route[^\n]{0,200}(?:file exists|network is unreachable|no route to host)/i,
    who: 'a plugin',
    meaning: 'the kernel refused a route of the pod',
    causes: [
      'file exists: two networks of the pod both bring a default route (or the same one)',
      'network is unreachable: the gateway of the route is in none of the networks of the pod',
      'file exists, on a host route (aws-cni): the route of a pod that had the address before was left on the node',
    ],
    look: ['trestle lint', 'ip -n NETNS route'],
    cure:
      'take the default route out of the second network (`routes` of ipam), or choose one with default-route in ' +
      'the annotation; correct `gw`',
    needsNetwork: true,
  },
  {
    id: 'qdisc-exists',
    pattern: /create (?:ingress )?qdisc[^\n]{0,80}file exists/i,
    who: 'the bandwidth plugin',
    meaning: 'the interface of the pod has a queue at its entrance already',
    causes: ['an agent with eBPF (Cilium, an observer) put clsact there', 'an ADD before it failed half way'],
    look: ['tc qdisc show | grep -e ingress -e clsact'],
    cure: "use the agent's own bandwidth manager, or take the bandwidth plugin out of the list",
  },
  {
    id: 'dad-unfinished',
    pattern:
      /still has tentative addresses after \d+ seconds|not in preferred state|waiting for v6 addresses to be stable/,
    who: 'a plugin that waits for IPv6 addresses',
    meaning: 'the check for duplicates (DAD) of an IPv6 address of the pod did not end in time',
    causes: [
      'the interface has no carrier: the master, the bridge or the other end of the pair is down',
      'the bridge still learns (STP with its delay of 15 seconds), so nothing passes it',
    ],
    look: ['ip -n NETNS -6 addr', 'ip -br link; bridge -d link show'],
    cure: 'bring the interface below up, take STP off the bridge; or switch DAD off (enabledad: false, accept_dad 0)',
  },
  {
    id: 'check-failed',
    pattern:
      /error (?:while )?checking pod \S* ?(?:for|to) CNI network "[^"]*"|(?:Bridge )?Interface \S+ Mac doesn't match|Interface \S+ Mac \S+ doesn't match container Mac|Sandbox in prevResult \S+ doesn't match|CNI (?:created (?:bridge|interface in container)|veth created for bridge) \S+ (?:in host namespace )?(?:was )?not found|Container Interface name in prevResult: \S+ not found|Expected Route [^\n]{1,80}not (?:found in routing table|route table lookup)|Failed to match addr \S+ on interface|missing hostport rules in "[^"]*" chain|failed \((?:check|cmdCheck)\): (?!failed to find plugin|incompatible)[^\n]{1,120}/i,
    who: 'a plugin, by CHECK',
    meaning: 'CHECK found the network of the pod other than its ADD had made it',
    causes: [
      'CRI-O calls CHECK right after ADD, and something changed the interface in between: systemd-udevd gives ' +
        'veths a MAC of its own (MACAddressPolicy=persistent)',
      'a later plugin of the list changes an address, a MAC or a route without saying so in its result',
      'somebody flushed rules or removed a link since the ADD',
    ],
    look: ['cat /usr/lib/systemd/network/99-default.link', 'ip -n NETNS addr; ip -n NETNS route', 'networkctl list'],
    cure:
      'let udev leave veths alone (a .link file with MACAddressPolicy=none for veth*), or set "disableCheck": true ' +
      'in the list; a pod whose network was removed is to be made anew',
    wraps: true,
  },
]
