#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: a TCP server on both families that answers `NAME ADDRESS-OF-CLIENT`. Returns when it answers.
# usage: serve.sh NAME PORT [NETNS]      it ends with the machine
set -euo pipefail
name=$1 port=$2
enter=()
if [ -n "${3:-}" ]; then enter=(ip netns exec "$3"); fi

listen() { "${enter[@]}" socat "$1,fork,reuseaddr" "SYSTEM:echo $name \$SOCAT_PEERADDR" </dev/null >/dev/null 2>&1 & }
answers() { "${enter[@]}" socat -u "$1:$port" - 2>/dev/null | grep -q "^$name "; }

listen "TCP4-LISTEN:$port"
listen "TCP6-LISTEN:$port,ipv6only=1"
for _ in $(seq 1000); do
  if answers TCP4:127.0.0.1 && answers 'TCP6:[::1]'; then exit 0; fi
  sleep 0.02
done
echo "no answer on port $port of ${3:-the machine}" >&2
exit 1
