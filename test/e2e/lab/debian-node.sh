#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Debian node from nothing but Debian's packages: its root unpacked from a cached archive, in namespaces of its own.
# usage: debian-node.sh SUITE RELEASE IMAGE SCRIPT      SUITE: bookworm, trixie, bullseye; RELEASE: a folder, /release inside;
#        IMAGE: an archive for ctr, /image.tar inside; SCRIPT: runs inside with bash, with containerd started
# needs: root, mmdebstrap, Debian's archive
set -euo pipefail
suite=$1 release=$2 image=$3 script=$4
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trestle-roots
archive=$cache/$suite-2.tar # raise it when the packages change
packages=iproute2,nftables,procps,containerd
mkdir -p "$cache"
if [ ! -e "$archive" ]; then
  mmdebstrap --quiet --format=tar --variant=minbase --include="$packages" "$suite" "$archive.$$" >&2
  mv "$archive.$$" "$archive"
fi
root=$(mktemp -d)
group=/trestle-debian-$$
clean() {
  find /sys/fs/cgroup -maxdepth 2 -name "${group#/}" -exec rmdir {} + 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
trap clean EXIT
tar -xf "$archive" -C "$root" --exclude='./dev/*'
mkdir -p "$root/release"
cp "$release"/* "$root/release/"
cp "$image" "$root/image.tar"
cp "$script" "$root/script.sh"
cat >"$root/inside.sh" <<'END'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t tmpfs none /run
mount -t tmpfs none /tmp
ip link set lo up
printf 'version = 2\nroot = "/tmp/containerd"\n' >/etc/containerd/config.toml
containerd >/tmp/containerd.log 2>&1 &
for _ in $(seq 100); do ctr version >/dev/null 2>&1 && break; sleep 0.1; done
exec bash -eu /script.sh
END
# The kernel ends all processes of the node with the first one of its PID namespace.
env -i "PATH=$PATH" unshare --mount --net --pid --fork --kill-child --propagation private bash -eu -s "$root" "$group" <<'END'
mount --bind "$1" "$1"
mount -t proc none "$1/proc"
mount -t sysfs none "$1/sys"
mount --rbind /sys/fs/cgroup "$1/sys/fs/cgroup"
mount --rbind /dev "$1/dev"
GROUP=$2 exec chroot "$1" bash /inside.sh
END
