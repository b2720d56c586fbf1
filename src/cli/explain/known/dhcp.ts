// SPDX-License-Identifier: Apache-2.0
// Of addresses by DHCP: the daemon, and servers that do not answer.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of the dhcp plugin and its daemon. */
export const dhcpErrors: readonly KnownError[] = [
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
    pattern: oneOf(
      /(?:nv-proxy|dhcp-proxy|netavark-dhcp)[^\n]{0,80}(?:no such file or directory|connection refused|not (?:running|found))/,
      /error dialing DHCP daemon[^\n]{0,100}|dhcp\.sock: connect: [^\n]{0,40}|cannot access dhcp socket/,
      /error calling DHCP\.\w+: (?:unexpected EOF|EOF\b|connection (?:is shut down|reset)|read unix)[^\n]{0,60}/,
      /Error getting listener: [^\n]{0,60}dhcp\.sock[^\n]{0,60}/,
    ),
    who: 'the dhcp plugin',
    meaning: 'the dhcp daemon does not run on this node: `ipam.type` dhcp only passes the call on to it',
    causes: [
      'nobody starts it: it is no part of any package',
      'a socket of an earlier run is left (connection refused)',
      'it ended in the middle of the call ("EOF"), or a second one was started ("address already in use")',
    ],
    look: ['ls -l /run/cni/dhcp.sock', 'pgrep -af "dhcp daemon"'],
    cure:
      'rm -f /run/cni/dhcp.sock; /opt/cni/bin/dhcp daemon  (as a service: systemd/cni-dhcp.service and .socket of ' +
      'the plugins repository)',
  },
  {
    id: 'dhcp-no-answer',
    pattern: oneOf(
      /unable to receive an? (?:offer|ack)|no matching response packet received/,
      /got an error while the (?:discovery )?request|DHCP server (?:NACK'd own offer|did not renew lease)/,
      /(?:acquiring|renewing) (?:the )?(?:DHCP )?lease[^\n]{0,60}(?:failed|timed out|timeout)/,
      /unable to obtain (?:a )?(?:DHCP )?lease(?![^\n]{0,400}Netlink error)/,
      /DHCP[^\n]{0,60}(?:timed out|timeout)|(?<!subnet: )no (?:DHCP packet received|more tries)(?: within \S+)?/,
      /error calling DHCP\.Allocate(?!: (?:DHCP option|error looking up|unexpected EOF|EOF|connection |read unix|error parsing|Can not parse|value too long))|acquiring lease\b.{0,400}?resource temporarily unavailable/,
      /lease expired, bringing interface DOWN|ren[ae]wal time expired, rebinding/,
    ),
    who: 'the dhcp daemon',
    meaning: 'no DHCP server answered in time',
    causes: [
      'the requests do not reach one: a VLAN, a switch or hypervisor that drops frames of unknown MACs (macvlan), ' +
        'Wi-Fi',
      'the server is slower than the daemon waits (5 or 10 s)',
      'with bridge: the bridge has no port into the LAN, or br_netfilter filters DHCP',
      'of a lease that ran out: the server is gone or refuses to renew it; the daemon takes the interface of ' +
        'the pod down then',
    ],
    look: ['tcpdump -ni MASTER -e port 67 or port 68', 'bridge link'],
    cure:
      'let the hypervisor accept forged MACs and promiscuous mode; start the daemon with -broadcast=true and a ' +
      'longer -timeout',
  },
  {
    id: 'dhcp-answer-incomplete',
    pattern: /DHCP option [\w ]+ not found in DHCPACK|\boption \w+ (?:not found|is not 4 bytes)(?=["'\s]*$)/,
    who: 'the dhcp daemon',
    meaning: 'a DHCP server answered, and its answer lacks something that the plugin needs: the subnet mask, mostly',
    causes: ['the server gives no mask or router for this range', 'another server answered than the one that should'],
    look: ['tcpdump -vni MASTER port 67 or port 68'],
    cure: 'let the server send option 1 (mask) and 3 (router) for the range; or request them in `ipam` of dhcp',
    needsNetwork: true,
  },
  {
    id: 'dhcp-lease-lost',
    pattern: /lease not found: \S+/,
    who: 'the dhcp daemon',
    meaning: 'the daemon has no lease for this pod',
    causes: ['it was restarted since the ADD: it keeps its leases in memory, and renews none of those from before'],
    look: ['systemctl status cni-dhcp; pgrep -af "dhcp daemon"'],
    cure: 'make the pods anew that had their address from it; of a DEL it is harmless, and newer plugins do not fail',
    needsNetwork: true,
  },
]
