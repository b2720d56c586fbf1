#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: kube-proxy with api.ts for an API server, prints `kube-proxy ready` and stays until stdin is closed.
# usage: kube-proxy-up.sh DIR PEERS NODE MODE      NODE: the Node.js that runs api.ts; MODE: nftables or iptables
#   DIR/objects.json: what the API server has       DIR/kube-proxy.log, DIR/api.log
set -euo pipefail
dir=$1 peers=$2 node=$3 mode=$4
here=$(cd "$(dirname "$0")" && pwd)

cat > "$dir/kubeconfig" <<'YAML'
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: 'http://127.0.0.1:18001'}}]
users: [{name: lab, user: {}}]
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
current-context: lab
YAML
# conntrack: zeros leave the machine's own numbers alone. A sync period this long leaves only those for a reason.
cat > "$dir/kube-proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: $mode
hostnameOverride: lab
oomScoreAdj: 0
clusterCIDR: 10.92.0.0/14,fd00:90::/28
clientConnection: {kubeconfig: $dir/kubeconfig, contentType: application/json, acceptContentTypes: application/json}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
nftables: {syncPeriod: 1h, minSyncPeriod: 0s}
iptables: {syncPeriod: 1h, minSyncPeriod: 0s}
YAML

"$node" "$here/api.ts" "$dir/objects.json" 18001 > "$dir/api.log" 2>&1 &
for _ in $(seq 1500); do
  if grep -q 'api ready' "$dir/api.log"; then break; fi
  sleep 0.02
done
"$peers/bin/kube-proxy" --config "$dir/kube-proxy.yaml" -v=3 > "$dir/kube-proxy.log" 2>&1 &
proxy=$!
for _ in $(seq 600); do
  if socat -u OPEN:/dev/null TCP4:127.0.0.1:10256,connect-timeout=1 2> /dev/null; then break; fi
  if ! kill -0 "$proxy" 2> /dev/null; then
    cat "$dir/api.log" "$dir/kube-proxy.log" >&2
    exit 1
  fi
  sleep 0.05
done
echo 'kube-proxy ready'
# The machine ends with its caller: when stdin closes, so does everything here.
cat > /dev/null
