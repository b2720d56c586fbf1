// SPDX-License-Identifier: Apache-2.0
// Other plugins whose agent has not left what they need, and the reference plugins' own troubles. What flannel, calico,
// cilium and others print is taken from the threads; cnitool, bridge, host-local and dhcp run.

import { explainedCure } from '../../../support/explained.ts'
import type { Fault } from './fault.ts'

const versions = '{"cniVersion":"1.0.0","supportedVersions":["0.3.1","0.4.0","1.0.0"]}'
/** A list, and of its plugins what lint asks for: their versions. */
const installed = (
  file: string,
  list: { readonly plugins: readonly { readonly type: string; readonly capabilities?: object }[] },
) =>
  [
    ...list.plugins.map(
      ({ type }) =>
        `printf '#!/bin/sh\\necho %s\\n' '${`'${versions}'`.replaceAll("'", "'\\''")}' >$BIN/${type} && chmod 755 $BIN/${type}`,
    ),
    `cat >$CONF/${file} <<'LIST'\n${JSON.stringify({ cniVersion: '1.0.0', ...list })}\nLIST`,
  ].join(' && ')
const tidy = 'rm -rf $CONF/* $BIN/*'
const printed = (text: string) => `cat <<'TEXT'\n${text}\nTEXT`

interface Agent {
  readonly what: string
  readonly source: string
  readonly file: string
  readonly plugins: readonly { readonly type: string; readonly capabilities?: object }[]
  readonly id: string
  /** What its agent makes. */
  readonly path: string
  readonly isSocket?: true
  readonly text: string
}

const sandbox =
  'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "0a1b":'

const agents: readonly Agent[] = [
  {
    what: 'flannel has not written its range',
    source: 'flannel-io/flannel#2253',
    file: '10-flannel.conflist',
    plugins: [{ type: 'flannel' }, { type: 'portmap', capabilities: { portMappings: true } }],
    id: 'flannel-subnet-env',
    path: '/run/flannel/subnet.env',
    text: `${sandbox} plugin type="flannel" failed (add): loadFlannelSubnetEnv failed: open /run/flannel/subnet.env: no such file or directory`,
  },
  {
    what: 'calico-node does not run',
    source: 'projectcalico/calico#1795',
    file: '10-calico.conflist',
    plugins: [{ type: 'calico' }],
    id: 'calico-nodename',
    path: '/var/lib/calico/nodename',
    text: `${sandbox} plugin type="calico" failed (add): stat /var/lib/calico/nodename: no such file or directory: check that the calico/node container is running and has mounted /var/lib/calico/`,
  },
  {
    what: 'the agent of cilium does not run',
    source: 'cilium/cilium#27715',
    file: '05-cilium.conflist',
    plugins: [{ type: 'cilium-cni' }],
    id: 'cilium-agent',
    path: '/var/run/cilium/cilium.sock',
    isSocket: true,
    text: `${sandbox} plugin type="cilium-cni" failed (add): unable to connect to Cilium agent: failed to create cilium agent client after 30.000000 seconds timeout: Get "http://localhost/v1/config": dial unix /var/run/cilium/cilium.sock: connect: no such file or directory`,
  },
  {
    what: 'the daemon of multus does not run',
    source: 'https://github.com/k8snetworkplumbingwg/multus-cni/blob/master/docs/thick-plugin.md',
    file: '00-multus.conf.conflist',
    plugins: [{ type: 'multus-shim' }],
    id: 'multus-daemon',
    path: '/run/multus/multus.sock',
    isSocket: true,
    text: `${sandbox} plugin type="multus-shim" name="multus-cni-network" failed (add): CmdAdd (shim): failed to send CNI request: Post "http://dummy/cni": dial unix /run/multus/multus.sock: connect: no such file or directory`,
  },
  {
    what: 'the daemon of antrea does not run',
    source: 'https://github.com/antrea-io/antrea/blob/main/docs/troubleshooting.md',
    file: '10-antrea.conflist',
    plugins: [{ type: 'antrea' }],
    id: 'antrea-agent',
    path: '/var/run/antrea/cni.sock',
    isSocket: true,
    text: `${sandbox} plugin type="antrea" failed (add): rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /var/run/antrea/cni.sock: connect: no such file or directory"`,
  },
]

const ofAgents = agents.map(({ what, source, file, plugins, id, path, isSocket, text }): Fault => {
  const directory = path.slice(0, path.lastIndexOf('/'))
  const served = `(setsid socat UNIX-LISTEN:${path},fork /dev/null >/dev/null 2>&1 & echo $! >$SCRATCH/agent); until [ -S ${path} ]; do :; done`
  return {
    what,
    source,
    on: 'bare',
    make: installed(file, { ...{ name: 'cbr0' }, plugins }),
    doctor: [id],
    names: path,
    says: printed(text),
    explain: [id],
    // What makes it run is the business of its own tools: it stands for itself here.
    cure: `mkdir -p ${directory} && ${isSocket === true ? served : `echo node1 >${path}`}`,
    tidy: `${isSocket === true ? 'kill $(cat $SCRATCH/agent); ' : ''}${tidy}; rm -rf ${directory}`,
    isWithoutPods: true,
  }
})

const real = (name: string, plugin: object) =>
  `ln -sf $PEERS/* $BIN/ && cat >$CONF/10-${name}.conflist <<'LIST'\n${JSON.stringify({ cniVersion: '1.0.0', name, plugins: [plugin] })}\nLIST`

export const agentFaults: readonly Fault[] = [
  ...ofAgents,
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
