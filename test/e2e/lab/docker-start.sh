#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: starts dockerd, returns when it answers. It ends with the machine, or by /run/docker.pid.
# usage: docker-start.sh DIR      data: DIR/docker, log: DIR/dockerd.log
set -euo pipefail
dir=$1
mkdir -p "$dir/docker" /run/docker
# vfs: copies files, so it stands on any file system.
nohup dockerd --data-root "$dir/docker" --exec-root /run/docker --pidfile /run/docker.pid --host unix:///run/docker.sock \
  --storage-driver vfs --experimental --ipv6 --ip6tables --fixed-cidr-v6 fd00:172:17::/64 \
  </dev/null >>"$dir/dockerd.log" 2>&1 &
dockerd=$!
for _ in $(seq 900); do
  if docker version >/dev/null 2>&1; then exit 0; fi
  if ! kill -0 "$dockerd" 2>/dev/null; then break; fi
  sleep 0.05
done
tail -n 20 "$dir/dockerd.log" >&2
exit 1
