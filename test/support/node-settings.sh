#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gives the network namespace that it runs in the settings that the tests rely on, and brings its lo up.
# TRESTLE_TEST_NODE: plain, a kernel's own defaults (default); docker, those of a machine that Docker or kubelet has set
# up: forwarding, rp_filter, route_localnet and bridge-nf-call are on before trestle comes.
# A new namespace has IPv4's settings from the machine's first one, whatever those of its maker are
# (net/ipv4/devinet.c, devinet_init_net; net.core.devconf_inherit_init_net): nothing is a test's own until it is set.
set -eu
case ${TRESTLE_TEST_NODE:-plain} in
  plain) on=0 ;;
  docker) on=1 ;;
  *) echo "TRESTLE_TEST_NODE: plain or docker, not $TRESTLE_TEST_NODE" >&2; exit 2 ;;
esac
put() { value=$1; shift; for file; do [ ! -e "$file" ] || echo "$value" > "$file"; done; }

cd /proc/sys/net/ipv4
put $on ip_forward # first: it sets more than itself
for at in all default lo; do
  cd /proc/sys/net/ipv4/conf/$at
  put $on rp_filter route_localnet
  put 0 accept_local arp_announce arp_filter arp_ignore proxy_arp src_valid_mark
done
if [ -e /proc/sys/net/ipv6 ]; then
  put 0 /proc/sys/net/ipv6/conf/all/forwarding
  for at in all default; do
    cd /proc/sys/net/ipv6/conf/$at
    put 0 disable_ipv6 addr_gen_mode use_tempaddr
    put 1 accept_ra accept_dad autoconf
  done
fi
# The kernel's default is 1, where br_netfilter is there at all.
put $on /proc/sys/net/bridge/bridge-nf-call-iptables /proc/sys/net/bridge/bridge-nf-call-ip6tables
exec ip link set lo up
