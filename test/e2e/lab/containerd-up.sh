#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: starts containerd, gives it the images, prints `containerd ready` and stays until stdin is closed.
# usage: containerd-up.sh DIR PEERS      socket: LAB_SOCKET, else DIR/containerd.sock; log: DIR/containerd.log
# LAB_BIN_DIR: where containerd 2 looks for plugins, else /opt/cni/bin
# LAB_IMAGES: more archives to import; LAB_METRICS: ADDRESS:PORT where containerd 2 serves its metrics
# The configuration is for containerd 2 (version 3 or newer), or for Debian's 1.6 (version 2).
set -euo pipefail
dir=$1 peers=$2
# DIR/tools: what a test puts before the machine's tools (outliving.ts).
export PATH=$dir/tools:$peers/bin:$PATH
socket=${LAB_SOCKET:-$dir/containerd.sock}

runc_options() { printf "BinaryName = '%s'\n  SystemdCgroup = false\n" "$(command -v runc)"; }
# restrict_oom_score_adj: without CAP_SYS_RESOURCE the kernel refuses a lower score than the parent's.
# overlayfs does not stack on another overlay, which is what a container's root is; then files are copied.
snapshotter=overlayfs
if [ "$(stat -fc %T "$dir")" = overlayfs ]; then snapshotter=native; fi

# containerd gives every container a cpu weight.
if [ -e /sys/fs/cgroup/cgroup.controllers ] && ! grep -qw cpu /sys/fs/cgroup/cgroup.controllers; then
  echo "cgroup v2 hands no cpu controller down: on the host, echo +cpu > /sys/fs/cgroup/cgroup.subtree_control" >&2
  exit 1
fi

case $(containerd --version) in
  *' v2.'* | *' 2.'*)
    cat > "$dir/containerd.toml" <<TOML
version = 3
root = '$dir/containerd'
state = '/run/containerd/state'
[grpc]
  address = '$socket'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = '$snapshotter'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = 'lab.local/pause:1'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['${LAB_BIN_DIR:-/opt/cni/bin}']
    conf_dir = '/etc/cni/net.d'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  $(runc_options)
${LAB_METRICS:+[metrics]
  address = '$LAB_METRICS'}
TOML
    ;;
  *)
    cat > "$dir/containerd.toml" <<TOML
version = 2
root = '$dir/containerd'
state = '/run/containerd/state'
[grpc]
  address = '$socket'
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = 'lab.local/pause:1'
  restrict_oom_score_adj = true
[plugins.'io.containerd.grpc.v1.cri'.containerd]
  snapshotter = '$snapshotter'
[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
  $(runc_options)
TOML
    ;;
esac

containerd --config "$dir/containerd.toml" > "$dir/containerd.log" 2>&1 &
containerd=$!
echo "$containerd" > "$dir/containerd.pid"
for _ in $(seq 1200); do
  if ctr --address "$socket" version > /dev/null 2>&1; then break; fi
  if ! kill -0 "$containerd" 2> /dev/null; then
    tail -n 20 "$dir/containerd.log" >&2
    exit 1
  fi
  sleep 0.05
done
for image in "$peers/images/lab.tar" ${LAB_IMAGES:-}; do
  ctr --address "$socket" --namespace k8s.io images import --snapshotter "$snapshotter" "$image" >> "$dir/import.log" 2>&1
done
echo 'containerd ready'
# The machine ends with its caller: when stdin closes, so does everything here.
cat > /dev/null
kill "$containerd"
wait "$containerd" || true
