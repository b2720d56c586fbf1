#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: starts systemd-networkd without systemd and udev, returns when it has settled every link.
# usage: networkd-start.sh DIR      log: DIR/networkd.log; state: /run/systemd/netif/links/INDEX
set -euo pipefail
dir=$1
# It gives up root for this user, which an unpacked package does not bring.
if ! getent passwd systemd-network >/dev/null; then
  for file in passwd group; do cp "/etc/$file" "$dir/$file"; done
  echo 'systemd-network:x:998:998::/:/usr/sbin/nologin' >>"$dir/passwd"
  echo 'systemd-network:x:998:' >>"$dir/group"
  for file in passwd group; do mount --bind "$dir/$file" "/etc/$file"; done
fi
# With a /sys that cannot be written it does not wait for udev (sd_device_get_is_initialized).
mount -o remount,bind,ro /sys
mkdir -p /run/systemd/netif/{links,leases,lldp}
chown -R systemd-network:systemd-network /run/systemd/netif
/usr/lib/systemd/systemd-networkd </dev/null >"$dir/networkd.log" 2>&1 &
networkd=$!

# A link without a carrier stays in `configuring`: a bridge that has lost its ports.
settled() {
  local link state
  for link in /sys/class/net/*/ifindex; do
    state=/run/systemd/netif/links/$(cat "$link")
    grep -qsE '^(ADMIN_STATE=(configured|unmanaged|failed)|OPER_STATE=no-carrier)$' "$state" || return 1
  done
}
for _ in $(seq 800); do
  if settled; then exit 0; fi
  if ! kill -0 "$networkd" 2>/dev/null; then break; fi
  sleep 0.05
done
cat "$dir/networkd.log" >&2
head -n 3 /run/systemd/netif/links/* >&2 || true
exit 1
