#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command as root under another Linux kernel: Debian's, in qemu without KVM, for truths and never for timings. The machine's own
# files are the guest's root (virtiofs, read-only), with a layer in memory over it: what the command writes is gone when it ends.
# usage: scripts/in-kernel.sh 5.10|6.1|6.12 [--without MODULE,...] COMMAND...
#   --without   modules of the kernel that are left out, as shell patterns: xt_*,ip_set*,br_netfilter,nft_compat
# Two network cards are on one cable, 0000:00:10.0 and 0000:00:11.0, in the first network namespace; virtio_net drives them.
# cache: kernels/ in the folder of scripts/peers.sh. Exit code: the command's; 3: no such kernel could be had or booted.
set -euo pipefail

say() { printf 'in-kernel: %s\n' "$*" >&2; }
usage() { sed -n '5,8s/^# //p' "$0" >&2; exit 2; }

case ${1-} in
  5.10) suite=bullseye ;;
  6.1) suite=bookworm ;;
  6.12) suite=trixie ;;
  *) usage ;;
esac
version=$1
shift
without=
if [ "${1-}" = --without ]; then without=$2; shift 2; fi
[ $# -gt 0 ] || usage
[ "$(id -u)" = 0 ] || { say 'needs root'; exit 3; }

# Of several that start at once on a new machine one gets packages and kernel, and the others wait.
kernels=${TRESTLE_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/trestle-peers}/kernels
mkdir -p "$kernels"
exec 9>"$kernels/lock"
flock 9

packages=()
want() { command -v "$1" >/dev/null || packages+=("$2"); }
want qemu-system-x86_64 qemu-system-x86
want cpio cpio
want depmod kmod
want xz xz-utils
# Before trixie it is part of qemu's own packages.
if ! [ -x /usr/lib/qemu/virtiofsd ] && ! [ -x /usr/libexec/virtiofsd ]; then
  if apt-cache show virtiofsd >/dev/null 2>&1; then packages+=(virtiofsd); else packages+=(qemu-system-common); fi
fi
if [ ${#packages[@]} -gt 0 ]; then
  say "install ${packages[*]}"
  apt-get install -y -q --no-install-recommends "${packages[@]}" >/dev/null 2>&1 || { say 'cannot install them; run apt-get update'; exit 3; }
fi
virtiofsd=/usr/lib/qemu/virtiofsd
[ -x "$virtiofsd" ] || virtiofsd=/usr/libexec/virtiofsd

work=$(mktemp -d)
daemon=
clean() {
  if [ -n "$daemon" ]; then kill "$daemon" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap clean EXIT

# The newest kernel of a suite, from the archive that this machine has its packages from; the machine's own lists stay as they are.
get_kernel() {
  local into=$1 archive lists=$work/lists package
  archive=$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/$' | sort -u | head -n 1)
  mkdir -p "$lists/partial" "$work/cache/archives/partial" "$work/deb"
  echo "deb $archive $suite main" >"$work/sources.list"
  local from=(-o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$lists" -o Dir::Cache="$work/cache")
  # The keys of every suite are in debian-archive-keyring; an expired suite keeps its last signature.
  apt-get "${from[@]}" -o Acquire::Check-Valid-Until=false update -q >"$work/log" 2>&1 || return 1
  package=$(apt-cache "${from[@]}" depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2}')
  (cd "$work/deb" && apt-get "${from[@]}" download "$package") >>"$work/log" 2>&1 || return 1
  dpkg -x "$work"/deb/*.deb "$work/x"
  mkdir -p "$into.new/lib"
  cp "$work"/x/boot/vmlinuz-* "$into.new/vmlinuz"
  # Since trixie a package has its files below /usr.
  cp -r "$work"/x/lib/modules "$into.new/lib/" 2>/dev/null || cp -r "$work"/x/usr/lib/modules "$into.new/lib/"
  find "$into.new/lib" -name '*.ko.xz' -exec xz -d {} +
  rm -rf "$into"
  mv "$into.new" "$into"
}

kernel=$kernels/$version
if [ ! -e "$kernel/vmlinuz" ]; then
  say "get Debian's kernel $version ($suite)"
  get_kernel "$kernel" || { tail -n 5 "$work/log" >&2; say "no kernel $version"; exit 3; }
fi
exec 9>&-

# The first root: busybox and the modules, with those left out that the command is to be without.
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,low,up,root}
cp -r "$kernel/lib" "$root/lib"
release=$(basename "$root"/lib/modules/*)
for pattern in ${without//,/ }; do find "$root/lib" -name "$pattern.ko" -delete; done
depmod -b "$root" "$release"
cp "$(readlink -f "$(command -v busybox)")" "$root/bin/busybox"
mknod "$root/dev/console" c 5 1
{
  printf '#!/bin/busybox sh\n'
  printf 'release=%q dir=%q\n' "$release" "$PWD"
  cat <<'INIT'
export PATH=/bin
for tool in mount modprobe mkdir switch_root cp; do /bin/busybox ln -s busybox /bin/$tool; done
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
modprobe virtio_pci; modprobe virtiofs; modprobe overlay; modprobe virtio_console
mount -t virtiofs -o ro root /low && mount -t tmpfs -o mode=755 tmpfs /up && mkdir /up/upper /up/work &&
  mount -t overlay -o lowerdir=/low,upperdir=/up/upper,workdir=/up/work overlay /root || { echo 'in-kernel: no root'; /bin/busybox poweroff -f; }
mkdir -p /root/usr/lib/modules /up/modules
cp -r /lib/modules/$release /up/modules/
mount --bind /up/modules /root/usr/lib/modules
mkdir -p /root/in-kernel; cp /env /command /root/in-kernel/
for each in proc sys dev; do mount --move /$each /root/$each; done
exec switch_root /root /bin/bash -c '
  mount -t tmpfs -o mode=755 tmpfs /run; mount -t tmpfs tmpfs /tmp; mkdir -p /run/netns /run/lock /dev/pts /dev/shm
  mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
  ip link set lo up
  . /in-kernel/env; cd "$1"; rm -f /dev/fd; ln -s /proc/self/fd /dev/fd
  bash /in-kernel/command </dev/null >/dev/hvc0 2>&1
  echo "in-kernel-exit $?" >/dev/hvc1
  sync; poweroff -f' init "$dir"
INIT
} >"$root/init"
chmod 755 "$root/init"
# The command and the variables that tests read; the guest has no other.
printf '%q ' "$@" >"$root/command"
for name in PATH HOME CI NO_COLOR $(compgen -e TRESTLE_) $(compgen -e CNI_) $(compgen -e FUZZ_); do
  [ -z "${!name+x}" ] || printf 'export %s=%q\n' "$name" "${!name}"
done >"$root/env"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$work/initrd"

# Read-only as the guest mounts it; the daemon sees no more than root does.
"$virtiofsd" --socket-path="$work/fs" -o source=/ -o cache=auto -o sandbox=chroot >"$work/virtiofsd.log" 2>&1 &
daemon=$!
for _ in $(seq 50); do [ ! -S "$work/fs" ] || break; sleep 0.1; done
memory=${IN_KERNEL_MEMORY:-3G}
# The guest's clock counts instructions, one a nanosecond: emulation, however slow on a busy machine, ends no call at its deadline
# (qemu(1), -icount). Of several processors one is emulated at a time then, so the guest has one.
timeout --foreground "${IN_KERNEL_SECONDS:-2400}" qemu-system-x86_64 -accel tcg,thread=single -icount shift=0 -cpu max -smp 1 -m "$memory" -no-reboot -nodefaults -display none \
  -object memory-backend-memfd,id=mem,size="$memory",share=on -numa node,memdev=mem \
  -chardev socket,id=fs,path="$work/fs" -device vhost-user-fs-pci,chardev=fs,tag=root \
  -device virtio-serial-pci -chardev stdio,id=out,signal=off -device virtconsole,chardev=out \
  -chardev file,id=exit,path="$work/exit" -device virtconsole,chardev=exit -serial file:"$work/serial" \
  -netdev hubport,id=card,hubid=1 -device virtio-net-pci,netdev=card,addr=0x10,mac=0a:00:00:00:77:01,romfile= \
  -netdev hubport,id=far,hubid=1 -device virtio-net-pci,netdev=far,addr=0x11,mac=0a:00:00:00:77:02,romfile= \
  -kernel "$kernel/vmlinuz" -initrd "$work/initrd" -append 'console=ttyS0 panic=-1 quiet' </dev/null || true
code=$(sed -n 's/.*in-kernel-exit \([0-9]*\).*/\1/p' "$work/exit" 2>/dev/null)
if [ -z "$code" ]; then
  tail -n 30 "$work/serial" "$work/virtiofsd.log" >&2
  say "the kernel $version did not end the command"
  exit 3
fi
exit "$code"
