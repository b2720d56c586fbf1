// SPDX-License-Identifier: Apache-2.0
// By which words a line is known as one of an agent's log, where it names no plugin.

/**
 * Names of agents and of what only they work on, file names of their logs (kube-router), and the frames of Calico's
 * ("[FATAL][29] startup/startup.go") and Cilium's ("subsys=daemon").
 */
export const agentWords =
  /direct routing device|TryLoadPodDelegates|kube-peers|BPF filesystem|\bbpffs\b|\bipamd\b|aws-k8s-agent|aws-node\b|network-policy-agent|azure-cns|kuryr|ovs-vsctl|ovnkube|ovsdb|\bbr-int\b|\[(?:INFO|WARNING|ERROR|FATAL|PANIC)\]\[\d+\]|\bsubsys=|kindnet|IPPool|cluster-?CIDR|pod ?CIDR|network_\w+_controller\.go|subnet ?manager|registering network|istio-inpod|virt-launcher|plugging phase\d|\bnsx[_-](?:node|ncp|ujo|container)/i
