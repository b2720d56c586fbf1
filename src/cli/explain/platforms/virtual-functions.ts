// SPDX-License-Identifier: Apache-2.0
// Of virtual functions before a pod gets one: the driver makes them, an operator configures them, a device plugin
// offers them to kubelet.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of making, configuring and offering virtual functions. */
export const virtualFunctionErrors: readonly KnownError[] = [
  {
    id: 'sriov-iommu',
    pattern: oneOf(
      /GetVFIODeviceFile\(\): [^\n]{0,40}iommu[^\n]{0,120}|error getting vfio device file for device: [^\n]{1,160}/,
      /(?:\bvfio(?:[- ]pci)?\b|BindDpdkDriver\(\)|bindDriver\(\))[^\n]{0,240}?(?:write error|write \S{1,80}\/bind|\/bind"?): no such device\b|write error: no such device\b[^\n]{0,120}\bvfio\b/,
      /vfio-pci(?: \S{1,20})?: probe (?:of \S{1,20} |with driver vfio-pci )?failed with error -\d{1,3}|no iommu_group (?:found|for device)[^\n]{0,60}/,
      /host doesn't support passthrough of host PCI devices/,
      /make sure IOMMU is enabled in BIOS|ensure that kernel args intel_iommu=on iommu=pt are set/,
    ),
    who: 'sriov-network-device-plugin, sriov-network-operator, libvirt or the kernel',
    meaning: 'the function is to be used with vfio-pci (DPDK, virtual machines), and has no IOMMU group on this node',
    causes: [
      'the IOMMU is off: in the firmware (VT-d, AMD-Vi), or the kernel was started without intel_iommu=on',
      'the function is not bound to vfio-pci, or gone; vfio-pci takes it only by driver_override or new_id',
    ],
    look: ['ls /sys/kernel/iommu_groups | wc -l; cat /proc/cmdline', 'ls -l /sys/bus/pci/devices/ADDRESS/driver'],
    cure:
      'drain the node; switch the IOMMU on in the firmware, start the kernel with iommu=pt (on Intel ' +
      'intel_iommu=on as well); then restart the pod of the device plugin',
  },
  {
    id: 'sriov-vfs-not-made',
    pattern: oneOf(
      /Failed to enable (?:PCI )?SR-?IOV\b[^\n]{0,200}|interrupts available for SR-?IOV[^\n]{0,120}/,
      /(?:pci_enable_sriov|mlx\d_sriov_enable|enable_sriov)\b[^\n]{0,60}fail[^\n]{0,40}|not enough MMIO resources for SR-?IOV/,
      /can't enable \d+ VFs[^\n]{0,80}|SR-?IOV: bus number out of range|SR-?IOV (?:is )?not supported by[^\n]{0,60}/,
      /NumVfs \(\d+\) is larger than TotalVfs|fail to (?:set|reset) NumVfs|TotalVfs configured on the system is lower/,
      /\/sriov_numvfs"?: (?!no such file)(?:write error: )?[a-z ]{5,60}|write error: [a-z ]{5,50}[^\n]{0,80}\/sriov_numvfs\b/,
      /VF BAR[^\n]{0,60}(?:no (?:compatible bridge window|space)|failed to assign|can't assign)[^\n]{0,60}/,
      /(?:configSriovPFDevice|configSriovVFDevices|configSriovInterfaces\w*|ConfigSriovDevice\w*)\(\): fail[^\n]{0,160}/,
      /cannot (?:configure|config|reset) sriov (?:interfaces|device)(?![^\n]{0,10}NumVfs)[^\n]{0,80}/,
      /(?:VFIsReady|SetSriovNumVfs|BindDpdkDriver|bindDriver|RebindVfToDefaultDriver)\(\):? (?:fail|unable|cannot)[^\n]{0,160}/,
      /\b(?:mst|mlx)(?:config|fwreset)\b[^\n]{0,160}(?:failed|-E-)[^\n]{0,80}/,
      /mellanox device detected when in lockdown mode|can't set eSwitch mode to \[\w+\] on device[^\n]{0,120}/,
      /Device (?:\S+ )?VF (?:enable|creation) failed|VFs? (?:are )?not supported (?:on|by) (?:this|the) (?:device|card|NIC)/,
      /(?:checkExternallyManagedPF|resetSriov\w+|configureHWOptionsForSwitchdev|SetNetdevMTU|SetDevlinkDeviceParam|EnableHwTcOffload)\(\): (?:requested|fail|unable|can't|error)[^\n]{0,160}|change required for link type but the policy is externally managed/,
      /LoadKernelModule\(\): failed to load kernel module[^\n]{0,120}/,
      /cannot use mellanox devices when in kernel lockdown|mellanox-plugin configFW\(\): failed[^\n]{0,100}|SyncNodeState\(\): fail to (?:configure|reset)[^\n]{0,120}/,
      /\bE-Switch: Failed to [^\n]{1,120}|\bFailed (?:setting|to (?:set|change)) e-?switch (?:to|mode|back)[^\n]{0,80}|Can't set offloads mode, SRIOV legacy not enabled/,
      /mlx5_core \S{1,16}: mlx5_cmd_\w{2,30}:\d{1,5}:\(pid [^)\n]{1,10}\): (?:CREATE_FLOW_TABLE|SET_FLOW_TABLE_ROOT|CREATE_FLOW_GROUP|ENABLE_HCA|MODIFY_ESW_VPORT_CONTEXT|ALLOC_FLOW_COUNTER)\(0x[\da-f]{1,4}\)[^\n]{0,40} failed[^\n]{0,160}/,
      /configSriovDevice\(\): (?:unable|VF link is not ready)[^\n]{0,120}/,
    ),
    who: 'the driver of the network card, or sriov-network-operator',
    meaning: 'the node could not make the virtual functions of a network card',
    causes: [
      'SR-IOV is off in the firmware of the machine or of the card, or the card can have fewer functions',
      'the machine has no room for them: memory below the PCI bridge (MMIO), bus numbers or interrupts',
      'functions of before are still in use: the number changes only by way of 0',
      'Secure Boot (kernel lockdown) keeps the operator from the firmware of the card',
      '"E-Switch", "eswitch": the card takes the mode switchdev only before it has functions (ConnectX with newer ' +
        'firmware), or older kernels only with them',
      'externallyManaged: the number and the MTU that the policy asks for have to be set on the node before',
    ],
    look: [
      'journalctl -k | grep -i -e sriov -e "sr-iov" -e VF -e BAR | tail -20',
      'grep . /sys/class/net/*/device/sriov_totalvfs /sys/class/net/*/device/sriov_numvfs',
      'lspci -vvv | grep -A8 SR-IOV',
    ],
    cure:
      'switch SR-IOV, VT-d and "above 4G decoding" on in the firmware; start the kernel with intel_iommu=on iommu=pt ' +
      '(pci=realloc where memory is short); ask for fewer functions',
  },
  {
    id: 'sriov-policy-refused',
    pattern: oneOf(
      /admission webhook "operator-webhook\.sriovnetwork\.[\w.]+" denied the request[^\n]{0,240}/,
      /no (?:supported NIC|matched node) is selected by the (?:nic|node)Selector in CR|vendor and device ID is not in supported list/,
      /VF index range in \S+ is overlapped with existing policy|root device \S+ is overlapped with existing policy/,
      /'deviceType: [\w-]+' conflicts with '|(?:vdpa|software bridge management) requires the device to be configured in switchdev/,
      /\.Spec\.NetworkNamespace field can't be specified if the resource is not in/,
      /(?:eSwitchMode|linkType) must be [^\n]{1,20} to use software bridge|node is part of more then one pool|multiple pools founded for a specific node/,
      /numVfs\(\d+\) in CR \S+ (?:is|exceed)|nicSelector in CR \S+|PF name (?:in )?nicSelector, |in CR \S+ (?:is higher|is not equal|not supported)[^\n]{0,80}/,
    ),
    who: 'sriov-network-operator',
    meaning: 'the SriovNetworkNodePolicy (or SriovNetwork) is none that the operator takes',
    causes: [
      'no node has a card that nicSelector names, or its vendor and device are not in the list of the operator',
      'it covers functions that another policy has: each range of a card (ens1f0#0-3) belongs to one',
      'keys of it contradict each other: vfio-pci and isRdma, vdpa without switchdev',
    ],
    look: [
      'kubectl get sriovnetworknodestates -A -o yaml | grep -A6 -e name: -e deviceID',
      'kubectl get sriovnetworknodepolicies -A; kubectl get cm -A | grep supported-nic-ids',
    ],
    cure:
      'correct the selector by what SriovNetworkNodeState shows; a card that is not listed goes into ' +
      'supported-nic-ids',
  },
  {
    id: 'sriov-daemon-sync',
    pattern: oneOf(
      /setNodeStateStatus\(\): syncStatus: (?:InProgress|Failed), lastSyncError:\x20?(?!\s*\\{0,3}n?\s*[IWEF]\d{4}\b)\S[^\n]{1,200}/,
      /\blastSyncError\\{0,3}["']?:\x20?(?!\s*\\{0,3}n?\s*[IWEF]\d{4}\b)(?!\\{0,3}(?:""|''|"\\))\\{0,3}["']?[A-Za-z][^\n]{3,200}/,
      /(?:nodeStateSyncHandler|checkOnNodeStateChange|systemServicesStateUpdate|servicesStateUpdate|OnNodeStateChange)\(\): (?:failed|fail|Timed out|plugin \S{1,40} error|"[\w.@-]{1,60}" not found)[^\n]{0,160}/,
      /drainNode\(\): failed to drain node[^\n]{0,160}|\bsriov[^\n]{0,160}\b(?:failed to drain node\b|node drain operation was not completed|error trying to drain the node)[^\n]{0,120}/,
      /\bDrainController\b[^\n]{0,80}(?:failed to drain node|node drain operation was not completed)/,
      /(?:getDrainLock|completeDrain|pauseMCP|restartDevicePluginPod)\(\): ?(?:Failed|fail|couldn't)[^\n]{0,160}|failed to run (?:BeforeDrainNode|AfterCompleteDrainNode) for orchestrator[^\n]{0,120}/i,
      /some sriov systemd services are not available on node[^\n]{0,120}|sriov-config(?:-service)?[^\n]{0,80}failed to (?:write|read|apply)[^\n]{0,160}|unexpected result of the pre phase: [^\n]{1,160}/,
      /(?:syncDesiredKernelArgs|editKernelArg|needRebootNode|configRdmaKernelArg)\(\): (?:fail|failed|grubby or ostree)\b[^\n]{0,120}|failed to (?:run init NicIdMap|initialize list of supported NIC ids|read list of supported nic ids)[^\n]{0,120}/,
      /plugin Apply failed"?[^\n]{0,40}plugin-?name[^\n]{0,120}|timed out waiting for device plugin pod to restart[^\n]{0,120}|failed to fetch node state, exiting[^\n]{0,120}/i,
    ),
    who: 'sriov-network-config-daemon or the operator, of a SriovNetworkNodeState',
    meaning: 'the node does not get what its policy asks for: the words behind it name the step that failed',
    causes: [
      '"timed out waiting for the condition", "drain": the node is drained first, and a pod of it does not go (its ' +
        'PodDisruptionBudget leaves no room, or it is the only node)',
      '"NetworkManager.service" not found: for switchdev older releases change services of systemd, which this node ' +
        'lacks',
      'the driver or the firmware of the card refuses the functions or their mode',
    ],
    look: [
      'kubectl get sriovnetworknodestates -A -o yaml | grep -e " name:" -e syncStatus -e lastSyncError',
      'kubectl get nodes; kubectl get pdb -A',
      'kubectl logs -n NAMESPACE ds/sriov-network-config-daemon --tail=50; systemctl cat NetworkManager openvswitch',
    ],
    cure:
      'give the pod that holds up the drain another replica, or its PodDisruptionBudget room; with a single node ' +
      'disableDrain: true in SriovOperatorConfig; a service that is missing: update the operator, or install it',
    wraps: true,
  },
  {
    id: 'sriov-device-plugin',
    pattern: oneOf(
      /no resource configuration; exiting|Exiting\.\. one or more invalid configuration\(s\) given/,
      /\/etc\/pcidp\/config\.json[^\n]{0,60}: no such file or directory|\/k8s-rdma-shared-dev-plugin\/config\.json[^\n]{0,60}: no such/,
      /no devices in device pool, (?:skipping creating|creating empty) resource server|discoverHostDevices\(\): no PCI network device found/,
      /(?:initServers|InitServers)\(\): (?:error|unable)[^\n]{0,160}|error (?:initializing|starting) resource servers[^\n]{0,120}/,
      /failed to be registered at Kubelet: [^\n]{0,160}|device plugin unable (?:connect to|to register with) Kubelet[^\n]{0,120}/,
      /listAndWatch ended unexpectedly for device plugin \S*(?:sriov|mlx|mlnx|rdma|hca|nic|net)[^\n]{0,120}/,
      /vhost-net is required in the configuration for \S+ but|vDPA is required in the configuration but device/,
      /Failed to parse \S+ PF \(name\|address\) selector|excluding interface \S+: +default route found/,
      /configuration mis+match\. (?:neither|Cannot specify)[^\n]{0,120}/,
      /error getting resources from file \S*pcidp\S*|error discovering host devices|please make sure the config is in json format/,
      /no vdpa device (?:found|associated to pciAddress)[^\n]{0,40}|most likely Kubelet restarted/,
    ),
    who: 'sriov-network-device-plugin or k8s-rdma-shared-dev-plugin',
    meaning: 'the device plugin offers kubelet no function or device on this node',
    causes: [
      'its selectors (vendors, devices, drivers, pfNames) fit no device here: functions are not made yet, or have ' +
        'another driver',
      'its ConfigMap is missing, empty or no JSON',
      'the card carries the default route of the node: such a one is left out',
      'kubelet was restarted, or its directory of sockets is elsewhere or not mounted',
    ],
    look: [
      "kubectl get node NODE -o jsonpath='{.status.allocatable}'",
      'lspci -nn | grep -i -e ethernet -e infiniband',
      'kubectl get cm -A | grep -i -e sriov -e rdma',
      'ls /var/lib/kubelet/device-plugins /var/lib/kubelet/plugins_registry',
    ],
    cure:
      'make the functions, correct the selectors in the ConfigMap, and restart the pod of the device plugin on the ' +
      'node',
  },
]
