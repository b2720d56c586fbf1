// SPDX-License-Identifier: Apache-2.0
// What the rows of speed are held to, as ratios within one run. `chain`: the upstream plugins with iptables.

/** By number of pods on the node, verb, and who is compared with. */
const whole = {
  1: { add: { chain: 0.45, kindnet: 1.4 }, del: { chain: 0.2, kindnet: 1.2 } },
  300: { add: { chain: 0.3, kindnet: 1 }, del: { chain: 0.22, kindnet: 1.2 } },
}

export const limits = {
  whole: (pods, verb, peer) => whole[pods]?.[verb][peer],
  cpu: 0.6,
  manyPods: 1.15,
  foreignRules: 1.1,
  ownWork: 1,
  start: 2,
  memory: 1.1,
  storm: 0.3,
  containerd: 0.42,
}
