#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside enter.sh: firewalld on a message bus of its own, prints `firewalld ready` and stays until stdin is closed.
# usage: firewalld-up.sh DIR      logs: DIR/bus.log, DIR/firewalld.log
set -euo pipefail
dir=$1
mkdir -p /run/dbus /run/firewalld "$dir/log"
mount --bind "$dir/log" /var/log

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
dbus-daemon --config-file="$dir/bus.conf" --nofork --nopidfile > "$dir/bus.log" 2>&1 &
for _ in $(seq 100); do
  if [ -S /run/dbus/system_bus_socket ]; then break; fi
  sleep 0.02
done

firewalld --nofork --nopid > "$dir/firewalld.log" 2>&1 &
firewalld=$!
for _ in $(seq 300); do
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
