// SPDX-License-Identifier: Apache-2.0
// Of addresses by DHCP: the daemon, and servers that do not answer.

import type { KnownError } from './known-error.ts'

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
]
