// SPDX-License-Identifier: Apache-2.0
// States of a node that keep pods from their network: how each is made, what doctor has to call it, and where users met it.

/** `make`: a line for a shell of the node. `VETH` stands for the first pod's end on the node, `NS` for its namespace. */
export interface Damage {
  readonly what: string
  readonly make: string
  readonly id: string
  /** In `seen` or `on`. */
  readonly names: string | RegExp
  /** The cure that doctor prints is run as it stands; where it prints none, this. */
  readonly cure?: string
  /** A pod cannot be mended: a new one gets the network. */
  readonly isForGood?: true
}

const node = 'sysctl -qw'

/** With the thread where users met it, where one is known. */
export const damages: readonly Damage[] = [
  {
    what: 'forwarding off (redhat-performance/tuned#816)',
    make: `${node} net.ipv4.ip_forward=0`,
    id: 'forwarding-off',
    names: 'net.ipv4.ip_forward',
  },
  {
    what: 'IPv6 forwarding off (systemd/systemd#21550)',
    make: `${node} net.ipv6.conf.all.forwarding=0`,
    id: 'forwarding-off',
    names: 'net.ipv6.conf.all.forwarding',
  },
  {
    what: 'nft flush ruleset (containers/podman#348)',
    make: 'nft flush ruleset',
    id: 'rules-missing',
    names: 'table inet trestle is missing',
  },
  {
    what: 'an element of the masquerade taken out (containers/netavark#230)',
    make: 'nft delete element inet trestle masq4 { 10.240.0.0/24 }',
    id: 'rules-missing',
    names: /10\.240\.0\.0\/24 is missing from nft set masq4/,
  },
  {
    what: 'the bridge removed (containernetworking/plugins#620)',
    make: 'ip link del cni0',
    id: 'bridge-differs',
    names: 'cni0 is missing',
  },
  {
    what: 'the bridge down (containers/podman#12306)',
    make: 'ip link set cni0 down',
    id: 'bridge-differs',
    names: 'cni0 is down',
  },
  {
    what: "the bridge's address gone (containernetworking/cni#585)",
    make: 'ip addr del 10.240.0.1/24 dev cni0',
    id: 'bridge-differs',
    names: '10.240.0.1/24 is missing on cni0',
  },
  {
    what: "a pod's end down (systemd/systemd#21185)",
    make: 'ip link set VETH down',
    id: 'port-differs',
    names: 'is down',
  },
  {
    what: "a pod's end off the bridge (systemd/systemd#21185)",
    make: 'ip link set VETH nomaster',
    id: 'port-differs',
    names: 'cni0',
  },
  {
    what: 'IPv6 off on the bridge (containernetworking/cni#531)',
    make: `${node} net.ipv6.conf.cni0.disable_ipv6=1`,
    id: 'ipv6-disabled',
    names: 'net.ipv6.conf.cni0.disable_ipv6 is 1',
  },
  {
    what: 'strict rp_filter on a second uplink (containers/podman#26044)',
    make: [
      'ip link add up1 type veth peer name up1x',
      'ip addr add 198.18.9.2/24 dev up1',
      'ip link set up1 up',
      'ip link set up1x up',
      'ip route add default via 198.18.9.1 metric 500',
      `${node} net.ipv4.conf.up1.rp_filter=1`,
    ].join(' && '),
    id: 'rp-filter',
    names: 'up1',
  },
  {
    what: 'a more specific route to a pod (containernetworking/cni#442)',
    make: 'ip route add 10.240.0.2/32 dev lo',
    id: 'route-elsewhere',
    names: '10.240.0.2 leaves by lo, not by cni0',
    cure: 'ip route del 10.240.0.2/32 dev lo',
  },
  {
    what: 'FORWARD with policy DROP (kubernetes/kubernetes#40182)',
    make: 'iptables-nft -P FORWARD DROP',
    id: 'firewall-drops',
    names: 'FORWARD of iptables-nft',
  },
  {
    what: 'FORWARD of iptables-legacy with policy DROP (moby/moby#14041)',
    make: 'iptables-legacy -P FORWARD DROP',
    id: 'firewall-drops',
    names: 'FORWARD of iptables-legacy',
  },
  {
    what: 'a foreign rule that drops the range',
    make: 'iptables-nft -I FORWARD -s 10.240.0.0/24 -j DROP',
    id: 'firewall-drops',
    names: '-s 10.240.0.0/24 -j DROP',
  },
  {
    what: 'a foreign nft rule that drops by the bridge (containers/podman#8048)',
    make: [
      'nft add table inet fw',
      "nft add chain inet fw f '{ type filter hook forward priority 10 ; }'",
      'nft add rule inet fw f iifname cni0 drop',
    ].join(' && '),
    id: 'firewall-drops',
    names: 'iifname "cni0" drop',
  },
  {
    what: 'a foreign nft chain with policy drop (containers/podman#5431)',
    make: "nft add table inet fw && nft add chain inet fw f '{ type filter hook forward priority 10 ; policy drop ; }'",
    id: 'firewall-drops',
    names: 'inet fw f',
  },
  {
    what: 'a reservation removed',
    make: 'rm $TRESTLE_STATE_DIR/networks/pods/addresses/10.240.0.2',
    id: 'state-lacks',
    names: '10.240.0.2',
  },
  {
    what: "a pod's default route gone (containernetworking/cni#623)",
    make: 'ip -n NS route del default',
    id: 'pod-differs',
    names: 'route to 0.0.0.0/0 via 10.240.0.1 dev eth0 is missing',
    cure: 'ip -n NS route add default via 10.240.0.1',
  },
  {
    what: "a pod's address gone",
    make: 'ip -n NS addr del 10.240.0.2/24 dev eth0',
    id: 'pod-differs',
    names: '10.240.0.2/24 is missing on eth0',
    cure: 'ip -n NS addr add 10.240.0.2/24 dev eth0 && ip -n NS route add default via 10.240.0.1',
  },
  {
    what: "a pod's veth removed",
    make: 'ip link del VETH',
    id: 'interface-lost',
    names: 'container a',
    isForGood: true,
  },
]
