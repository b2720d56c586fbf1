#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node with Calico (manifests/calico-vxlan.yaml, its own IPAM) and kube-proxy, as they leave files, links and rules.
# usage: calico.sh CONFDIR BINDIR PEERS
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
conf=$1 bin=$2 peers=$3

# Calico's plugins are not among the peers: what lint asks of a plugin is its versions.
for plugin in calico calico-ipam; do
  cat >"$bin/$plugin" <<'PLUGIN'
#!/bin/sh
echo '{"cniVersion":"1.0.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0"]}'
PLUGIN
  chmod 755 "$bin/$plugin"
done
for plugin in portmap bandwidth loopback; do cp -f "$peers/cni/$plugin" "$bin/"; done
mkdir -p /var/lib/calico
printf lab >/var/lib/calico/nodename
printf 1440 >/var/lib/calico/mtu
(umask 077 && echo '{"apiVersion": "v1", "kind": "Config"}' >"$conf/calico-kubeconfig")

sysctl -qw net.ipv4.ip_forward=1
ip link add vxlan.calico type vxlan id 4096 dev up0 dstport 4789 nolearning
ip link set vxlan.calico mtu 1450 up
ip addr add 10.81.62.64/32 dev vxlan.calico
ip route add blackhole 10.81.62.64/26 proto 80
ip route add 10.81.1.0/26 via 10.81.1.0 dev vxlan.calico proto 80 onlink

# A pod: a routed veth, whose end has no address.
ip netns add calico-pod
ip link add cali1a2b3c4d5e6 type veth peer name eth0 netns calico-pod
ip link set cali1a2b3c4d5e6 address ee:ee:ee:ee:ee:ee mtu 1450 up
ip -n calico-pod addr add 10.81.62.65/32 dev eth0
ip -n calico-pod link set eth0 mtu 1450 up
ip -n calico-pod route add 169.254.1.1 dev eth0 scope link
ip -n calico-pod route add default via 169.254.1.1 dev eth0
ip route add 10.81.62.65 dev cali1a2b3c4d5e6 scope link
sysctl -qw net.ipv4.conf.cali1a2b3c4d5e6.proxy_arp=1 net.ipv4.conf.cali1a2b3c4d5e6.rp_filter=1 \
  net.ipv4.conf.cali1a2b3c4d5e6.route_localnet=1 net.ipv4.conf.all.rp_filter=1

