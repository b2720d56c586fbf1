// SPDX-License-Identifier: Apache-2.0
// What the rows of speed are held to, as ratios within one run. `chain`: the upstream plugins with iptables.

/** By number of pods on the node, verb, and who is compared with. */
const whole = {
  1: { add: { chain: 0.53, kindnet: 1.2 }, del: { chain: 0.17, kindnet: 0.9 } },
  300: { add: { chain: 0.33, kindnet: 0.85 }, del: { chain: 0.17, kindnet: 0.9 } },
}

export const limits = {
  whole: (pods, verb, peer) => whole[pods]?.[verb][peer],
  cpu: 0.6,
  manyPods: 1.1,
  foreignRules: 1.1,
  ownWork: 1,
  start: 2.2,
  memory: 1.1,
  storm: 0.25,
  containerd: 0.42,
}
