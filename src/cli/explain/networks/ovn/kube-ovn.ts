// SPDX-License-Identifier: Apache-2.0
// Of Kube-OVN: its subnets, fixed addresses, and the networks of the provider below it.

import { type KnownError, oneOf } from '../../known/known-error.ts'

/** Errors of what is configured for Kube-OVN. */
export const kubeOvnErrors: readonly KnownError[] = [
  {
    id: 'kube-ovn-subnet',
    pattern: oneOf(
      /CIDRBlock: "[^"]*" format error|in excludeIps is not a valid|is configured with \/32 or \/128 netmask/,
      /vpc and subnet cannot have the same name|subnet \S+ and vpc \S+ cannot have the same name/,
      /\bgateway \S+ is not in cidr \S+|externalEgressGateway is not a valid address|is not a valid gateway type/,
      /vip \S+ conflicts with subnet \S+ cidr|subnet cidr block \S+ v6 ip address can not contain upper case/,
      /subnet \S+ Spec\.GatewayNode or Spec\.GatewayNodeSelectors must be specified|no gateway node exists/,
      /logicalGateway and u2oInterconnection can't be opened at the same time/,
      /provider \S+ not bind to any subnet/,
    ),
    who: 'kube-ovn-controller',
    meaning: 'the Subnet is none that Kube-OVN takes, so no pod gets an address of it',
    causes: [
      'its cidrBlock, gateway or excludeIps are no addresses, or lie outside of each other',
      'a central gateway without a gatewayNode, or with one that is not there',
      'keys of it exclude each other, or it has the name of its VPC',
      'the provider of a NetworkAttachmentDefinition is that of no Subnet (NAME.NAMESPACE.ovn, or NAME.NAMESPACE)',
    ],
    look: ['kubectl get subnet; kubectl describe subnet NAME | tail -20', 'kubectl get subnet NAME -o yaml'],
    cure: 'correct the key that is named: kubectl edit subnet NAME; its condition Validated says when it is taken',
  },
  {
    id: 'kube-ovn-address',
    pattern: oneOf(
      /\bAddressOutOfRange\b|\bip \S+ conflicts with subnet gateway|static MAC \S+ conflicts with gateway MAC/,
      /\b(?:ip|mac) [\da-f.:]{7,40} has been allocated to (?!\S+ duplicate)\S+|no free v[46] ip in ip pool \S+/,
      /ValidatePodNetworkFailed[^\n]{0,160}|\b[\da-f.:]{7,40} not in cidr [\da-f.:/]+/,
      /static ip \S+ does not match requested ip family/,
      /failed to (?:get|allocate) static ip [\da-f.:]{2,40}[^\n]{0,160}NoAvailableAddress/,
    ),
    who: 'Kube-OVN',
    meaning: 'the pod may not have the address (or MAC) that it asks for in its annotations, or its pool is empty',
    causes: [
      'ovn.kubernetes.io/ip_address is outside of the subnet of its namespace, or the gateway of it',
      'another pod, or a VM that is stopped, holds the address: its IP object is still there',
      'ip_pool has as many addresses as the workload has replicas, and one more is wanted while it is replaced',
    ],
    look: [
      "kubectl get pod POD -o jsonpath='{.metadata.annotations}'",
      'kubectl get ips.kubeovn.io | grep ADDRESS; kubectl get subnet',
    ],
    cure: 'ask for a free address of the subnet that the pod is in, or end the pod that holds it; make the pool larger',
    needsNetwork: true,
  },
  {
    id: 'kube-ovn-provider-network',
    pattern: oneOf(
      /InitOVSBridgeFailed[^\n]{0,40}|Failed to initialize provider network: [^\n]{1,200}|failed to configure external bridge[^\n]{0,120}/,
      /failed to (?:replace|delete|remove|restore|set|get|create|find|extract|list|select) [^\n]{0,120}(?:VLAN internal port|kernel VLAN|external bridge|(?:on|to|from) OVS bridge|MAC address of OVS bridge)\b[^\n]{0,160}|failed to set OVS bridge \S{1,40} (?:up|down)[^\n]{0,120}/,
    ),
    who: 'kube-ovn-cni, of a ProviderNetwork',
    meaning: 'the network card of this node could not be put under the bridge of the provider network',
    causes: [
      'this node has no card of that name: "nic … does not exist" (customInterfaces and excludeNodes are for that)',
      'the card belongs to a bond or bridge already, or NetworkManager takes it back',
      'its VLAN interface has another parent or number than the network',
    ],
    look: [
      'kubectl get provider-network -o yaml | grep -B2 -A12 status',
      'ip -br addr; ip route show default',
      'kubectl -n kube-system get pods -o wide -l app=ovs',
    ],
    cure:
      'name the card of this node in customInterfaces, or leave the node out (excludeNodes); the card goes ' +
      'under a bridge with its addresses, so take one that does not carry the node itself, or have a console at ' +
      'hand',
    wraps: true,
  },
  {
    id: 'kube-ovn-pod',
    pattern: oneOf(
      /\b(?:PodNetwork(?:Allocation|Update|Release)Failed|AcquireAddressFailed|CreateOVNPortFailed|GetVlanInfoFailed)\b[^\n]{0,60}/,
      /kube-?ovn[^\n]{0,200}\bstage=\w{4,40} error=[^\n]{1,160}/,
    ),
    who: 'kube-ovn-controller, by an event of the pod',
    meaning: 'the controller could not give the pod its address or its port in OVN: the words behind error= say why',
    causes: [
      'the subnet of the namespace is not ready, has no free address, or its VLAN is not there',
      "OVN's northbound database does not answer",
    ],
    look: ['kubectl get subnet; kubectl get vpc', 'kubectl -n kube-system logs deploy/kube-ovn-controller --tail=50'],
    cure: 'do what the words behind error= name; the controller tries again by itself',
    wraps: true,
  },
  {
    id: 'kube-ovn-lsp-lost',
    pattern: /\blsp lost for pod [^\s/]+(?!\S*\/)(?:, please delete the pod and retry)?/,
    who: 'kube-ovn-controller, while it collects ports that nobody uses',
    meaning: "OVN's northbound database has no port of the name that the pod's IP object stands for",
    causes: [
      'the pod (often of a VM) has its Kube-OVN network by Multus: its port is called NAME.NAMESPACE.PROVIDER, and ' +
        'older releases look for NAME.NAMESPACE: harmless',
      'the database was restored from an older copy, or the port was deleted by hand: then the pod has no network',
    ],
    look: [
      'kubectl ko nbctl show | grep -A3 POD.NAMESPACE',
      "kubectl get ips.kubeovn.io | grep POD; kubectl get pod POD -o jsonpath='{.metadata.annotations}'",
    ],
    cure:
      'nothing while the pod is reached and its port is there: update Kube-OVN; delete the pod only where the port ' +
      'is missing (a VM is interrupted by that)',
  },
  {
    id: 'kube-ovn-start',
    pattern: oneOf(
      /failed to initialize (?:ovn (?:resources|chassis annotation)|node (?:routes|chassis)|OVS bridges|ovs mirror|crd finalizers|ipam\b)[^\n]{0,120}/,
      /failed to do the OS initialization[^\n]{0,120}|failed to mv cni config file[^\n]{0,120}|failed to create ovn [sn]b client[^\n]{0,120}/,
      /failed to sync crd (?:subnets|vlans|ips|vpc nat gateways)[^\n]{0,120}|failed to set NB_Global \w+[^\n]{0,120}/,
      /host ip \S+ not in env NODE_IPS\b[^\n]{0,80}/,
    ),
    who: 'kube-ovn-cni or kube-ovn-controller, at its start',
    meaning: 'Kube-OVN ended while it started: the words behind it say at which step',
    causes: [
      'Open vSwitch of this node, or the databases of OVN (ovn-central), do not run yet',
      'the API server does not answer it, or CRDs of its release are missing',
      'the kernel refuses a setting, or the directory of configurations cannot be written',
      'NODE_IPS: ovn-central lacks the address of this node: it changed, or the node got the role of a master later',
    ],
    look: [
      'kubectl -n kube-system get pods -o wide | grep -e ovn -e ovs',
      'kubectl -n kube-system logs POD --previous --tail=30',
    ],
    cure: 'bring ovs-ovn and ovn-central up first; then do what the words behind it name',
    wraps: true,
  },
]
