#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node with flannel (Documentation/kube-flannel.yml, backend vxlan) and kube-proxy, as they leave files, links and rules.
# usage: flannel.sh CONFDIR BINDIR PEERS CIDR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
conf=$1 bin=$2 peers=$3 net=$4

# flannel is not among the peers: what lint asks of a plugin is its versions.
cat >"$bin/flannel" <<'PLUGIN'
#!/bin/sh
echo '{"cniVersion":"1.0.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0"]}'
PLUGIN
chmod 755 "$bin/flannel"
for plugin in bridge host-local portmap loopback; do cp -f "$peers/cni/$plugin" "$bin/"; done
mkdir -p /run/flannel
cat >/run/flannel/subnet.env <<ENV
FLANNEL_NETWORK=$net.0.0/16
FLANNEL_SUBNET=$net.1.1/24
FLANNEL_MTU=1450
FLANNEL_IPMASQ=true
ENV

sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
ip link add flannel.1 type vxlan id 1 dev up0 dstport 8472 nolearning
ip link set flannel.1 mtu 1450 up
ip addr add "$net.1.0/32" dev flannel.1
ip route add "$net.0.0/24" via "$net.0.0" dev flannel.1 onlink

iptables-restore --noflush <"$here/kube-proxy.rules"
iptables-restore --noflush <<RULES
*filter
:FLANNEL-FWD - [0:0]
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s $net.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -d $net.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
*nat
:FLANNEL-POSTRTG - [0:0]
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s $net.1.0/24 -d $net.0.0/16 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s $net.0.0/16 -d $net.1.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG ! -s $net.0.0/16 -d $net.1.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s $net.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG ! -s $net.0.0/16 -d $net.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
RULES

# A pod, by what flannel delegates to: the bridge plugin with the range of subnet.env.
mkdir -p /run/delegate
cat >/run/delegate/cbr0.conflist <<LIST
{"cniVersion": "0.3.1", "name": "cbr0", "plugins": [{"type": "bridge", "mtu": 1450, "hairpinMode": true, "isDefaultGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$net.1.0/24"}]], "routes": [{"dst": "$net.0.0/16"}]}}]}
LIST
ip netns add flannel-pod
CNI_PATH=$bin NETCONFPATH=/run/delegate "$peers/bin/cnitool" add cbr0 /run/netns/flannel-pod >/dev/null

# The configuration last, as flannel's DaemonSet copies it.
cat >"$conf/.10-flannel.conflist" <<'LIST'
{
  "name": "cbr0",
  "cniVersion": "0.3.1",
  "plugins": [
    {
      "type": "flannel",
      "delegate": {
        "hairpinMode": true,
        "isDefaultGateway": true
      }
    },
    {
      "type": "portmap",
      "capabilities": {
        "portMappings": true
      }
    }
  ]
}
LIST
mv "$conf/.10-flannel.conflist" "$conf/10-flannel.conflist"
