// SPDX-License-Identifier: Apache-2.0
// Of nodes with Windows, where the host networking service (HNS) makes what Linux makes by netlink.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of HNS, through whichever plugin. */
export const windowsErrors: readonly KnownError[] = [
  {
    id: 'windows-hns',
    pattern: oneOf(
      /hnsCall failed in Win32[^\n]{0,160}|HNS failed with error ?: ?[^\n]{1,120}/,
      /hcn\w+(?:::| failed)[^\n]{0,200}|hcnCreate(?:Endpoint|Network|LoadBalancer)[^\n]{0,160}/,
      /(?:HNS|hcn|hns) ?(?:network|endpoint|namespace)s?\b[^\n]{0,120}(?:not found|already exist\w*|failed|error|lost)/,
      /(?:Unable|failed|Error)[^\n]{0,40}\b(?:hns|hcn) ?(?:network|endpoint|namespace)[^\n]{0,160}/,
      /hot attach (?:shared )?endpoint [^\n]{0,200}|A Compute System with the specified identifier does not exist/,
      /Host(?:Compute)?Network\S* \S+ (?:is )?(?:already existed|not found)|HNS network lost its management IP/,
    ),
    who: 'the host networking service of Windows, asked by a plugin',
    meaning: 'HNS refused to make or to find a network or an endpoint of a pod on Windows',
    causes: [
      'an endpoint or network of an earlier pod is left ("already exists"), or one was removed ("not found")',
      'the address of the pod is not in the subnet of the network, or in use ("IP address is either invalid")',
      'the agent that makes the network (flanneld, calico-node) has not run since the node started',
      'an update of Windows is missing, or the network lost the adapter below it',
    ],
    look: ['Get-HnsNetwork | Select Name, Type, Subnets', 'Get-HnsEndpoint | Select Name, IPAddress, State'],
    cure:
      'remove what is left (Remove-HnsEndpoint, or Remove-HnsNetwork on a drained node), restart hns and the agent ' +
      'of the node; install the updates that the plugin names',
  },
]
