#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first process of the private machine that enter.sh makes: lays out its file systems and uplink, then runs COMMAND.
# usage: inside.sh DIR COMMAND [ARGUMENT...]
# LAB_PARTS: folders with a /usr and an /etc of unpacked packages, laid over those of the machine.
set -euo pipefail
dir=$1
shift
hostname "${LAB_NAME:-lab}"
mount -t proc proc /proc

for part in ${LAB_PARTS:-}; do
  mount -t overlay -o "lowerdir=$part/usr:/usr" overlay /usr
  mkdir -p "$dir/etc"
  mount -t tmpfs tmpfs "$dir/etc"
  mkdir "$dir"/etc/{upper,work}
  mount -t overlay -o "lowerdir=$part/etc:/etc,upperdir=$dir/etc/upper,workdir=$dir/etc/work" overlay /etc
done

# The cgroup tree as this namespace sees it: its root is the group that enter.sh made.
trees=$(awk '$3 == "cgroup" { n = split($2, path, "/"); print path[n] }' /proc/self/mounts | sort -u)
v2=
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then v2=yes; fi
umount --lazy /sys/fs/cgroup 2>/dev/null || true
umount --lazy /sys 2>/dev/null || true
mount -t sysfs sysfs /sys # this network namespace's /sys/class/net
if [ -n "$v2" ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  # Controllers can be handed down only by a group without processes of its own.
  mkdir /sys/fs/cgroup/init
  while read -r process; do echo "$process" > /sys/fs/cgroup/init/cgroup.procs || true; done < /sys/fs/cgroup/cgroup.procs
  for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control || true
  done
else
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  for tree in $trees; do
    mkdir "/sys/fs/cgroup/$tree"
    options=$tree
    if [ "$tree" = systemd ]; then options=none,name=systemd; fi
    mount -t cgroup -o "$options" "$tree" "/sys/fs/cgroup/$tree"
  done
fi

# Scratch in place of every folder of the machine that a runtime or a plugin writes to.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock /run/containerd
for folder in /etc/cni /opt/cni /var/lib/cni /var/lib/containerd /var/log/pods; do
  mkdir -p "$folder" "$dir/root$folder"
  mount --bind "$dir/root$folder" "$folder"
done
mkdir -p /etc/cni/net.d /opt/cni/bin
: > "$dir/resolv.conf"
mount --bind "$dir/resolv.conf" "$(realpath -m /etc/resolv.conf)"

settings=$(dirname "$0")/../../support/node-settings.sh
sh "$settings"
if [ "${LAB_UPLINK:-yes}" = no ]; then
  ip link set lo up
  set +e
  "$@"
  exit $?
fi

# One uplink with a neighbour behind it, so that there is a default route and something outside to reach.
ip netns add outside
nsenter --net=/run/netns/outside sh "$settings"
ip link add up0 type veth peer name out0 netns outside
ip address add 192.0.2.10/24 dev up0
ip -6 address add 2001:db8:0:2::10/64 dev up0 nodad
ip link set up0 up
ip -n outside address add 192.0.2.1/24 dev out0
ip -n outside -6 address add 2001:db8:0:2::1/64 dev out0 nodad
ip -n outside link set out0 up
ip route add default via 192.0.2.1
ip -6 route add default via 2001:db8:0:2::1

# Not exec: as the first process, bash reaps what the command leaves behind, and ends everything when it ends.
set +e
"$@"
exit $?
