// SPDX-License-Identifier: Apache-2.0
// Of names for containers: CoreDNS of a cluster, and the servers of podman and of networks without root.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of names that get no answer. */
export const nameErrors: readonly KnownError[] = [
  {
    id: 'dns-upstream-timeout',
    pattern: oneOf(
      /\[ERROR\] (?:plugin\/errors: )?\d{1,2} \S{1,255} [A-Z][A-Z\d]{0,9}: (?:unreachable backend: )?(?:(?:read|write) (?:udp|tcp) \S{1,100}->|dial (?:udp|tcp) )\S{1,80}: (?:i\/o timeout|(?:(?:read|write|connect): )?(?:connection refused|no route to host|network is unreachable))/,
    ),
    who: 'CoreDNS, or the node-local cache',
    meaning:
      'CoreDNS passed a query on and got no answer: the name server of the message does not answer it, or is not ' +
      'reached from its pod',
    causes: [
      'the name server comes from /etc/resolv.conf of the node, and is out of order or of another network',
      'a firewall drops what pods send to it, or their packets leave the node without masquerade',
      'the range of pods or of services has the address of the name server in it',
      '"connection refused": nothing listens at that address',
    ],
    look: [
      'cat /etc/resolv.conf /run/systemd/resolve/resolv.conf',
      'kubectl -n kube-system get cm coredns -o yaml | grep forward',
      'dig +time=2 @ADDRESS example.com',
    ],
    cure:
      'dig from the node first: without an answer there name another server (`forward` in the ConfigMap coredns, ' +
      'resolv.conf of the node); with one look for what pods lack: masquerade, a rule of the firewall, a route',
  },
  {
    id: 'dns-loop',
    pattern: /plugin\/loop: (?:Loop \(|Seen "?HINFO|Forwarding loop detected)[^\n]{0,160}/,
    who: 'CoreDNS',
    meaning: 'CoreDNS ends: the queries that it passes on come back to itself',
    causes: [
      '/etc/resolv.conf of the node, which its pod gets, names a server of the node itself (127.0.0.53 of ' +
        'systemd-resolved, 127.0.0.1 of dnsmasq): in the pod that is CoreDNS',
      'the name server of the node passes its queries on to the cluster',
    ],
    look: ['cat /etc/resolv.conf /run/systemd/resolve/resolv.conf', 'kubectl -n kube-system get cm coredns -o yaml'],
    cure:
      'set resolvConf of kubelet to a file with the real servers (/run/systemd/resolve/resolv.conf), restart ' +
      'kubelet and delete the pods of CoreDNS; or name the servers in its `forward`',
  },
  {
    id: 'rootless-dns',
    pattern: oneOf(
      /\b(?:udp|tcp) 10\.0\.2\.100:\d+->10\.0\.2\.3:53: (?:i\/o timeout|(?:read: )?connection refused)/,
      /\b(?:udp|tcp) \S{1,60}->169\.254\.1\.1:53: (?:i\/o timeout|(?:read: )?connection refused)/,
    ),
    who: 'slirp4netns or pasta, which podman, nerdctl and docker use without root',
    meaning: 'the name server that a network without root has (10.0.2.3, 169.254.1.1) got no answer from the host',
    causes: [
      'the name server in /etc/resolv.conf of the host does not answer',
      'the host changed its network (VPN, Wi-Fi, sleep) after slirp4netns or pasta was started',
      '--disable-host-loopback, and the name server of the host listens on 127.0.0.x only',
    ],
    look: ['cat /etc/resolv.conf; resolvectl dns 2>/dev/null', 'pgrep -af "slirp4netns|pasta"'],
    cure:
      'make names work on the host, then start the containers (rootless docker: the daemon) again; or give them a ' +
      'server with --dns ADDRESS',
  },
  {
    id: 'host-firewall-blocks',
    pattern: /communications error to 10\.8[89]\.\d{1,3}\.1#53: host unreachable/,
    who: 'dig, in a container of podman',
    meaning:
      'the host refuses the query that a container sends to the name server of its network (aardvark-dns, on the ' +
      'address of the bridge)',
    causes: [
      'a rule at the end of INPUT rejects it (icmp-host-prohibited); those of podman are gone after a reload',
      'firewalld was started or reloaded after podman: the range is no longer in its zone trusted',
    ],
    look: ['firewall-cmd --get-active-zones', 'iptables -S INPUT; iptables -S | grep -i reject'],
    cure:
      'podman network reload --all brings its rules back; where a firewall of your own rejects, let the range of ' +
      'the network reach port 53 (udp, tcp) of the host',
  },
]
