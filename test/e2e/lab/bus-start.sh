#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: starts a message bus (D-Bus) at its usual place, returns when it is there. It ends with the machine.
# usage: bus-start.sh DIR      log: DIR/bus.log
set -euo pipefail
dir=$1
mkdir -p /run/dbus

# A bus for root alone: that of the distribution wants a user of its own, which an unpacked package does not bring.
cat > "$dir/bus.conf" <<'XML'
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="root"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
XML
dbus-daemon --config-file="$dir/bus.conf" --nofork --nopidfile </dev/null >"$dir/bus.log" 2>&1 &
for _ in $(seq 1500); do
  if [ -S /run/dbus/system_bus_socket ]; then exit 0; fi
  sleep 0.02
done
cat "$dir/bus.log" >&2
exit 1
