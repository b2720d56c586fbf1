#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command as root in network, mount and IPC namespaces of its own, with private /run, /var/lib/cni
# and /etc/cni: nothing it does to links, rules, sysctls or those files reaches the machine, and all of
# it is gone when the command ends. TRESTLE_TEST_NODE: its network settings, test/support/node-settings.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo "scripts/in-netns.sh: needs root" >&2; exit 77; }
exec unshare --net --mount --ipc --propagation private -- bash -euo pipefail -c '
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/netns /run/lock /var/lib/cni /etc/cni
  mount -t tmpfs tmpfs /var/lib/cni
  mount -t tmpfs tmpfs /etc/cni
  mount -t sysfs sysfs /sys
  sh "$1"
  shift
  # The tests look for this: without it they would run on the machine itself.
  export TRESTLE_TEST_NETNS=$(readlink /proc/self/ns/net)
  exec "$@"' in-netns "$here/../test/support/node-settings.sh" "$@"
