// SPDX-License-Identifier: Apache-2.0
// Errors about the configuration, but for addresses: one key, or keys that contradict each other or the interface.

import type { SomeErrorTexts } from './error-texts.ts'

export const configurationErrors = {
  'unsupported-value': {
    cause: 'a key has a value that trestle cannot honour, and leaving it out would change what was asked for',
    cure: 'the message names key and value: remove the key or use another value',
  },
  'wrong-type': {
    cause: 'a key has a value of the wrong kind, like a number in quotes',
    cure: 'the message names the key, `details` what would be accepted',
  },
  'invalid-value': {
    cause: 'a number is out of its bounds, or a word is none of those that a key takes',
    cure: 'the message names the key, `details` what would be accepted',
  },
  'network-name-missing': {
    cause: 'the configuration has no name',
    cure: 'add "name": letters, digits, _, . and -',
  },
  'network-name-invalid': {
    cause: 'the name has characters that a name of a network may not have, or too many',
    cure: 'use letters, digits, _, . and -; the first is a letter or digit',
  },
  'plugin-type-invalid': {
    cause: 'a type is no name of a file',
    cure: 'use the file name of a plugin in CNI_PATH, without /',
  },
  'attachment-incomplete': {
    cause: 'an entry of the list of attachments of a GC has no container id or no interface name',
    cure: 'the caller has to give both',
  },
  'attachment-too-large': {
    cause: 'what one pod is to have does not fit into a record of 1 MiB',
    cure: 'use fewer host ports, routes, sysctls or DNS domains',
  },
  'chained-first': {
    cause: 'mode chained works on the interface of a plugin before it, and there is none',
    cure: 'put it after the plugin that makes the interface, or use mode bridge or ptp',
  },
  'chained-twice': {
    cause: 'a list has two chained entries of trestle, and one attachment cannot hold both',
    cure: 'put the keys of both into one entry: it does all that it is asked for in one run',
  },
  'prev-result-missing': {
    cause: 'CHECK compares with the result of ADD, and the caller did not send it',
    cure: 'the caller has to send prevResult; libcni keeps it below /var/lib/cni/results',
  },
  'prev-result-invalid': {
    cause: 'prevResult is no result, or of another cniVersion than the configuration',
    cure: 'the message names the place; see what the plugin before trestle printed',
  },
  'result-invalid': {
    cause: 'a plugin printed a result that is none',
    cure: 'the message names the place: the plugin has to print a result of the specification, section 5',
  },
  'version-needs-address': {
    cause: 'a result of cniVersion 0.1.0 or 0.2.0 has an address, and the configuration gives none',
    cure: 'use cniVersion 0.3.1 or newer, or configure ipam',
  },
  'bridge-name': {
    cause: 'no bridge can have this name, or a tool would read it as something else',
    cure: 'use 1 to 15 bytes: letters, digits, _, . and -',
  },
  'master-not-there': {
    cause: 'the interface that a macvlan is to be put on is not on the node; without `master` none has a default route',
    cure: 'name one that is there: `ip -br link` shows them',
  },
  'master-unusable': {
    cause:
      'no macvlan goes on this interface: loopback, Wi-Fi, no Ethernet, a port of a bridge or bond, ' +
      'or in use by ipvlan or a passthru',
    cure:
      '`ip -d link show MASTER`; use another one, the bridge for its port, ' +
      'or ipvlan of the upstream plugins on Wi-Fi',
  },
  'mtu-above-master': {
    cause: 'a macvlan carries no larger packets than the interface that it is on',
    cure: 'leave `mtu` out, or use that of the master at most',
  },
  'vlan-trunk': {
    cause: 'an entry of vlanTrunk is incomplete, or not from 1 to 4094',
    cure: 'use {"id": 100} or {"minID": 100, "maxID": 110}',
  },
  'hairpin-and-promiscuous': {
    cause: 'hairpinMode and promiscMode both send frames back to their port: pods would get them twice',
    cure: 'use one of the two',
  },
  'mtu-below-ipv6': {
    cause: 'pods get IPv6 addresses, and the kernel takes IPv6 off a link with an MTU below 1280 (RFC 8200)',
    cure: 'use 1280 or more, or no IPv6 range',
  },
  'mac-address': {
    cause: 'the value is no MAC address, or none that an interface can have',
    cure: 'use six bytes like "c2:11:22:33:44:55", the first one even',
  },
  'sysctl-key': {
    cause: 'tuning sets keys of the network of a pod only, and this is none of them',
    cure: 'use a key below net; kubelet sets others from securityContext.sysctls',
  },
  'sysctl-repeated': {
    cause: 'a key is there twice, perhaps once with dots and once with slashes',
    cure: 'use it once',
  },
  'sysctl-not-allowed': {
    cause: 'the allowlist of the node does not have the key',
    cure: 'remove the key, or add it to the file that `details` names',
  },
  'burst-without-rate': {
    cause: 'a burst is set, and no rate to go with it',
    cure: 'set the rate, in bits per second, or remove the burst',
  },
  'rate-too-low': {
    cause: 'the kernel counts bytes per second, and the rate is less than one',
    cure: 'use bits per second, from 8 on',
  },
  'bandwidth-without-veth': {
    cause: 'limits are set on the end of a veth on the host, and the interface is none',
    cure: 'use bandwidth after ptp or bridge, or leave it out',
  },
  'bandwidth-set-already': {
    cause: 'another plugin of the list, or an agent, limits the link already',
    cure: 'let one of them do it',
  },
  'policy-without-veth': {
    cause: 'ingressPolicy works on the end of a veth on the host, and the interface is none',
    cure: 'use it after ptp or bridge, or set "ingressPolicy": "open"',
  },
  'sbr-gateways': {
    cause: 'sbr.gateways is not one IPv4 address, one IPv6 address, or one of each',
    cure: 'leave out what is too much',
  },
  'accept-mark-taken': {
    cause: 'the bit of the packet mark has a meaning in the rules of portmap, kube-proxy or kubelet',
    cure: 'use another bit from 0 to 31, or leave it out',
  },
  'firewalld-zone': {
    cause: 'firewalld could have no zone of that name',
    cure: 'use one that `firewall-cmd --get-zones` lists, or leave it out',
  },
  'port-mapping-incomplete': {
    cause: 'a port mapping of the runtime has no host port or no container port',
    cure: 'see `ports` of the pod, or the options of the runtime',
  },
  'port-mapped-twice': {
    cause: 'a pod maps one host port to two ports of its own',
    cure: 'use one of them, or two host ports',
  },
  'port-protocol': {
    cause: 'a port mapping has a protocol that host ports do not have',
    cure: 'use tcp, udp or sctp',
  },
  'port-host-ip': {
    cause: 'the hostIP of a port mapping is no address',
    cure: 'use an address of the node, or leave it out',
  },
  'ports-without-route': {
    cause: 'host ports are translated on the node and routed from there, and it has no route to the pod',
    cure: '`ip route get ADDRESS` on the node shows the way; use host ports after ptp or bridge',
  },
  'condition-invalid': {
    cause: 'a condition of portmap is no match that trestle understands',
    cure: '`details` lists the matches; conditions of iptables are not taken',
  },
  'condition-overlap': {
    cause: 'two prefixes of one list overlap, which nft refuses',
    cure: 'leave the narrower one out',
  },
  'conditions-too-long': {
    cause: 'the conditions are longer than 8192 characters',
    cure: 'use wider prefixes',
  },
  'condition-unsafe': {
    cause: 'a condition, perhaps of a damaged record, would be more than one match in a rule',
    cure: 'correct portmap.conditionsV4 and V6',
  },
  'element-unsafe': {
    cause: 'a name of a link has characters that nft would read as something else',
    cure: 'use link names without quotes, backslash, % or #, and without * at the end',
  },
  'loopback-other-address': {
    cause: 'lo of the pod has an address that is none of loopback',
    cure: '`details` has the command that takes it off; see what has put it there',
  },
} as const satisfies SomeErrorTexts
