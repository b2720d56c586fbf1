// SPDX-License-Identifier: Apache-2.0
// `trestle agent`: its words and options, for help. What it runs is in a bundle of its own (main.ts).

import type { Command } from '../shell/command.ts'

export const agentCommand: Command = {
  name: 'agent',
  words: '',
  maxWords: 0,
  summary: 'keep a Kubernetes node in its cluster: configuration, routes, repair',
  description: [
    "Runs on every node until it is told to end. Waits for the node's podCIDRs and writes the configuration, last of",
    'all; keeps routes to the podCIDRs of all other nodes; makes again what others remove; collects garbage. Its ' +
      'log is',
    'JSON, a line each. It needs the right to get, list and watch nodes, to patch the status of its own, and to create',
    'events. When it ends, the network of pods stays as it is. docs/kubernetes.md has the manifest.',
  ].join('\n'),
  options: {
    'node-name': { type: 'string', value: 'NAME', help: 'the own node; default: $NODE_NAME, else the host name' },
    mode: { type: 'string', value: 'MODE', help: 'bridge (default), or ptp: a routed link for each pod' },
    'cloud-routes': { type: 'boolean', help: "make no routes: the cloud's controller does, and keeps the condition" },
    'cluster-cidr': {
      type: 'string',
      value: 'CIDR,…',
      help: 'what podCIDRs of other nodes lie in; what is beyond is not routed. Default: anything',
    },
    'api-server': {
      type: 'string',
      value: 'URL',
      help: "default: that of the kubelet's kubeconfig, else the environment's",
    },
    'ca-file': { type: 'string', value: 'FILE', help: "who signed the API server's certificate" },
    kubeconfig: { type: 'string', value: 'FILE', help: "the kubelet's, on the host, for address and CA alone" },
    'token-file': { type: 'string', value: 'FILE', help: "default: the ServiceAccount's token" },
    'conf-dir': { type: 'string', value: 'DIR', help: 'default: /etc/cni/net.d' },
    'bin-dir': { type: 'string', value: 'DIR', help: 'default: /opt/cni/bin' },
    template: {
      type: 'string',
      value: 'FILE',
      help: 'further keys of the configuration; default: /etc/trestle/pods.conflist, where it is',
    },
    'host-root': { type: 'string', value: 'DIR', help: "in a container: where the host's root is, /proc/1/root" },
    'cni-version': { type: 'string', value: 'VERSION', help: 'of the configuration; default: 1.1.0' },
    'runtime-endpoint': { type: 'string', value: 'SOCKET', help: 'the runtime to ask before garbage is collected' },
    uninstall: {
      type: 'boolean',
      help: 'take everything away that the agent and the plugin made, once no pod is attached',
    },
    listen: { type: 'string', value: 'ADDR:PORT', help: 'health and metrics; default: 127.0.0.1:9917; off: nowhere' },
    look: { type: 'string', value: 'SECONDS', help: 'how often to look where nothing tells of a change; default: 60' },
    gc: { type: 'string', value: 'SECONDS', help: 'how often to collect garbage; default: 600; 0: never' },
  },
  examples: ['trestle agent', 'trestle agent --mode ptp --node-name node-1', 'trestle agent --cloud-routes'],
  run: () => {
    throw new Error("the agent's own bundle runs it (src/main.ts)")
  },
}
