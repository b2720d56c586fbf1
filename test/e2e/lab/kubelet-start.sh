#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh, beside containerd-up.sh: starts a kubelet for the pods in DIR/manifests; without an API server unless
# LAB_KUBECONFIG names one. LAB_NODE_IPS: then the node's addresses; LAB_DNS: where its pods ask for names.
# Returns when it answers; it ends with the machine, or by the process id in DIR/kubelet.pid. A second run starts it again.
# usage: kubelet-start.sh DIR PEERS      log: DIR/kubelet.log; pods: http://127.0.0.1:10255/pods
set -euo pipefail
dir=$1 peers=$2

if [ ! -e "$dir/manifests" ]; then
  mkdir "$dir/manifests"
  for folder in /var/lib/kubelet /var/log/containers /usr/libexec/kubernetes /etc/kubernetes /etc/trestle; do
    mkdir -p "$folder" "$dir/root$folder"
    mount --bind "$dir/root$folder" "$folder"
  done
  # It sets these for the whole machine: it gets files of its own instead (pkg/kubelet/cm, setupKernelTunables).
  mkdir "$dir/sysctl"
  while read -r name value; do
    echo "$value" > "$dir/sysctl/$name"
    mount --bind "$dir/sysctl/$name" "/proc/sys/${name//.//}"
  done <<'SYSCTLS'
vm.overcommit_memory 1
vm.panic_on_oom 0
kernel.panic 10
kernel.panic_on_oops 1
kernel.keys.root_maxkeys 1000000
kernel.keys.root_maxbytes 25000000
SYSCTLS
  # Without a name server every look-up of its own host name waits.
  printf '127.0.0.1 localhost %s\n' "$(hostname)" > "$dir/hosts"
  mount --bind "$dir/hosts" /etc/hosts
fi

# The API server asks for logs.
address=127.0.0.1
if [ -n "${LAB_KUBECONFIG:-}" ]; then address=::; fi
dns=
if [ -n "${LAB_DNS:-}" ]; then dns="clusterDNS: ['$LAB_DNS']"; fi
cat > "$dir/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: $dir/manifests
containerRuntimeEndpoint: unix://${LAB_SOCKET:-$dir/containerd.sock}
imageServiceEndpoint: unix://${LAB_SOCKET:-$dir/containerd.sock}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: '$address'
clusterDomain: cluster.local
$dns
readOnlyPort: 10255
resolvConf: ""
imageMinimumGCAge: 87600h
fileCheckFrequency: 1s
syncFrequency: 1s
YAML
cluster=()
if [ -n "${LAB_KUBECONFIG:-}" ]; then
  cp "$LAB_KUBECONFIG" /etc/kubernetes/kubelet.conf
  cluster=(--kubeconfig /etc/kubernetes/kubelet.conf --node-ip "$LAB_NODE_IPS")
fi
PATH=$peers/bin:$PATH nohup "$peers/bin/kubelet" --config "$dir/kubelet.yaml" --root-dir /var/lib/kubelet --cert-dir "$dir/kubelet-pki" \
  --hostname-override "$(hostname)" "${cluster[@]}" -v=3 </dev/null >>"$dir/kubelet.log" 2>&1 &
kubelet=$!
echo "$kubelet" > "$dir/kubelet.pid"
for _ in $(seq 800); do
  if socat -u OPEN:/dev/null TCP4:127.0.0.1:10255,connect-timeout=1 2>/dev/null; then exit 0; fi
  if ! kill -0 "$kubelet" 2>/dev/null; then break; fi
  sleep 0.05
done
tail -n 20 "$dir/kubelet.log" >&2
exit 1
