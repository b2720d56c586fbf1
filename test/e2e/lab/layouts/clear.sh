#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes from a private machine what the other scripts here made.
# usage: clear.sh CONFDIR SCRATCH STATE
set -uo pipefail
rm -rf "${1:?}"/* "${3:?}" /run/flannel /run/delegate /var/lib/calico /var/run/cilium /var/lib/cni/networks/* /var/lib/cni/results/*
if [ -e "$2/cilium.pid" ]; then kill "$(cat "$2/cilium.pid")"; rm "$2/cilium.pid"; fi
ip rule add priority 0 lookup local 2>/dev/null
for priority in 9 100; do ip rule del priority $priority 2>/dev/null; done
ip route flush table 2004 2>/dev/null
ip route flush proto 80
for name in flannel-pod calico-pod cilium-pod; do ip netns del $name 2>/dev/null; done
for link in flannel.1 cni0 cali1a2b3c4d5e6 vxlan.calico cilium_host cilium_vxlan lxc0a1b2c3d4e5f; do ip link del $link 2>/dev/null; done
nft flush ruleset
for program in iptables-legacy ip6tables-legacy; do
  for table in filter nat; do $program -t $table -F; $program -t $table -X; done
done 2>/dev/null
sysctl -qw net.ipv4.conf.all.rp_filter=0
exit 0
