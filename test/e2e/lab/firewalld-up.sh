#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: firewalld on a message bus of its own, prints `firewalld ready` and stays until stdin is closed.
# usage: firewalld-up.sh DIR      logs: DIR/bus.log, DIR/firewalld.log
set -euo pipefail
dir=$1
mkdir -p /run/firewalld "$dir/log"
mount --bind "$dir/log" /var/log

bash "$(dirname "$0")/bus-start.sh" "$dir"
firewalld --nofork --nopid > "$dir/firewalld.log" 2>&1 &
firewalld=$!
for _ in $(seq 800); do
  if firewall-cmd --state > /dev/null 2>&1; then break; fi
  if ! kill -0 "$firewalld" 2> /dev/null; then
    cat "$dir/bus.log" "$dir/firewalld.log" >&2
    exit 1
  fi
  sleep 0.05
done
echo 'firewalld ready'
# The machine ends with its caller: when stdin closes, so does everything here.
cat > /dev/null
