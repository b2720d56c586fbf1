// SPDX-License-Identifier: Apache-2.0
// The reference plugins' own troubles: bridge, ptp, host-local and dhcp run by cnitool.

import { explainedCure } from '../../../support/explained.ts'
import type { Fault } from './fault.ts'

const tidy = 'rm -rf $CONF/* $BIN/*'
const real = (name: string, plugin: object) =>
  `ln -sf $PEERS/* $BIN/ && cat >$CONF/10-${name}.conflist <<'LIST'\n${JSON.stringify({ cniVersion: '1.0.0', name, plugins: [plugin] })}\nLIST`

export const pluginFaults: readonly Fault[] = [
  {
    what: 'the dhcp daemon does not run',
    source: 'k8snetworkplumbingwg/multus-cni#1031',
    on: 'bare',
    needs: ['bridge', 'dhcp'],
    make: real('lan', { type: 'bridge', bridge: 'br7', ipam: { type: 'dhcp' } }),
    doctor: ['dhcp-daemon'],
    names: '/run/cni/dhcp.sock',
    says: 'ADD',
    explain: ['dhcp-daemon'],
    cure: 'mkdir -p /run/cni && (setsid $BIN/dhcp daemon >/dev/null 2>&1 & echo $! >$SCRATCH/dhcp); until [ -S /run/cni/dhcp.sock ]; do :; done',
    tidy: `kill $(cat $SCRATCH/dhcp); rm -rf /run/cni; ip link del br7; ${tidy}`,
    isWithoutPods: true,
  },
  {
    what: 'every address of host-local has a file',
    source: 'containernetworking/plugins#252',
    on: 'bare',
    needs: ['ptp', 'host-local'],
    make: `${real('small', { type: 'ptp', ipam: { type: 'host-local', subnet: '10.99.0.0/29' } })}\nmkdir -p /var/lib/cni/networks/small && for i in 2 3 4 5 6; do printf 'gone%s\\r\\neth0' $i >/var/lib/cni/networks/small/10.99.0.$i; touch -t 202001010000 /var/lib/cni/networks/small/10.99.0.$i; done`,
    doctor: ['host-local-full'],
    names: '5 of 5',
    says: 'ADD',
    explain: ['host-local-full'],
    // Without a runtime that answers doctor judges no file: the way that explain has.
    cure: explainedCure('host-local-full').replace('NETWORK', 'small'),
    tidy: `rm -rf /var/lib/cni/networks/small; ${tidy}`,
  },
  {
    what: 'a bridge of another list that has another address',
    source: 'containernetworking/cni#306',
    on: 'bare',
    needs: ['bridge', 'host-local'],
    make: `${real('small', { type: 'bridge', bridge: 'br7', isGateway: true, ipMasq: false, ipam: { type: 'host-local', subnet: '10.99.0.0/24' } })}\nip link add br7 type bridge && ip addr add 10.98.0.1/24 dev br7`,
    doctor: ['bridge-other-address'],
    names: '10.98.0.1/24',
    says: 'ADD',
    explain: ['bridge-other-address'],
    tidy: `ip link del br7; ${tidy}`,
  },
]
