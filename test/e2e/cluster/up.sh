#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh with LAB_UPLINK=no: a control plane on 192.0.2.1, and nodes on one segment with it, each a machine inside
# this one. Prints `cluster ready` when the API server has all Nodes; the nodes have no network plugin. Stays until stdin
# is closed.
# usage: up.sh DIR PEERS CIDRS SERVICES MODE NODE...
#   CIDRS, SERVICES   ranges of pods and of Services, a comma between families; MODE: kube-proxy's, or none
#   LAB_API           the API server's address, with which cluster.ts wrote the credentials
#   LAB_ROUTER        yes: every second node is on a segment of its own, lan1, behind this machine, which forwards only
#                     what nodes send by their own addresses
#   LAB_UNDERLAY      IPv6: nodes have an InternalIP of IPv6 alone
#   DIR/pki           made by cluster.ts: tokens.csv, sa.key, NAME.conf for admin, kcm, sched, proxy and each node
#   DIR/NODE/pid      the machine of a node, for nsenter; 192.0.2.11 and so on
set -euo pipefail
dir=$1 peers=$2 cidrs=$3 services=$4 mode=$5
shift 5
here=$(cd "$(dirname "$0")" && pwd)
export PATH=$peers/bin:$PATH
exec 3<&0

ip link add lan0 type bridge
ip address add 192.0.2.1/24 dev lan0
ip -6 address add 2001:db8:0:2::1/64 dev lan0 nodad
ip link set lan0 up
if [ "${LAB_ROUTER:-}" = yes ]; then
  ip link add lan1 type bridge
  ip address add 198.51.100.1/24 dev lan1
  ip -6 address add 2001:db8:0:3::1/64 dev lan1 nodad
  ip link set lan1 up
  sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
  nft -f - << 'RULES'
table inet router {
  chain forward {
    type filter hook forward priority filter; policy drop
    ip saddr { 192.0.2.0/24, 198.51.100.0/24 } ip daddr { 192.0.2.0/24, 198.51.100.0/24 } accept
    ip6 saddr { 2001:db8:0:2::/64, 2001:db8:0:3::/64 } ip6 daddr { 2001:db8:0:2::/64, 2001:db8:0:3::/64 } accept
  }
}
RULES
fi

pki=$dir/pki
export LAB_CIDRS=$cidrs
etcd --data-dir "$dir/etcd" --unsafe-no-fsync --listen-peer-urls http://127.0.0.1:2380 > "$dir/etcd.log" 2>&1 &
kube-apiserver --etcd-servers http://127.0.0.1:2379 --advertise-address "$LAB_API" --bind-address :: --cert-dir "$pki" \
  --token-auth-file "$pki/tokens.csv" --authorization-mode Node,RBAC --service-cluster-ip-range "$services" \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$pki/sa.key" \
  --service-account-signing-key-file "$pki/sa.key" --allow-privileged --kubelet-preferred-address-types InternalIP \
  > "$dir/apiserver.log" 2>&1 &
apiserver=$!
export KUBECONFIG=$pki/admin.conf

# await SECONDS COMMAND...: until it succeeds, or the API server has ended
await() {
  local limit=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    if [ "$SECONDS" -ge "$limit" ] || ! kill -0 "$apiserver"; then
      echo "did not come: $*" >&2
      tail -n 20 "$dir"/*.log >&2
      exit 1
    fi
    sleep 0.2
  done
}
await 120 kubectl get --raw /readyz
masks=(--node-cidr-mask-size 24)
case $cidrs in
  *,*) masks=(--node-cidr-mask-size-ipv4 24 --node-cidr-mask-size-ipv6 64) ;;
  *:*) masks=(--node-cidr-mask-size 64) ;;
esac
kube-controller-manager --kubeconfig "$pki/kcm.conf" --use-service-account-credentials --allocate-node-cidrs --cluster-cidr "$cidrs" \
  --service-cluster-ip-range "$services" "${masks[@]}" --leader-elect=false --root-ca-file "$pki/apiserver.crt" \
  --service-account-private-key-file "$pki/sa.key" > "$dir/kcm.log" 2>&1 &
kube-scheduler --kubeconfig "$pki/sched.conf" --leader-elect=false > "$dir/sched.log" 2>&1 &

number=0
for node in "$@"; do
  number=$((number + 1))
  bash "$here/node.sh" "$dir" "$peers" "$node" "$number" "$mode" > "$dir/$node.out" 2>&1 <&3 &
done
has_ranges() { [ "$(kubectl get nodes -o jsonpath='{range .items[*]}{.spec.podCIDR}{"\n"}{end}' | grep -c .)" -ge "$number" ]; }
await 180 has_ranges
await 60 kubectl --namespace default get serviceaccount default
echo 'cluster ready'
cat > /dev/null
