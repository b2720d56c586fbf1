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
      /(?:error while|failed to|cannot|unable to)\b[^\n]{0,80}\b(?:HNS|HostCompute)(?:Endpoint|Network|Namespace|LoadBalancer|Policy\w*)\b[^\n]{0,160}/,
      /timed out waiting for interface matching the management IP|Could not find remote DR MAC for Management IP|interface bound to \S+ took too long to get ready/,
      /Unable to (?:find interface matching our host endpoint|hot attach bridge endpoint|(?:create|delete existing) (?:bridge endpoint|network) \[)/,
      /Error applying ACL policy DenyAll|endpoint with same ID was recently deleted|couldn't find an interface matching management IP/,
      /Invoke-HNSRequest ?: ?[^\n]{1,160}|(?:Get|New|Remove|Attach|Set)-Hns\w+ ?: [^\n]{1,120}/,
      /"ErrorCode" ?: ?21513\d{5}\b|ErrorCode=21513\d{5}\b|\(0x803b00[\da-f]{2}\)|hostnetsvc\.dll/,
      /\bhcs(?:shim)?::[\w:]+ [^\n]{0,160}(?:attach namespace|network|adapter)[^\n]{0,60}/,
      /requested operation for attach namespace failed|timed out calling hns|No MSFT_Net\w{1,30} objects found[^\n]{0,120}|Cannot find network with Management IP/,
      /(?:Source Vip endpoint|Remote endpoint|(?:HNS )?LoadBalancer policy) creation failed[^\n]{0,160}/,
      /(?:could not|failed to|unable to|cannot)[^\n]{0,60}(?:\bHNS\b|Management IP from HNS)[^\n]{0,160}/,
      /failed to configure MTU on container interface[^\n]{0,200}|unable to set IPInterface with MTU \d+|[Ff]ailed to (?:run command '|enable network adapter|get network adapter status )[^\n]{0,40}(?:-Net\w+|vEthernet|HNS)[^\n]{0,200}/,
      /unable to find (?:a network adapter with MAC|vmnetwork adapter configured with uplink MAC)[^\n]{0,120}/,
      /Can't find Calico_ep HNS endpoint|no source vip reserved|timed out waiting for the network interfaces to come back|Failed to execute host-local\.exe/,
      /type="(?:win-|sdn)\w+"[^\n]{0,60} failed \(\w+\): (?:network \S+ (?:is )?not found|network \S+ is of (?:an )?unexpected type|endpointMacPrefix|win-overlay )[^\n]{0,80}/,
      /error while hcn\.\w+\([^\n]{0,160}|\[win-cni\] Failed to (?:find|delete) endpoint[^\n]{0,120}/,
    ),
    who: 'the host networking service of Windows, asked by a plugin',
    meaning: 'HNS refused to make or to find a network or an endpoint of a pod on Windows',
    causes: [
      'an endpoint or network of an earlier pod is left ("already exists"), or one was removed ("not found")',
      'the address of the pod is not in the subnet of the network, or in use ("IP address is either invalid")',
      'the agent that makes the network (flanneld, calico-node) has not run since the node started',
      'an update of Windows is missing, or the network lost the adapter below it: its management address is on none',
      'with containerd the interface of a pod comes after the ADD alone: antrea-agent 1.0 to 1.3 looks for it too ' +
        'early ("No MSFT_NetIPInterface objects found"): update Antrea',
      'the service hns does not run, or hangs: "timed out", "RPC server is unavailable"',
      'win-bridge, win-overlay: the network of the name in the file is not made yet, or is of another type than ' +
        'L2Bridge or Overlay',
    ],
    look: ['Get-HnsNetwork | Select Name, Type, Subnets', 'Get-HnsEndpoint | Select Name, IPAddress, State'],
    cure:
      'remove what is left (Remove-HnsEndpoint, or Remove-HnsNetwork on a drained node), restart hns and the agent ' +
      'of the node; install the updates that the plugin names',
  },
  {
    id: 'windows-address-exists',
    pattern: /Instance MSFT_NetIPAddress already exists|New-NetIPAddress ?: [^\n]{0,120}already exists/i,
    who: 'New-NetIPAddress of Windows, run by the agent of a network',
    meaning: 'the address that the agent gives to its bridge or interface is there already',
    causes: [
      'the interface took the address by DHCP, or kept it from the run before: an older agent takes that for an error',
      'another interface of the node has the address',
    ],
    look: ['Get-NetIPAddress | Select InterfaceAlias, IPAddress, PrefixOrigin'],
    cure:
      'update the agent (antrea-agent, flanneld): newer releases accept an address that is there; where another ' +
      'interface has it, give that one another address',
  },
]
