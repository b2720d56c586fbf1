#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the programs that the e2e tests and the bench run trestle against, into a cache folder outside the repository.
# usage: scripts/peers.sh [cni] [containerd] [docker] [networkd] [networkmanager]
#        [kube-proxy] [cri-o] [kubelet] [kindnet] [control-plane] [kubernetes-tests]
#   default: all but kindnet, control-plane (six minutes, for TRESTLE_TEST_CLUSTER=1) and kubernetes-tests (six more)
# cache: $TRESTLE_PEERS, else $XDG_CACHE_HOME/trestle-peers, else ~/.cache/trestle-peers
#   bin/     cnitool, containerd, containerd-shim-runc-v2, ctr, runc, kube-proxy, ocicnitool, kubelet
#            (and etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl; e2e.test, ginkgo, coredns)
#   cni/     the upstream plugins (and cni-kindnet)
#   debian/  Debian packages, unpacked and not installed: an installed daemon would start with the machine
#   images/  lab.tar: lab.local/pause:1 and lab.local/busybox:1 (and kubernetes.tar: what e2e.test runs in pods)
# A finished part is not built again until its version below changes. Without Go, Debian's packages stand in.
# Exit code 1: something is missing; stderr names it.
set -euo pipefail

CNI=v1.3.1 PLUGINS=v1.9.1 CONTAINERD=v2.4.2 RUNC=v1.5.2 KUBERNETES=36.3 OCICNI=0.5.1 ETCD=3.6.8 COREDNS=v1.15.0
IMAGES=1      # raise it when make-image.mjs writes something else
TEST_IMAGES=1 # raise it when kubernetes-images.mjs writes something else
UNPACKED=1    # raise it when a list of Debian packages changes

here=$(cd "$(dirname "$0")" && pwd)
peers=${TRESTLE_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/trestle-peers}
incomplete=0
mkdir -p "$peers"/{bin,cni,debian,images,src,stamp}

say() { printf 'peers: %s\n' "$*" >&2; }
have() { [ -e "$peers/stamp/$1" ]; }
done_with() { rm -f "$peers/stamp/${1%%@*}"@*; : > "$peers/stamp/$1"; say "$1 ready in $peers"; }

# Go 1.24 is the oldest that the pinned plugins accept; newer modules say so themselves and the fallback is taken.
go_present() {
  local version
  version=$(go env GOVERSION 2>/dev/null) || return 1
  [ "$(printf 'go1.24\n%s\n' "$version" | sort -V | head -n 1)" = go1.24 ]
}

# go_install FOLDER MODULE@VERSION... : two at a time, the machine may be busy with tests.
# Links of an earlier stand_in go first: go would write through them.
go_install() {
  local into=$1
  shift
  find "$peers/$into" -type l -delete
  GOBIN="$peers/$into" GOFLAGS=-trimpath go install -p 2 -ldflags "${LDFLAGS:--s -w}" ${TAGS:+-tags "$TAGS"} "$@"
}

# stand_in FOLDER PACKAGE PATH... : links to what a Debian package installed
stand_in() {
  local into=$1 package=$2 path
  shift 2
  for path in "$@"; do
    if [ ! -x "$path" ]; then
      say "$path is not on this machine: apt-get install --no-install-recommends $package"
      incomplete=1
      return
    fi
    ln -sfn "$path" "$peers/$into/${path##*/}"
  done
}

cni() {
  local part="cni@$CNI-$PLUGINS" at=github.com/containernetworking name list=()
  have "$part" && return
  for name in main/{bridge,ptp,loopback,macvlan} ipam/{host-local,static,dhcp} meta/{portmap,firewall,bandwidth,tuning,sbr}; do
    list+=("$at/plugins/plugins/$name@$PLUGINS")
  done
  if go_present && CGO_ENABLED=0 go_install bin "$at/cni/cnitool@$CNI" &&
    CGO_ENABLED=0 LDFLAGS="-s -w -X $at/plugins/pkg/utils/buildversion.BuildVersion=$PLUGINS" go_install cni "${list[@]}"; then
    done_with "$part"
  else
    incomplete=1 # Debian has no cnitool
    say 'no Go 1.24 or newer, or the build failed: no cnitool, and the plugins of the package containernetworking-plugins'
    stand_in cni containernetworking-plugins /usr/lib/cni/{bridge,ptp,loopback,macvlan,host-local,static,dhcp,portmap,firewall,bandwidth,tuning,sbr}
  fi
}

