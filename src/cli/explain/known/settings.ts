// SPDX-License-Identifier: Apache-2.0
// Of what an interface gets when it is there: its MTU, routes, queues, IPv6 addresses; and of CHECK, which looks at it.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of setting up interfaces. */
export const settingErrors: readonly KnownError[] = [
  {
    id: 'mtu-invalid',
    pattern: oneOf(
      /\bmtu\b[^\n]{0,80}(?:invalid argument|numerical result out of range)/,
      /failed to make veth pair: (?:invalid argument|numerical result out of range)/,
      /(?<!\|ERR\|)failed to create (?:bridge|vlan)[^\n]{0,60}: (?:invalid argument|numerical result out of range)/,
      /invalid MTU \d+, must be|mtu (?:greater|less) than device (?:maximum|minimum)|invalid VLAN ID \d+/,
      /vlan (?:id|QoS PCP|Proto) \S+ invalid|interface name is too long/,
      /interface name (?:must be less than|should be less than)|failed to parse MTU/,
      /vlan id must be between 1-4094|\bInterface name \S+ too long\b/,
      /\b(?:bridge|veth|vlan|link|interface|RTNETLINK)\b[^\n]{0,120}numerical result out of range/,
      /(?:setting interface|configure|add|set)[^\n]{0,60} (?:IPv6|address)[^\n]{0,20} [\da-f]{0,4}:[\da-f:]*\/\d+: invalid argument/,
      /argument "[^"]*" is wrong: "(?:name|dev)" not a valid ifname|"(?:name|dev)" not a valid ifname/,
      /Invalid (?:MTU|VLAN ID) (?:specified )?"[^"]*"|invalid MTU number: -?\d+|Network name too long for tunnel interface/,
      /failed to rename (?:\w+ ){0,2}[^\n]{1,80} to "[^"\n]{1,80}": invalid argument/,
    ),
    who: 'the kernel',
    meaning: 'a value for the interface is out of bounds: mostly its MTU, or the length of its name',
    causes: [
      '`mtu` above 65535: some add-ons take that of lo (65536) when the default route has none they understand',
      'a name of more than 15 characters',
      '`mtu` of a macvlan larger than that of its master',
      'an IPv6 address that is refused with "invalid argument": the MTU is below 1280, with which there is no IPv6',
    ],
    look: ['trestle lint', 'ip -br link; ip route show default'],
    cure: 'set `mtu` to what the uplink carries (1500, less a tunnel), or leave it out',
  },
  {
    id: 'route-refused',
    pattern: oneOf(
      /(?:add|adding|replace|create|set(?:ting)? up)\b[^\n]{0,40}\b(?:routes?|gateway)\b[^\n]{0,200}(?:file exists|network (?:is )?unreachable|no route to host|nexthop has invalid gateway|network is down)/,
      /inject routes? due to: (?:network is unreachable|file exists|no route to host|invalid argument)/,
      /Route(?:Add|Replace) [^\n]{0,300}(?:file exists|network is unreachable|no route to host|invalid argument)/,
      /Route(?:Add|Replace|Append)\b[^\n]{0,240}(?:file exists|network (?:is )?unreachable|no route to host|invalid argument|no such process)/,
      /\badd(?:ing)? (?:(?:the|a|an|default|host|pod|new|static|IP v[46]) ){0,3}routes?\b[^\n]{0,200}: invalid argument/,
      /reconcil\w+ (?:node )?routes[^\n]{0,120}(?:file exists|network is unreachable|no route to host|invalid argument)/,
      /\b(?:add_routes?|update_?routes?|update routes|set IPv[46] route\(s\) in guest)(?!\w)[^\n]{0,160}(?:File exists|Network is unreachable|Invalid argument|No route to host)/,
      /failed to set (?:IPv[46] |default )?(?:gateway|default route)\b[^\n]{0,160}: (?:network is unreachable|no route to host|file exists|invalid argument)/,
      /failed to add (?:default |host )?route[^\n]{0,200}(?:file exists|network is unreachable|no route to host)/,
      /(?:Network is unreachable|No route to host|File exists|Invalid argument) - Failed to (?:setup|add) ipv[46] (?:gateway|route|dest|address route)/,
      /Couldn't set IPv[46] routes?(?:\(s\))? in guest: (?!Operation not supported|Permission denied)[A-Z][a-z ]{1,40}/,
      /netlink: Too many routes to duplicate|route for the gateway \S+ could not be found(?:: [a-z ]{1,40})?/,
      /Nexthop (?:has invalid gateway|device is not up)|RTNETLINK answers: Network is unreachable/,
    ),
    who: 'a plugin',
    meaning: 'the kernel refused a route of the pod',
    causes: [
      'file exists: two networks of the pod both bring a default route (or the same one)',
      'network is unreachable: the gateway of the route is in none of the networks of the pod',
      'invalid argument: the source address of the route is on no interface there',
      '"Argument list too long", "Too many routes": pasta cannot copy as many routes as the node has: update passt, ' +
        'or use another network (--network=bridge)',
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
    pattern:
      /(?:create (?:ingress )?qdisc|add qdisc for network index|add tap ingress|add ingress qdisc to device)[^\n]{0,80}file exists/i,
    who: 'the bandwidth plugin, Kata',
    meaning: 'the interface of the pod has a queue at its entrance already',
    causes: ['an agent with eBPF (Cilium, an observer) put clsact there', 'an ADD before it failed half way'],
    look: ['tc qdisc show | grep -e ingress -e clsact'],
    cure: "use the agent's own bandwidth manager, or take the bandwidth plugin out of the list",
  },
  {
    id: 'dad-unfinished',
    pattern: oneOf(
      /still has tentative addresses after \d+ seconds|not in preferred state|waiting for v6 addresses to be stable/,
      /state of the local link address is still not READY/,
    ),
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
    pattern: oneOf(
      /network namespace already exists but was misconfigured|(?:BrName|DeviceID|IPAM|SocketFile) mismatch\. cache=/,
      /(?:vlan (?:mode|tag)|trunk) mismatch\. (?:expected|ovs)=/,
      /error (?:while )?checking pod \S* ?(?:for|to) CNI network "[^"]*"/,
      /(?:Bridge )?Interface \S+ Mac doesn't match|interface \S+ Mac (?:\S+ )?(?:doesn't|does not) match/,
      /Sandbox in prevResult \S+ doesn't match/,
      /CNI (?:created (?:bridge|interface in container)|veth created for bridge) \S+ (?:in host namespace )?(?:was )?not found/,
      /Container Interface name in prevResult: \S+ not found/,
      /Expected Route [^\n]{1,80}not (?:found in routing table|route table lookup)/,
      /Failed to match addr \S+ on interface|missing hostport rules in "[^"]*" chain/,
      /failed \((?:check|cmdCheck)\): (?!failed to find plugin|incompatible)[^\n]{1,120}/,
      /Interface \S+ is expected to be in a sandbox|interface \S+ should not be in (?:host namespace|sandbox)/,
      /Container interface \S+ not of type|does not have link type of bridge/,
      /(?:mode|Master|value) \S+ does not match expected value|Error: Tuning (?:configured|link) /,
      /configured Promisc Mode \S+ doesn't match|expected (?:\S+ )?rule [^\n]{1,200} not found\b/,
      /rule [^\n]{1,200} in chain \S+ not found in table|chain \S+ not found in iptables table/,
      /Failed to find address added by container|loopback interface (?:is down|found with non-loopback address)/,
      /peer index doesn't match container interface|(?:interface IP \S+ does not match|peer veth interface not found for) container/,
    ),
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
