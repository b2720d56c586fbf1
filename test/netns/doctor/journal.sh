#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts systemd-journald with a /run of its own, logs as units do, and runs the words that are given. In mount and pid
# namespaces of its own: `unshare --mount --pid --fork --mount-proc`. usage: journal.sh COMMAND...
set -euo pipefail
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journald.conf.d
# Nothing of it leaves these namespaces: no file in /var/log, no audit, nothing into the kernel's log.
printf '[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=\nForwardToKMsg=no\nForwardToWall=no\n' >/run/systemd/journald.conf.d/test.conf
mount --bind /dev/null /dev/kmsg
# Control groups as of version 1, of which it looks at a directory only (systemd, basic/cgroup-util.c).
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/systemd
echo 0123456789abcdef0123456789abcdef >/run/machine-id
[ ! -e /etc/machine-id ] || mount --bind /run/machine-id /etc/machine-id
/lib/systemd/systemd-journald 2>/run/journald.err &
journald=$!
until [ -S /run/systemd/journal/stdout ]; do
  kill -0 "$journald" 2>/dev/null || { cat /run/journald.err >&2; exit 4; }
done

# log UNIT LINE...: journald takes the unit from the sender's control group (cgroups(7), systemd.journal-fields(7)).
log() {
  local unit=$1
  shift
  printf '0::/system.slice/%s\n1:name=systemd:/system.slice/%s\n' "$unit" "$unit" >/run/cgroup
  printf '%s\n' "$@" >/run/lines
  # It stays until its lines are there: of a process that has ended nobody knows the control group.
  bash -c 'mount --bind /run/cgroup "/proc/$$/cgroup"; exec systemd-cat -t test bash -c "$1"' - \
    'printf "%s\n" "$(</run/lines)"; until [ "$(journalctl --quiet "_PID=$$" | wc -l)" = "$(wc -l </run/lines)" ]; do sleep 0.1; done'
}

sandbox='level=error msg="RunPodSandbox for &PodSandboxMetadata{Name:web,Uid:u,Namespace:shop,Attempt:0,} failed, error" error="failed to setup network for sandbox: plugin type=\"flannel\" failed (add): open /run/flannel/subnet.env: no such file or directory"'
log containerd.service "time=x $sandbox" "time=y $sandbox"
log kubelet.service 'E1122 19:48:41.914392     812 kubelet.go:2117] "Network plugin returns error: cni plugin not initialized"'
log other.service 'level=error msg="cni" error="failed to setup network for sandbox: failed to find plugin \"x\" in path [/opt/cni/bin]"'
code=0
"$@" || code=$?
kill "$journald"
wait "$journald" || true
exit "$code"