containerd() {
  local part="containerd@$CONTAINERD" at=github.com/containerd/containerd/v2
  have "$part" && return
  if go_present && CGO_ENABLED=0 TAGS='no_btrfs no_devmapper no_zfs no_tracing' \
    LDFLAGS="-s -w -X $at/version.Version=$CONTAINERD" \
    go_install bin "$at/cmd/containerd@$CONTAINERD" "$at/cmd/containerd-shim-runc-v2@$CONTAINERD" "$at/cmd/ctr@$CONTAINERD"; then
    done_with "$part"
  else
    say "no Go new enough for $CONTAINERD, or the build failed: containerd of the package containerd"
    stand_in bin containerd /usr/bin/{containerd,containerd-shim-runc-v2,ctr}
  fi
}

# runc enters namespaces in C: it needs a compiler, and libseccomp's headers for seccomp profiles
runc() {
  local part="runc@$RUNC"
  have "$part" && return
  if go_present && command -v gcc >/dev/null && seccomp_headers &&
    CGO_ENABLED=1 TAGS=seccomp LDFLAGS="-s -w -X main.version=${RUNC#v}" go_install bin "github.com/opencontainers/runc@$RUNC"; then
    done_with "$part"
  else
    say 'no Go 1.24 or newer, gcc or libseccomp-dev, or the build failed: runc of the package runc'
    stand_in bin runc /usr/sbin/runc
  fi
}

seccomp_headers() {
  pkg-config --exists libseccomp 2>/dev/null ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends libseccomp-dev pkg-config >&2
}

images() {
  local part="images@$IMAGES"
  have "$part" && return
  if [ ! -x /bin/busybox ]; then
    say '/bin/busybox is not on this machine: apt-get install busybox-static'
    incomplete=1
    return
  fi
  node "$here/make-image.mjs" /bin/busybox "$peers/images/lab.tar"
  done_with "$part"
}

# unpacked PART PACKAGE... : packages and what they need that this machine lacks. Nothing of it is installed or
# started; the tests lay it over the folders of a private machine. Installed packages are used from where they are.
unpacked() {
  local part=$1 into="$peers/debian/$1" archives deb
  shift
  have "$part@$UNPACKED" && return
  archives=$(mktemp -d)
  mkdir "$archives/partial"
  if ! download "$archives" "$@" && ! { apt-get update -q >&2 && download "$archives" "$@"; }; then
    say "$part is left out: apt-get cannot download $*"
    incomplete=1
    rm -r "$archives"
    return
  fi
  rm -rf "$into"
  mkdir -p "$into"/{etc,usr/lib}
  for deb in "$archives"/*.deb; do
    if [ -e "$deb" ]; then dpkg -x "$deb" "$into"; fi
  done
  if [ -d "$into/lib" ]; then cp -a "$into/lib/." "$into/usr/lib/"; fi # /lib is a link to it on the machine
  rm -r "$archives"
  done_with "$part@$UNPACKED"
}

download() {
  local archives=$1
  shift
  DEBIAN_FRONTEND=noninteractive apt-get install --download-only -y -q --no-install-recommends \
    -o Dir::Cache::archives="$archives" "$@" >&2
}

# kubernetes_module FOLDER: Kubernetes' go.mod replaces the staging modules by folders, which `go install` refuses: a
# module of our own names them.
kubernetes_module() {
  local kubernetes=k8s.io/kubernetes gomod
  mkdir -p "$1"
  gomod=$(go mod download -json "$kubernetes@v1.$KUBERNETES" | sed -n 's/^.*"GoMod": "\(.*\)".*$/\1/p') || return
  grep -E '^(go|godebug) ' "$gomod" | { echo "module ${1##*/}"; cat; } >"$1/go.mod"
  echo "require $kubernetes v1.$KUBERNETES" >>"$1/go.mod"
  sed -nE "s|^\s*(k8s.io/[a-z0-9-]+) => \./staging.*|replace \1 => \1 v0.$KUBERNETES|p" "$gomod" >>"$1/go.mod"
}

kubernetes() {
  local program=$1 part="$1@$KUBERNETES" source="$peers/src/$1" kubernetes=k8s.io/kubernetes
  have "$part" && return
  if go_present && kubernetes_module "$source" &&
    (
      cd "$source"
      CGO_ENABLED=0 GOFLAGS='-mod=mod -trimpath' go build -p 2 \
        -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v1.$KUBERNETES" -o "$peers/bin/$program" "$kubernetes/cmd/$program"
    ); then
    done_with "$part"
  else
    say "$program is left out: no Go new enough, or the build failed"
    incomplete=1
  fi
}

