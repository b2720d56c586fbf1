// SPDX-License-Identifier: Apache-2.0
// Of Azure: azure-cns, which has the addresses of a node, at its start and at work.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of azure-cns by its own log. */
export const azureErrors: readonly KnownError[] = [
  {
    id: 'azure-cns-start',
    pattern: oneOf(
      /Failed to (?:init cns with err|restore (?:service|network) state, err): ?[^\n]{1,200}|Error reading cns config: [^\n]{1,120}/,
      /error getting NodeNetworkConfig when initializing CNS state[^\n]{0,160}|failed to reconcile NC state: [^\n]{1,160}/,
      /failed to get nc version list from nmagent[^\n]{0,120}|is not yet programmed by NMAgent[^\n]{0,60}|nmagent: http request failed[^\n]{0,60}/,
      /CNS State potentially corrupt|Failed to (?:register node|start nmagent client|start (?:request controller|pool monitor))[^\n]{0,160}/,
      /GetAllNetworkContainers failed[^\n]{0,160}|\[Azure cnsclient\] Code: \d+[^\n]{0,80}|failed to get NC request from DNC[^\n]{0,80}/,
    ),
    who: 'azure-cns, the agent for addresses of an AKS node',
    meaning: 'azure-cns did not start, or does not get (or find) the addresses of this node',
    causes: [
      'the NodeNetworkConfig of the node is not there or empty: AKS fills it in, after the node has joined',
      'the agent of the host below (NMAgent, by 168.63.129.16) does not answer, or has not set the addresses yet',
      'its state (/var/lib/azure-network, /var/run/azure-cns) or its ConfigMap cns-config is damaged or missing',
    ],
    look: [
      'kubectl -n kube-system get nodenetworkconfigs',
      'kubectl -n kube-system logs -l k8s-app=azure-cns --tail=30; tail /var/log/azure-cns*.log',
    ],
    cure:
      'wait some minutes at a new node; then restart the azure-cns pod; drain a node that stays so, and replace ' +
      'it (reimage)',
    wraps: true,
  },
]
