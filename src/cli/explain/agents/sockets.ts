// SPDX-License-Identifier: Apache-2.0
// Of plugins that only pass the call on to an agent, and of what they say where it does not answer.

import { type KnownError, oneOf } from '../known/known-error.ts'

const why = "the pod's events say why: an image, a crash, no API server"

/** Errors of the agents behind other plugins. */
export const agentErrors: readonly KnownError[] = [
  {
    id: 'cilium-agent',
    pattern: oneOf(
      /cilium[- ](?:agent|daemon)\S*(?:(?! client)[^\n]){0,60}(?:not (?:ready|running|available|responding)|connection refused)/,
      /Is the agent running\?/,
      /(?:unable to connect to|failed to create|configuration from) cilium[- ](?:agent|daemon)(?: client)?/,
      /dial unix \S{0,80}\/cilium\/cilium\.sock[^\n]{0,60}/,
      /http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):9879\/healthz[^\n]{0,120}/,
      /\bcilium: daemon unreachable/,
      /Cilium does not appear healthy; removing CNI config|received empty configuration object from cilium[ -]agent/,
    ),
    who: 'the cilium plugin',
    meaning: 'the cilium agent of this node does not answer on its socket',
    causes: [
      'the agent starts still, or crashes: no API server, a kernel without what it needs, a mount of BPF',
      'Cilium was removed, and its configuration 05-cilium.conflist was left',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide -l k8s-app=cilium',
      'kubectl -n kube-system logs ds/cilium -c cilium-agent --tail=30',
    ],
    cure:
      `make the agent of this node run: ${why}. Where Cilium is gone, ` +
      `remove 05-cilium.conflist from /etc/cni/net.d`,
  },
  {
    id: 'cilium-endpoint',
    pattern: oneOf(
      /P(?:UT|ATCH) \/endpoint\/\{id\}|unable to create endpoint\b(?! resolver):?|endpoint\/cilium-local:\d+/,
      /did not synchronously regenerate|putEndpointId\w+|Cilium API client timeout exceeded/,
      /Regeneration of endpoint failed|endpoint regeneration failed|(?:Error|unable to) regenerat(?:e|ing) endpoint/,
      /generating BPF for endpoint failed|previously compiled BPF template/,
      /unable to (?:setup interface datapath|find ifindex for interface MAC)[^\n]{0,120}/,
      /Unable to restore endpoint|Error while rewriting endpoint BPF program|endpoint failed to regenerate/,
      /Not processing API request[^\n]{0,80}|waiting for initial endpoint generation to complete|endpoint ID \d+ is already in use|unable to insert endpoint into manager/,
      /endpoint for (?:CNI attachment ID|container) \S+ already exists|Cancelling obsolete endpoint creat/,
      /Cannot (?:create|update|get) CEP\b[^\n]{0,120}|(?:Could not create or update|Unable to create) CiliumEndpoint resource|Error while reloading endpoint BPF program|Initial policy compute failed/,
    ),
    who: 'the cilium plugin',
    meaning: 'the agent of this node answers, but could not make the endpoint of the pod',
    causes: [
      'many pods start at once: the agent limits and refuses (429 TooManyRequests) or takes too long; kubelet ' +
        'tries again',
      'it cannot build or load its BPF programs, or does not learn the identity of the pod from the API server',
    ],
    look: [
      'kubectl -n kube-system logs ds/cilium -c cilium-agent --tail=50 | grep -i -e level=error -e level=warn',
      'kubectl -n kube-system exec ds/cilium -c cilium-agent -- cilium status --brief',
    ],
    cure: "wait when it is a burst; else the agent's log of this node says which step fails",
    wraps: true,
  },
  {
    id: 'kubeconfig-missing',
    pattern: oneOf(
      /\/(?:etc\/cni|run\/[\w-]{1,30}-cni)\/\S*(?:kubeconfig|kubeconf)\S*: no such file or directory/,
      /you have not configured the storage engine/,
      /(?:plugin type="[^"]*"|failed \(\w+\):|network:|to network "[^"]*":)[^\n]{0,300}(?:http:\/\/localhost:8080\/apis?\b[^\n]{0,120}|invalid configuration: no configuration has been provided|host must be a URL or a host:port pair: )/,
      /(?:SubnetManager|create kubernetes config|Final result of CNI (?:ADD|DEL|CHECK)|\]\[\d+\] \S{0,60}(?:plugin|install|ipam_plugin)\.go)[^\n]{0,160}no configuration has been provided/,
      /Failed to create Calico API client: invalid configuration: no configuration/,
      /no (?:valid )?kubeconfig found at \S+|kubernetes (?:kubeconfig|CA certificate) file \S+ not found/,
    ),
    who: 'a plugin that asks the API server',
    meaning: "the plugin's kubeconfig is not on the node, or names no server: then it asks localhost:8080",
    causes: [
      'the DaemonSet that writes it does not run yet on this node',
      'it was deleted, with the plugin or by a cleaning up of /etc/cni/net.d, and the configuration was left',
      'k3s and rke2 have another directory than /etc/cni/net.d: the plugin looks in the wrong one',
      'of a DEL alone: its caller (Multus) gave it a shorter configuration than by the ADD, without the kubeconfig, ' +
        'and addresses of host-local stay taken then',
    ],
    look: ['ls -lR /etc/cni/net.d /var/lib/rancher/*/agent/etc/cni/net.d 2>/dev/null', 'kubectl get ds -A'],
    cure: "restart the plugin's DaemonSet, which writes it; where the plugin is gone, remove its configuration",
  },
  {
    id: 'multus-unauthorized',
    pattern: /Multus: [^\n]{0,120}?error (?:getting|waiting for) pod: Unauthorized/,
    who: 'Multus',
    meaning: 'the API server refuses the token of /etc/cni/net.d/multus.d/multus.kubeconfig',
    causes: [
      'the token expired: versions before 4.1 write it once, when the Multus pod starts',
      'Multus was removed, and 00-multus.conf was left',
    ],
    look: ['ls -l /etc/cni/net.d /etc/cni/net.d/multus.d', 'kubectl -n kube-system get pods -o wide -l app=multus'],
    cure:
      'restart the Multus pod of this node, which writes the token anew, and update Multus. Where it is gone, ' +
      'remove 00-multus.conf and multus.d',
    innermost: true,
  },
  {
    id: 'multus-readiness',
    pattern: /readiness ?indicator ?file(?! check)[^\n]{0,200}|have you checked that your default network is ready/i,
    who: 'Multus',
    meaning: 'the default network of this node has not written the file that Multus waits for: it is not ready',
    causes: [
      'the agent of the default network (OVN-Kubernetes, Calico, Cilium) does not run on this node, or waits itself',
      'readinessindicatorfile of Multus names a file or directory that this network does not write',
    ],
    look: [
      'kubectl get pods -A -o wide --field-selector spec.nodeName=$(hostname)',
      'grep -i readiness /etc/cni/net.d/00-multus.conf; ls /run/multus/cni/net.d /etc/cni/net.d',
    ],
    cure: 'make the agent of the default network run on this node; it is not Multus that fails',
  },
  {
    id: 'multus-daemon',
    pattern: oneOf(
      /dial unix \S*multus\.sock[^\n]{0,60}|\(shim\): timed out waiting for the condition/,
      /Daemon not reachable over socketfile[^\n]{0,60}/,
      /\(shim\): failed to send CNI request: Post "?http:\/\/dummy\/(?:cni|delegate)"?: [^\n]{1,100}/,
    ),
    who: 'multus-shim',
    meaning: 'the Multus daemon of this node does not answer',
    causes: ['its pod crashes or was killed for memory', 'it was removed, and its configuration was left'],
    look: ['kubectl -n kube-system get pods -o wide -l app=multus'],
    cure: `make the Multus pod of this node run: ${why}; its default memory limit of 50 Mi is small`,
  },
  {
    id: 'weave-agent',
    pattern:
      /weave ipam not available|weave is not running; unable to|bridge "?\w+"? not present; did you launch weave|Weave bridge not found|weave container (?:has died|is (?:not running|not present|restarting))|received status \d+ from IPAM|(?:127\.0\.0\.1|localhost):6784[^\n]{0,160}|network: unable to allocate IP address: (?:Post|Get)\b(?! "?https?:\/\/(?!127|localhost))/,
    who: 'the weave plugin',
    meaning: 'the weave router of this node does not answer',
    causes: ['its pod crashes, or waits for its peers', 'Weave was removed, and 10-weave.conflist was left'],
    look: ['kubectl -n kube-system get pods -o wide -l name=weave-net'],
    cure: `make the weave pod of this node run: ${why}. Weave has no maintainer any more: plan to leave it`,
  },
  {
    id: 'ovn-agent',
    pattern: oneOf(
      /failed to get primary UDN[^\n]{0,80}|no active network found for namespace|DPU plumb failed/,
      /is not ready for pod \S+ provider|no address allocated to pod|no chassis annotation, kube-ovn-cni not ready/,
      /failure in plugging pod interface(?!:[^\n]*(?:file exists|not supported))/,
      /kube-ovn-daemon\.sock(?! \S{0,60}\/db\.sock)[^\n]{0,60}|ovn-cni-server\.sock[^\n]{0,60}|The OF port \S+ state is not up/,
      /OpenFlow port is not ready yet|(?:context deadline exceeded|timed out|timeout) waiting for OVS port binding[^\n]{0,80}|timed out waiting for node's: "[^"\n]{1,80}" logical switch/,
      /failed to (?:connect|add) (?:container \S+ )?(?:to )?ovs (?:for container|port)(?![^\n]{0,200}"wait" timed out)[^\n]{0,80}/,
      /failed to connect container \S+ to ovs: (?![^\n]{0,200}"wait" timed out)|failed to (?:get of_port of|add Openflow entries for) (?:OVS port|container) \S+(?! timed out: "wait")/,
      /ovs interface \S+ is not ready|timed out waiting for OVS \w+(?: binding)?/,
      /timed out waiting for annotations|failed to get pod annotation(?!s| subnet|:? ?\(['"]?Connection)/,
      /ovs-vsctl: unix:(?!\S*openvswitch\/db\.sock)\S* database connection failed/,
      /request ip return \d+\b(?! [^\n]{0,160}(?:no ?available|gateway (?:check )?|after \d+ ping|already been used|AddressOutOfRange|conflict|x509|is forbidden))/,
      /Nil response to CNI request|ovs-vsctl: (?:Interface|Port|Bridge) does not contain/,
      /Post "http:\/\/dummy\/api\/v1\/\w+": (?:unexpected )?EOF/,
      /ovnkube[^\n]{0,60}error waiting for node readiness|failed to ping gw \S+|init node gateway failed/,
      /failed to initialize node gateway|ovn-controller[^\n]{0,60}not (?:running|connected)/,
      /not connected to OVN SB database|has not completed logical flows processing/,
      /ovsdb-server managing \S+ is not in contact with a majority|nbdb is not available/,
      /cannot find OpenFlow port for OVS interface|no system-id configured in the local host|'system-id' in Open_vSwitch/,
      /ovsdb-client: failed to connect[^\n]{0,80}|Check(?:Nb|Sb)IsLeader execute err[^\n]{0,60}/,
      /no available northd leader|OVS is not installed|(?:nb|sb)-connection-status is \S+/,
      /timed out waiting for (?:OVN|OVS)\b[^\n]{0,80}/,
      /failed (?:connecting to|to connect to) (?:OVN )?(?:NB|SB|northbound|southbound)\b[^\n]{0,60}/,
      /Failed to connect to OVN\b[^\n]{0,60}/,
      /ovn-[ns]bct[l1]: (?:[^\s(]+ |[^\n]{0,60})(?:database connection failed|connection refused)[^\n]{0,40}/,
      /pod OVN annotations (?:changed|deleted)/,
      /(?:\bov[ns]\b|ovn-[ns]bctl|ovs-\w+|distributed router|logical (?:switch|router|port)|br-int)[^\n]{0,240}signal: alarm clock/,
      /(?:tcp|ssl):\S{1,60}:664[0-5]: connection (?:attempt (?:failed|timed out)|timed out|dropped|closed by peer)[^\n]{0,40}/,
      /(?:failed to connect to (?:tcp|ssl):|dial tcp )\S{1,60}:664[0-5]\b(?![^\n]{0,160}(?:x509|\btls:))[^\n]{0,160}(?:refused|timeout|timed out|no route|unreachable|deadline|reset by|EOF)/,
      /while waiting on OVS\.Interface|timed out while waiting for OVS\b/,
      /ov[ns]-appctl[^\n]{0,60}: [^\n]{0,40}\/ovn\/[^\n]{1,120}|unix:\S*\/ovn[ns]b_db\.sock: connection attempt failed[^\n]{0,40}|failed waiting for OVN northbound database/,
      /failed while waiting on patch port[^\n]{0,80}|error setting OVS e(?:ncap-port|xternal IDs): [^\n]{1,80}/,
      /signal: alarm clock[^\n]{0,160}(?:\bov[ns]\b|ovn-[ns]bctl|ovs-\w+)/,
      /Waiting for (?:process_ready|wait_for_event) \S+ to come up|\bhas no "k8s\.ovn\.org\/[\w-]{1,60}" annotation/,
      /inc_proc_eng\|INFO\|node: \w+, recompute[^\n]{0,40} took \d{5,}ms/,
      /cluster manager might have not allocated it yet|unable to find logical switch \S+ in NBDB|logical port (?:cache )?(?:\S+ )?for pod \S+ not found/,
      /\blsp (?:does not exist for pod|lost for pod [^\s/]+\/)|read chassis file failed|chassis id is empty|no ovn0 address for node|OVN database echo (?:failed|timeout)/,
      /timeout waiting for ofport for|timed out waiting for pod after \d|failed looking for (?:ovn pod annotations|primary network (?:annotation|name)) for nad/,
      /missing network annotation with primary role|Failed ensuring user defined primary network for nad/,
      /OVN database connection (?:timeout|failed) after \d+ attempts|node nic ovn0 is down/,
      /failed to start ovn-nbctl daemon|ovn0 nic is down|failed to (?:get|init|ping) ovn0\b|wait pod ip \S+ to be ready/,
      /waiting for Topology Version to be updated|node was not found after 30 seconds/,
      /dial unix \S*\/ovn\/ovn[ns]b_db\.sock[^\n]{0,80}/,
      /\b(?:process_ready|wait_for_event|ovs\w*|ovn\S*)(?: \S+){0,3} did not come up, exiting|Failed to find ovnkube-db endpoint/,
    ),
    who: 'the plugin of OVN-Kubernetes, Kube-OVN or Antrea',
    meaning:
      'OVN or Open vSwitch has not made the port of this pod: the agent of this node or its control plane does not ' +
      'keep up',
    causes: [
      'the agent of this node (ovnkube-node, kube-ovn-cni, antrea-agent) crashes or lost its connection',
      'the control plane (ovnkube-master, kube-ovn-controller, its databases) is down or overloaded',
      'Open vSwitch does not run on this node',
    ],
    look: ['kubectl get pods -A -o wide | grep -E "ovn|ovs"', 'ovs-vsctl show'],
    cure:
      'bring the agent of this node up first, then the control plane; restarting the agent helps when only this ' +
      'node has it',
  },
  {
    id: 'antrea-agent',
    pattern:
      /Antrea IPAM driver (?:failed to initialize|not ready)|antrea[^\n]{0,120}CNI server (?:is )?not ready|antrea\/cni\.sock[^\n]{0,60}/,
    who: 'the antrea plugin',
    meaning: 'the antrea agent of this node does not answer on its socket',
    causes: ['its pod starts still, or crashes', 'Antrea was removed, and 10-antrea.conflist was left'],
    look: ['kubectl -n kube-system get pods -o wide -l component=antrea-agent', 'ls /etc/cni/net.d'],
    cure:
      `make the antrea agent of this node run: ${why}. Where it is gone, remove 10-antrea.conflist from ` +
      '/etc/cni/net.d',
  },
  {
    id: 'agent-socket',
    pattern: oneOf(
      /dial (?:unix \/\S+|tcp (?:127\.0\.0\.1|\[::1\]):\d+)[^\n]{0,20}connect: (?:no such file or directory|connection refused|permission denied|resource temporarily unavailable)/,
      /dial unix \/\S+: i\/o timeout/,
      /https?:\/\/[^\n\s]{1,160}"?: (?:read unix @?->\/\S+: [^\n]{1,60}|write unix @?->\/\S+: [^\n]{1,60})/,
      /http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):\d+\/[^\n\s]{0,100}"?: (?:unexpected )?EOF\b/,
      /cannot connect to grpc dataplane[^\n]{0,60}/,
      /(?:failed \(\w+\)|network(?: for sandbox \S+)?): (?:[\w -]{1,60}: )?rpc error: code = Unavailable desc = (?:grpc: the connection is unavailable|transport is closing|all SubConns are in TransientFailure|connection closed|error reading from server)[^\n]{0,160}/,
      /unhealthy spiderpool-agent backend/,
      /(?:Readiness|Liveness|Startup) probe failed: [^\n]{0,80}:57[12]0\/v1\/runtime\/[^\n]{0,120}/,
    ),
    who: 'a plugin that passes calls on to an agent',
    meaning: 'the agent behind the plugin does not answer on this node',
    causes: ['its pod crashes or starts still', 'it was removed, and its configuration was left in /etc/cni/net.d'],
    look: ['kubectl get pods -A -o wide --field-selector spec.nodeName=$(hostname)', 'ls /etc/cni/net.d'],
    cure: `make the agent run: ${why}`,
    needsNetwork: true,
    unless:
      /Vici client|containerd\.sock|crio\.sock|docker\.sock|dockershim\.sock|kubelet\.sock|\/openvswitch\/(?:db\.sock|\S+\.mgmt)|http:\/\/localhost:8080\/api|RootlessKit API socket|https:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):\d+\/apis?\//,
  },
]
