#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command on a private machine: own net, mount, pid, uts, ipc and cgroup namespaces, scratch folders, one uplink.
# usage: enter.sh DIR COMMAND [ARGUMENT...]
#   DIR          scratch, made if absent; the caller removes it. Visible inside under the same path.
#   DIR/pid      process id of the private machine's init, as seen from outside: nsenter --target it --net --mount …
#   LAB_NETNS    a network namespace to be in, in place of a new one: a machine inside another one
#   LAB_UPLINK   no: its links are the caller's business
#   LAB_NAME     its host name; default: lab
# Every process started inside dies with COMMAND, and COMMAND dies with this script. Works with cgroup v1 and v2.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "$1")
shift
mkdir -p "$dir"

# A cgroup of our own, so that what a runtime makes inside is below it and can be removed whole. v1 has one tree a
# controller and we stay below our own group; in v2 a group with processes cannot hand out controllers, hence the root.
groups=()
add_group() { mkdir -p "$1" && groups+=("$1"); }
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
  add_group "/sys/fs/cgroup/trestle-lab-$$"
else
  while IFS=: read -r _ controllers own; do
    tree=/sys/fs/cgroup/${controllers#name=}
    if [ -z "$controllers" ] || [ ! -d "$tree" ]; then continue; fi
    [ -d "$tree$own" ] || own=/
    add_group "$tree${own%/}/trestle-lab-$$"
    # An empty cpuset takes no process.
    if [ "$controllers" = cpuset ]; then
      for file in cpuset.cpus cpuset.mems; do cat "$tree$own/$file" > "${groups[-1]}/$file"; done
      echo 1 > "${groups[-1]}/cgroup.clone_children"
    fi
  done < /proc/self/cgroup
fi

leave() {
  local group
  for group in "${groups[@]}"; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
      [ -d "$group" ] || break
      sleep 0.1 # the kernel is still reaping
    done
  done
}
trap leave EXIT

(
  for group in "${groups[@]}"; do echo "$BASHPID" > "$group/cgroup.procs"; done
  enter=(unshare --net)
  if [ -n "${LAB_NETNS:-}" ]; then enter=(nsenter --net="$LAB_NETNS" unshare); fi
  exec "${enter[@]}" --mount --pid --uts --ipc --cgroup --fork --kill-child --propagation private \
    bash "$here/inside.sh" "$dir" "$@"
) <&0 &
unshare=$!
# Without this the trap would not run when the caller ends us.
trap 'kill "$unshare" 2>/dev/null' TERM INT HUP
init=
while [ -z "$init" ] && kill -0 "$unshare" 2>/dev/null; do
  read -r init < <(cat "/proc/$unshare/task/$unshare/children" 2>/dev/null; echo) || true
  [ -n "$init" ] || sleep 0.01
done
echo "${init%% *}" > "$dir/pid"
status=0
wait "$unshare" || status=$?
exit "$status"