# Kubernetes' own tests, and the images that they run, under the names that they ask for.
kubernetes_tests() {
  local part="kubernetes-tests@$KUBERNETES-$COREDNS-$TEST_IMAGES" source="$peers/src/kubernetes-tests" at=k8s.io/kubernetes/test
  have "$part" && return
  if go_present && kubernetes_module "$source" && (
    export CGO_ENABLED=0 GOFLAGS='-mod=mod -trimpath'
    cd "$source" &&
      install -m 644 "$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)"/test/images/agnhost/porter/localhost.{crt,key} . &&
      go build -p 2 -ldflags '-s -w' -o "$source/" $at/images/agnhost $at/images/regression-issue-74839 &&
      go build -p 2 -ldflags '-s -w' -o "$peers/bin/ginkgo" github.com/onsi/ginkgo/v2/ginkgo &&
      go test -c -vet=off -p 2 -ldflags '-s -w' -o "$peers/bin/e2e.test" $at/e2e
  ) && coredns && cp "$peers/bin/coredns" "$source/" && node "$here/kubernetes-images.mjs" /bin/busybox "$source" "$peers/images/kubernetes.tar"; then
    done_with "$part"
  else
    say 'the tests of Kubernetes are left out: no Go new enough, or the build failed'
    incomplete=1
  fi
}

# CoreDNS with the plugins that the tests' name servers have, not the hundred of its own program.
coredns() {
  local source="$peers/src/coredns" at=github.com/coredns/coredns name
  mkdir -p "$source"
  printf 'module coredns\ngo 1.25.0\nrequire %s %s\n' "$at" "$COREDNS" >"$source/go.mod"
  {
    printf 'package main\n\nimport "%s/coremain"\n' "$at"
    for name in bind cache errors hosts kubernetes log; do printf 'import _ "%s/plugin/%s"\n' "$at" "$name"; done
    printf '\nfunc main() { coremain.Run() }\n'
  } >"$source/main.go"
  (
    export CGO_ENABLED=0 GOFLAGS='-mod=mod -trimpath'
    cd "$source" && go mod tidy && go build -p 2 -ldflags '-s -w' -o "$peers/bin/coredns" .
  )
}

# Its module has no program at its root that `go install` would call etcd.
etcd() {
  local part="etcd@$ETCD" source="$peers/src/etcd"
  have "$part" && return
  mkdir -p "$source"
  if go_present && (
    cd "$source"
    printf 'module etcd\ngo 1.25.0\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$ETCD" >go.mod
    printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' >main.go
    GOFLAGS=-mod=mod go mod tidy
    CGO_ENABLED=0 GOFLAGS='-mod=mod -trimpath' go build -p 2 -ldflags '-s -w' -o "$peers/bin/etcd" .
  ); then
    done_with "$part"
  else
    say 'etcd is left out: no Go new enough, or the build failed'
    incomplete=1
  fi
}

# CRI-O's own library for networks, as its small tool: what CRI-O would use, without CRI-O. Its deprecation cannot be
# looked up everywhere, which ends `go install`; a module of our own does without.
cri_o() {
  local part="cri-o@$OCICNI" source="$peers/src/cri-o"
  have "$part" && return
  mkdir -p "$source"
  if go_present && (
    cd "$source"
    printf 'module cri-o\ngo 1.25.0\nrequire github.com/cri-o/ocicni v%s\n' "$OCICNI" >go.mod
    CGO_ENABLED=0 GOFLAGS='-mod=mod -trimpath' go build -p 2 -ldflags '-s -w' -o "$peers/bin/ocicnitool" \
      github.com/cri-o/ocicni/tools/ocicnitool
  ); then
    done_with "$part"
  else
    say 'ocicnitool is left out: no Go new enough, or the build failed'
    incomplete=1
  fi
}

# For the bench only. cni-kindnet is a module without a published path, so it is built from a checkout.
kindnet() {
  local source="$peers/src/kindnet/cmd/cni-kindnet"
  [ -x "$peers/cni/cni-kindnet" ] && return
  if go_present && command -v gcc >/dev/null && [ -e "$source/go.mod" ]; then
    (cd "$source" && CGO_ENABLED=1 go build -p 2 -trimpath -ldflags '-s -w' -o "$peers/cni/cni-kindnet" .)
    say "kindnet ready in $peers"
  else
    say "cni-kindnet is left out: it needs Go, gcc and a checkout of github.com/aojea/kindnet in $peers/src/kindnet"
  fi
}

for group in "${@:-cni containerd docker networkd networkmanager kube-proxy cri-o kubelet}"; do
  for part in $group; do
    case $part in
      cni | kindnet) "$part" ;;
      containerd)
        containerd
        runc
        images
        ;;
      docker) unpacked docker docker.io ;;
      networkd) unpacked networkd systemd ;;
      networkmanager) unpacked networkmanager network-manager dbus-daemon ;;
      kube-proxy | kubelet) kubernetes "$part" ;;
      cri-o) cri_o ;;
      control-plane)
        etcd
        for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do kubernetes "$program"; done
        ;;
      kubernetes-tests) kubernetes_tests ;;
      *) say "unknown part '$part': cni, containerd, docker, networkd, networkmanager, kube-proxy, cri-o, kubelet, kindnet, control-plane or kubernetes-tests"; exit 2 ;;
    esac
  done
done
exit "$incomplete"