iptables-restore --noflush <"$here/kube-proxy.rules"
# As Felix writes them (felix/rules of projectcalico/calico), its chains before those of others.
iptables-restore --noflush <<'RULES'
*filter
:cali-FORWARD - [0:0]
:cali-from-hep-forward - [0:0]
:cali-from-wl-dispatch - [0:0]
:cali-fw-cali1a2b3c4d5e6 - [0:0]
:cali-pri-kns.default - [0:0]
:cali-pro-kns.default - [0:0]
:cali-to-hep-forward - [0:0]
:cali-to-wl-dispatch - [0:0]
:cali-tw-cali1a2b3c4d5e6 - [0:0]
-I FORWARD 1 -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD
-A FORWARD -m comment --comment "cali:S93hcgKJrXEqnTfs" -m comment --comment "Policy explicitly accepted packet." -m mark --mark 0x10000/0x10000 -j ACCEPT
-A FORWARD -m comment --comment "cali:mp77cMpurHhyjLrM" -j MARK --set-xmark 0x10000/0x10000
-A cali-FORWARD -m comment --comment "cali:vjrMJCRpqwy5oRoX" -j MARK --set-xmark 0x0/0xe0000
-A cali-FORWARD -m comment --comment "cali:A_sPAO0mcxbT9mOV" -m mark --mark 0x0/0x10000 -j cali-from-hep-forward
-A cali-FORWARD -i cali+ -m comment --comment "cali:8ZoYfO5HKXWbB3pk" -j cali-from-wl-dispatch
-A cali-FORWARD -o cali+ -m comment --comment "cali:jdEuaPBe14V2hutn" -j cali-to-wl-dispatch
-A cali-FORWARD -m comment --comment "cali:12bc6HljsMKsmfr-" -j cali-to-hep-forward
-A cali-from-wl-dispatch -i cali1a2b3c4d5e6 -m comment --comment "cali:IJzrMSeXjoRpyBvd" -g cali-fw-cali1a2b3c4d5e6
-A cali-from-wl-dispatch -m comment --comment "cali:7qR7VBmKmkQFZsrw" -m comment --comment "Unknown interface" -j DROP
-A cali-fw-cali1a2b3c4d5e6 -m comment --comment "cali:6Rza1J1kRvGwLHVr" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A cali-fw-cali1a2b3c4d5e6 -m comment --comment "cali:yJ2mF9xGdbWTG5oo" -m conntrack --ctstate INVALID -j DROP
-A cali-fw-cali1a2b3c4d5e6 -m comment --comment "cali:0oaBzCbLXr9Lrcpo" -j MARK --set-xmark 0x0/0x10000
-A cali-fw-cali1a2b3c4d5e6 -p udp -m comment --comment "cali:KcPnPpQaZdTQKGBX" -m comment --comment "Drop VXLAN encapped packets originating in workloads" -m multiport --dports 4789 -j DROP
-A cali-fw-cali1a2b3c4d5e6 -p ipencap -m comment --comment "cali:aFPJBUYyEFQzRt0e" -m comment --comment "Drop IPinIP encapped packets originating in workloads" -j DROP
-A cali-fw-cali1a2b3c4d5e6 -m comment --comment "cali:JbwnWDOwkuKyTAY2" -j cali-pro-kns.default
-A cali-fw-cali1a2b3c4d5e6 -m comment --comment "cali:1jGM2hXTPc7XWeJB" -m comment --comment "Return if profile accepted" -m mark --mark 0x10000/0x10000 -j RETURN
-A cali-fw-cali1a2b3c4d5e6 -m comment --comment "cali:5xYVhcMV_RKzRFrQ" -m comment --comment "Drop if no profiles matched" -j DROP
-A cali-pri-kns.default -m comment --comment "cali:WMSw8BmYOknRHfsz" -m comment --comment "Profile kns.default ingress" -j MARK --set-xmark 0x10000/0x10000
-A cali-pri-kns.default -m comment --comment "cali:sQzgSBUbB6KuuqsG" -m mark --mark 0x10000/0x10000 -j RETURN
-A cali-pro-kns.default -m comment --comment "cali:tQ1MWrd-sPmmX9mn" -m comment --comment "Profile kns.default egress" -j MARK --set-xmark 0x10000/0x10000
-A cali-pro-kns.default -m comment --comment "cali:BTQ5mnHgh52ThqMC" -m mark --mark 0x10000/0x10000 -j RETURN
-A cali-to-wl-dispatch -o cali1a2b3c4d5e6 -m comment --comment "cali:Z3v8MBe2mTFSRGuH" -g cali-tw-cali1a2b3c4d5e6
-A cali-to-wl-dispatch -m comment --comment "cali:e8YQNbZ0JSkDBJ7u" -m comment --comment "Unknown interface" -j DROP
-A cali-tw-cali1a2b3c4d5e6 -m comment --comment "cali:KM5rUNvVsoEF9xuV" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A cali-tw-cali1a2b3c4d5e6 -m comment --comment "cali:Bya0LH7LLDAQUv_a" -m conntrack --ctstate INVALID -j DROP
-A cali-tw-cali1a2b3c4d5e6 -m comment --comment "cali:fTcFPbTVzvKpZqN9" -j cali-pri-kns.default
-A cali-tw-cali1a2b3c4d5e6 -m comment --comment "cali:Q0cQ7HzGRiiwWWwd" -m comment --comment "Return if profile accepted" -m mark --mark 0x10000/0x10000 -j RETURN
-A cali-tw-cali1a2b3c4d5e6 -m comment --comment "cali:mbjQG-mCV3WGvOhR" -m comment --comment "Drop if no profiles matched" -j DROP
COMMIT
RULES

# The configuration last, as the init container install-cni writes it.
cat >"$conf/.10-calico.conflist" <<LIST
{
  "name": "k8s-pod-network",
  "cniVersion": "0.3.1",
  "plugins": [
    {
      "type": "calico",
      "log_level": "info",
      "log_file_path": "/var/log/calico/cni/cni.log",
      "datastore_type": "kubernetes",
      "nodename": "lab",
      "mtu": 0,
      "ipam": {
          "type": "calico-ipam"
      },
      "policy": {
          "type": "k8s"
      },
      "kubernetes": {
          "kubeconfig": "$conf/calico-kubeconfig"
      }
    },
    {
      "type": "portmap",
      "snat": true,
      "capabilities": {"portMappings": true}
    },
    {
      "type": "bandwidth",
      "capabilities": {"bandwidth": true}
    }
  ]
}
LIST
mv "$conf/.10-calico.conflist" "$conf/10-calico.conflist"
