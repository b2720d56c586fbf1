#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: starts NetworkManager without systemd and udev, returns when it has looked at every link.
# usage: networkmanager-start.sh DIR      log: DIR/networkmanager.log
set -euo pipefail
dir=$1
bash "$(dirname "$0")/bus-start.sh" "$dir"
mkdir -p "$dir/state" /run/NetworkManager
# With a /sys that cannot be written it does not wait for udev.
mount -o remount,bind,ro /sys
cat >/run/NetworkManager.conf <<CONF
[main]
dns=none
rc-manager=unmanaged
CONF
NetworkManager --no-daemon --config=/run/NetworkManager.conf --state-file="$dir/state/NetworkManager.state" \
  --log-level=INFO </dev/null >"$dir/networkmanager.log" 2>&1 &
manager=$!
for _ in $(seq 800); do
  if [ "$(nmcli -t -f STARTUP general 2>/dev/null)" = started ]; then exit 0; fi
  if ! kill -0 "$manager" 2>/dev/null; then break; fi
  sleep 0.05
done
tail -n 20 "$dir/networkmanager.log" >&2
exit 1
