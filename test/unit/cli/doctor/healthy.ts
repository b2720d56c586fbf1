// SPDX-License-Identifier: Apache-2.0
// The facts of a node on which nothing is wrong: a network of trestle with one pod, containerd, a default route.

import type {
  KernelFacts,
  NodeFacts,
  PluginFacts,
  RuntimeFacts,
  StateFacts,
} from '../../../../src/commands/doctor/facts.ts'

export const runtime: RuntimeFacts = {
  name: 'containerd',
  text: 'containerd (process 7)',
  confDir: '/etc/cni/net.d',
  binDirs: ['/opt/cni/bin'],
  source: 'CRI Status',
}

export const plugin: PluginFacts = { type: 'trestle', isOwn: true, conf: { type: 'trestle', podcidr: '10.240.0.0/24' } }

export const kernel: KernelFacts = {
  settings: new Map([
    ['net/ipv4/ip_forward', '1'],
    ['net/ipv6/conf/all/forwarding', '1'],
    ['net/ipv6/conf/all/disable_ipv6', '0'],
    ['net/ipv4/conf/all/rp_filter', '0'],
  ]),
  uplinks: [{ dev: 'up0', address: '192.0.2.2', backBy: 'up0' }],
  uplinks6: [],
  podRoutes: [{ pod: 'default/web', address: '10.240.0.2', expected: 'cni0', leavesBy: 'cni0' }],
  refusals: [],
  kept: new Map(),
  hasKubeProxy: false,
}

export const state: StateFacts = {
  differences: [],
  accepts: [],
  lacks: [],
  partial: [],
  lost: [],
  pods: [],
  podsNotSeen: [],
  pendingCleanups: [],
  garbage: [],
  damaged: [],
  ports: [],
  mtus: [{ pod: 'default/web', mtu: 1500 }],
  uplinkMtu: 1500,
  podsOf: new Map([['pods', 1]]),
  podsOfKubelet: new Map([['pods', 1]]),
}

export const nowMs = Date.parse('2026-11-22T12:00:00Z')

export const healthy: NodeFacts = {
  nowMs,
  networks: [
    { name: 'pods', subnets: ['10.240.0.0/24'], links: ['cni0'], bridges: ['cni0'], accepts: false, isSetUp: true },
  ],
  runtimes: [runtime],
  socketsInUse: [],
  configurations: [
    {
      runtime,
      findings: [],
      file: '10-pods.conflist',
      network: 'pods',
      plugins: [plugin],
      files: [{ file: '/etc/cni/net.d/10-pods.conflist', network: 'pods', isOwn: true }],
    },
  ],
  agents: [],
  agentProblems: [],
  readiness: [],
  pools: [],
  kernel,
  state,
  firewalls: [],
  limits: [{ id: 'inotify-limit', what: 'inotify', on: 'instances of root', used: 20, most: 128 }],
  log: [],
  notLooked: [],
}
