#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs trestle from the files beside this script, without any network: checks the archive of this machine against
# SHA256SUMS, unpacks it into a temporary directory, and starts `trestle install` there.
# usage: install.sh [CONFLIST] [--dry-run]      as `trestle install` has it
set -eu
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "install.sh: $*" >&2; exit 3; }

[ "$(id -u)" = 0 ] || fail 'needs root: it writes into the directories of the container runtime'
case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) fail "there is no trestle for $(uname -m): it is built for x86_64 and aarch64" ;;
esac
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d ' ' -f 2) || true
[ -n "$glibc" ] || fail 'this system has no glibc (Alpine, say), and trestle needs 2.28 or newer'
[ "$(printf '%s\n2.28\n' "$glibc" | sort -V | head -n 1)" = 2.28 ] || fail "glibc $glibc is too old: trestle needs 2.28 or newer"
nft=$(nft --version 2>/dev/null | sed -n 's/^nftables v\([0-9.]*\).*/\1/p')
[ -n "$nft" ] || fail 'there is no nft: install nftables 1.0 or newer'
[ "$(printf '%s\n1.0\n' "$nft" | sort -V | head -n 1)" = 1.0 ] || fail "nftables $nft is too old: trestle needs 1.0 or newer"

set -- "$@"
archive=$(cd "$here" && ls trestle-*-linux-$arch.tar.gz 2>/dev/null) || fail "there is no trestle-*-linux-$arch.tar.gz in $here"
[ "$(echo "$archive" | wc -l)" = 1 ] || fail "there are several archives in $here: keep one"
[ -f "$here/SHA256SUMS" ] || fail "there is no SHA256SUMS in $here"
line=$(grep "  $archive\$" "$here/SHA256SUMS") || fail "SHA256SUMS has no line of $archive"
(cd "$here" && echo "$line" | sha256sum -c --status) ||
  fail "$archive has not the checksum of SHA256SUMS: it is incomplete or changed; download it again"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$here/$archive" -C "$work" --strip-components=1 || fail "cannot unpack $archive into $work"
"$work/trestle" install "$@"
