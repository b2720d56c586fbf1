#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Beside up.sh: the machine of one node, with containerd, kubelet and kube-proxy. Stays until stdin is closed.
# usage: node.sh SITE PEERS NAME NUMBER MODE     inside the machine: node.sh SITE PEERS NAME NUMBER MODE inside
#   LAB_HOST     the last part of its addresses; default: 1NUMBER, as 192.0.2.11
#   LAB_BOOT_ID  what it says of this start, in place of the kernel's (random(4), boot_id)
set -euo pipefail
site=$1 peers=$2 name=$3 number=$4 mode=$5
here=$(cd "$(dirname "$0")" && pwd)
dir=$site/$name
segment=lan0 net4=192.0.2 net6=2001:db8:0:2
if [ "${LAB_ROUTER:-}" = yes ] && [ $((number % 2)) = 0 ]; then segment=lan1 net4=198.51.100 net6=2001:db8:0:3; fi
four=$net4.${LAB_HOST:-1$number} six=$net6::${LAB_HOST:-1$number}

if [ "${6:-}" != inside ]; then
  ip netns add "$name"
  ip link add "$name" type veth peer name up0 netns "$name"
  ip link set "$name" master "$segment" up
  ip -n "$name" address add "$four/24" dev up0
  ip -n "$name" -6 address add "$six/64" dev up0 nodad
  ip -n "$name" link set up0 up
  ip -n "$name" route add default via "$net4.1"
  ip -n "$name" -6 route add default via "$net6::1"
  export LAB_NETNS=/run/netns/$name LAB_UPLINK=no LAB_NAME=$name
  exec bash "$here/../lab/enter.sh" "$dir" bash "$here/node.sh" "$site" "$peers" "$name" "$number" "$mode" inside
fi

# What is mounted below /run reaches containers, as systemd has it (mount_namespaces(7), "Shared subtrees").
mount --make-rshared /
if [ -n "${LAB_BOOT_ID:-}" ]; then
  echo "$LAB_BOOT_ID" > "$dir/boot_id"
  mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
fi
export LAB_SOCKET=/run/containerd/containerd.sock LAB_KUBECONFIG=$site/pki/$name.conf
case ${LAB_UNDERLAY:-}$LAB_CIDRS in
  IPv6*) ips=$six ;;
  *,*) ips=$four,$six ;;
  *:*) ips=$six ;;
  *) ips=$four ;;
esac
: "${LAB_NODE_IPS:=$ips}"
export LAB_NODE_IPS
cp "$peers/cni/loopback" /opt/cni/bin/ # Debian and Kubernetes ship it beside the runtime
exec 3<&0
bash "$here/../lab/containerd-up.sh" "$dir" "$peers" > "$dir/up.log" 2>&1 <&3 &
until grep -q 'containerd ready' "$dir/up.log"; do
  kill -0 $! || exit 1
  sleep 0.1
done
bash "$here/../lab/kubelet-start.sh" "$dir" "$peers"
if [ "$mode" != none ]; then
  "$peers/bin/kube-proxy" --kubeconfig "$site/pki/proxy.conf" --proxy-mode "$mode" --hostname-override "$name" \
    --cluster-cidr "$LAB_CIDRS" --conntrack-max-per-core 0 > "$dir/kube-proxy.log" 2>&1 &
fi
cat > /dev/null
