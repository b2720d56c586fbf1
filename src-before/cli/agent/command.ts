// SPDX-License-Identifier: Apache-2.0
// `trestle agent`: its options, for help. The agent itself is in a bundle of its own (main.ts).

import type { Command } from '../shell/command.ts'

export const agentCommand: Command = {
  name: 'agent',
  words: '',
  maxWords: 0,
  summary: 'keep a Kubernetes node in its cluster: configuration, routes, repair',
  description: [
    "Runs on every node until a signal. The agent waits for the node's podCIDRs and writes the configuration, keeps",
    'routes to the podCIDRs of all other nodes, repairs damage, and collects garbage. Its log is JSON, a line each.',
    'The agent needs rights to list and watch nodes, to patch the status of its node, and to create events.',
    'After its end the network of pods stays. docs/kubernetes.md has the manifest.',
  ].join('\n'),
  options: {
    'node-name': { type: 'string', value: 'NAME', help: 'name of this node; default: $NODE_NAME, else the host name' },
    mode: { type: 'string', value: 'MODE', help: 'bridge (default), or ptp: a routed link for each pod' },
    'cloud-routes': {
      type: 'boolean',
      help: 'make no routes; a cloud controller makes them and sets the condition NetworkUnavailable',
    },
    'cluster-cidr': {
      type: 'string',
      value: 'CIDR,…',
      help: 'route only podCIDRs of other nodes within these ranges; default: any range',
    },
    'api-server': {
      type: 'string',
      value: 'URL',
      help: "default: the server of the kubelet's kubeconfig, else of the environment",
    },
    'ca-file': { type: 'string', value: 'FILE', help: "CA of the API server's certificate" },
    kubeconfig: { type: 'string', value: 'FILE', help: "the kubelet's kubeconfig on the host, for address and CA" },
    'token-file': { type: 'string', value: 'FILE', help: "default: the ServiceAccount's token" },
    'conf-dir': { type: 'string', value: 'DIR', help: 'default: /etc/cni/net.d' },
    'bin-dir': { type: 'string', value: 'DIR', help: 'default: /opt/cni/bin' },
    template: {
      type: 'string',
      value: 'FILE',
      help: 'further keys of the configuration; default: /etc/trestle/pods.conflist, if present',
    },
    'host-root': { type: 'string', value: 'DIR', help: "in a container: the host's root directory, /proc/1/root" },
    'cni-version': { type: 'string', value: 'VERSION', help: 'cniVersion of the configuration; default: 1.1.0' },
    'runtime-endpoint': { type: 'string', value: 'SOCKET', help: 'the runtime to ask before garbage is collected' },
    uninstall: {
      type: 'boolean',
      help: 'remove all that the agent and the plugin made, once no pod is attached',
    },
    listen: {
      type: 'string',
      value: 'ADDR:PORT',
      help: 'address of health and metrics; default: 127.0.0.1:9917; off: none',
    },
    look: { type: 'string', value: 'SECONDS', help: 'seconds between looks at everything; default: 60' },
    gc: { type: 'string', value: 'SECONDS', help: 'seconds between garbage collections; default: 600; 0: never' },
  },
  examples: ['trestle agent', 'trestle agent --mode ptp --node-name node-1', 'trestle agent --cloud-routes'],
  run: () => {
    throw new Error("the agent's own bundle runs it (src/main.ts)")
  },
}
