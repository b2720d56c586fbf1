#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: a node as k3s lays it out (its own flannel, kube-proxy and network policies), with the containerd that
# k3s starts, by its command line. Returns when containerd answers; it ends with the machine. log: DIR/k3s.log
# usage: k3s-start.sh DIR PEERS
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1 peers=$2
mount -t tmpfs -o mode=755 tmpfs /var/lib
agent=/var/lib/rancher/k3s/agent
conf=$agent/etc/cni/net.d bin=/var/lib/rancher/k3s/data/cni
mkdir -p /var/lib/cni "$conf" "$bin" "$agent/etc/containerd" /run/k3s/containerd
bash "$here/layouts/flannel.sh" "$conf" "$bin" "$peers" 10.42

# Its network policies are kube-router's (docs.k3s.io, "Network policy controller"): a pod with a policy has a chain.
iptables-restore --noflush <<'RULES'
*filter
:KUBE-ROUTER-FORWARD - [0:0]
:KUBE-NWPLCY-DEFAULT - [0:0]
:KUBE-POD-FW-ABCDEFGHIJKLMNOP - [0:0]
-I FORWARD 1 -m comment --comment "kube-router netpol - TEMCG2JMHZYE7H7T" -j KUBE-ROUTER-FORWARD
-A FORWARD -m comment --comment "KUBE-ROUTER rule to explicitly ACCEPT traffic that comply to network policies" -m mark --mark 0x20000/0x20000 -j ACCEPT
-A KUBE-ROUTER-FORWARD -d 10.42.1.2/32 -m comment --comment "rule to jump traffic destined to POD name:web namespace: default to chain KUBE-POD-FW-ABCDEFGHIJKLMNOP" -j KUBE-POD-FW-ABCDEFGHIJKLMNOP
-A KUBE-ROUTER-FORWARD -s 10.42.1.2/32 -m comment --comment "rule to jump traffic from POD name:web namespace: default to chain KUBE-POD-FW-ABCDEFGHIJKLMNOP" -j KUBE-POD-FW-ABCDEFGHIJKLMNOP
-A KUBE-NWPLCY-DEFAULT -m comment --comment "rule to mark traffic matching a network policy" -j MARK --set-xmark 0x10000/0x10000
-A KUBE-POD-FW-ABCDEFGHIJKLMNOP -m comment --comment "rule for stateful firewall for pod" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-POD-FW-ABCDEFGHIJKLMNOP -m comment --comment "rule to drop invalid state for pod" -m conntrack --ctstate INVALID -j DROP
-A KUBE-POD-FW-ABCDEFGHIJKLMNOP -d 10.42.1.2/32 -m comment --comment "rule to permit the traffic traffic to pods when source is the pod's local node" -m addrtype --src-type LOCAL -j ACCEPT
-A KUBE-POD-FW-ABCDEFGHIJKLMNOP -d 10.42.1.2/32 -m comment --comment "run through default ingress network policy  chain" -j KUBE-NWPLCY-DEFAULT
-A KUBE-POD-FW-ABCDEFGHIJKLMNOP -m comment --comment "rule to REJECT traffic destined for POD name:web namespace: default" -m mark ! --mark 0x10000/0x10000 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-POD-FW-ABCDEFGHIJKLMNOP -j MARK --set-xmark 0x0/0x10000
-A KUBE-POD-FW-ABCDEFGHIJKLMNOP -m comment --comment "set mark to ACCEPT traffic that comply to network policies" -j MARK --set-xmark 0x20000/0x20000
COMMIT
RULES

# As its template config-v3.toml.tmpl makes it (pkg/agent/templates of k3s), without registries.
cat >"$agent/etc/containerd/config.toml" <<TOML
version = 3
root = "$agent/containerd"
state = "/run/k3s/containerd"
[grpc]
  address = "/run/k3s/containerd/containerd.sock"
[plugins.'io.containerd.cri.v1.runtime']
  enable_selinux = false
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["$bin"]
  conf_dir = "$conf"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
TOML
PATH=$peers/bin:$PATH nohup containerd -c "$agent/etc/containerd/config.toml" </dev/null >>"$dir/k3s.log" 2>&1 &
containerd=$!
for _ in $(seq 900); do
  if "$peers/bin/ctr" --address /run/k3s/containerd/containerd.sock version >/dev/null 2>&1; then exit 0; fi
  if ! kill -0 "$containerd" 2>/dev/null; then break; fi
  sleep 0.05
done
tail -n 20 "$dir/k3s.log" >&2
exit 1
