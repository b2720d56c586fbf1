// SPDX-License-Identifier: Apache-2.0
// What the agent tells of nodes, and doctor's name for the same.

/** The id of doctor's finding for a problem of the agent: `agent-no-pod-cidr` for `NoPodCIDR`. */
export function findingOfProblem(id: string): string {
  return `agent-${id.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase()}`
}
