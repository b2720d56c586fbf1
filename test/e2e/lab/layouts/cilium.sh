#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node with Cilium (its Helm chart's defaults: VXLAN, no kube-proxy replacement), as it leaves files, links and rules.
# usage: cilium.sh CONFDIR BINDIR PEERS SCRATCH
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
conf=$1 bin=$2 peers=$3 scratch=$4

cat >"$bin/cilium-cni" <<'PLUGIN'
#!/bin/sh
echo '{"cniVersion":"1.0.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0"]}'
PLUGIN
chmod 755 "$bin/cilium-cni"
cp -f "$peers/cni/loopback" "$bin/"
mkdir -p /var/run/cilium
nohup socat UNIX-LISTEN:/var/run/cilium/cilium.sock,fork /dev/null </dev/null >/dev/null 2>&1 &
echo $! >"$scratch/cilium.pid"

sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0
ip link add cilium_host type veth peer name cilium_net
ip link set cilium_host up
ip link set cilium_net up
ip addr add 10.82.1.123/32 dev cilium_host
ip link add cilium_vxlan type vxlan external dstport 8473
ip link set cilium_vxlan up
ip route add 10.82.1.123 dev cilium_host scope link
ip route add 10.82.1.0/24 via 10.82.1.123 dev cilium_host src 10.82.1.123
ip route add 10.82.0.0/24 via 10.82.1.123 dev cilium_host src 10.82.1.123 mtu 1450
ip rule add priority 9 fwmark 0x200/0xf00 lookup 2004
ip route add local default dev lo table 2004
ip rule add priority 100 lookup local
ip rule del priority 0

ip netns add cilium-pod
ip link add lxc0a1b2c3d4e5f type veth peer name eth0 netns cilium-pod
ip link set lxc0a1b2c3d4e5f up
ip -n cilium-pod addr add 10.82.1.50/32 dev eth0
ip -n cilium-pod link set eth0 up
ip -n cilium-pod route add 10.82.1.123 dev eth0 scope link
ip -n cilium-pod route add default via 10.82.1.123 dev eth0
sysctl -qw net.ipv4.conf.cilium_host.rp_filter=0 net.ipv4.conf.lxc0a1b2c3d4e5f.rp_filter=0

iptables-restore --noflush <"$here/kube-proxy.rules"
# As the agent writes them (pkg/datapath/iptables of cilium/cilium).
iptables-restore --noflush <<'RULES'
*filter
:CILIUM_FORWARD - [0:0]
-I FORWARD 1 -m comment --comment "cilium-feeder: CILIUM_FORWARD" -j CILIUM_FORWARD
-A CILIUM_FORWARD -o cilium_host -m comment --comment "cilium: any->cluster on cilium_host forward accept" -j ACCEPT
-A CILIUM_FORWARD -i cilium_host -m comment --comment "cilium: cluster->any on cilium_host forward accept (nodeport)" -j ACCEPT
-A CILIUM_FORWARD -i lxc+ -m comment --comment "cilium: cluster->any on lxc+ forward accept" -j ACCEPT
-A CILIUM_FORWARD -i cilium_net -m comment --comment "cilium: cluster->any on cilium_net forward accept (nodeport)" -j ACCEPT
COMMIT
*nat
:CILIUM_POST_nat - [0:0]
-I POSTROUTING 1 -m comment --comment "cilium-feeder: CILIUM_POST_nat" -j CILIUM_POST_nat
-A CILIUM_POST_nat -s 10.82.1.0/24 ! -d 10.82.1.0/24 ! -o cilium_+ -m comment --comment "cilium masquerade non-cluster" -j MASQUERADE
COMMIT
RULES

# It takes the directory for itself: others get another name.
echo '{"cniVersion": "0.3.1", "name": "cbr0", "plugins": [{"type": "flannel"}]}' >"$conf/10-flannel.conflist.cilium_bak"
cat >"$conf/.05-cilium.conflist" <<'LIST'

{
  "cniVersion": "0.3.1",
  "name": "cilium",
  "plugins": [
    {
       "type": "cilium-cni",
       "enable-debug": false,
       "log-file": "/var/run/cilium/cilium-cni.log"
    }
  ]
}
LIST
mv "$conf/.05-cilium.conflist" "$conf/05-cilium.conflist"
