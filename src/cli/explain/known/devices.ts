// SPDX-License-Identifier: Apache-2.0
// Of devices that a pod gets whole: virtual functions of network cards, host-device; and of VRFs.

import { type KnownError, oneOf } from './known-error.ts'

/** Errors of SR-IOV, host-device and vrf. */
export const deviceErrors: readonly KnownError[] = [
  {
    id: 'sriov-no-function',
    pattern: oneOf(
      /VF pci addr(?:ess)? is required/,
      /failed to (?:get|find) VF(?! (?:\S+ )?(?:representor|netdev|locationPath))/,
      /All virtual functions on parent device "[^"]*" (?:seem to be|are already) in use|find a free virtual function/,
      /no (?:free )?VFs? (?:available|found)|failed to (?:open|read) the sriov_numfs of device[^\n]{0,120}/,
      /Insufficient (?!vpc\.amazonaws|devices\.kubevirt|\S*gpu)[\w.-]+\/\S*(?:sriov|vfs?\b|vf_|mlx|mlnx|rdma|hca|dpdk|netdevice|[_-]net\b|[_-]?nics?\b|infiniband|roce|hostdev|macvtap|fpga-vf|e810|x710|i40e|ixgbe)\S{0,40}/,
      /(?:can(?:no|')t allocate unhealthy devices|requested number of devices unavailable for) \S*(?:sriov|vf|mlx|mlnx|rdma|hca|nic|net)\S{0,40}/,
      /failed to create PCI address pool[^\n]{0,160}|PCIDEVICE_\w+[^\n]{0,60}(?:not (?:set|found|present|defined)|is empty)/,
      /can't (?:get|read) the symbolic link of (?:the device|virtfn)|unable to get VF ID with PF: \S+|no symbolic link (?:between virtual function and PCI|for the virtfn)[^\n]{0,60}/,
      /no data in the file "[^"]*sriov_numvfs"|"DeviceID" network configuration attribute is required|failed \(\w+\): deviceID is required/,
      /could not find VF PCI device according to administrative mac|DPU host\. device ID must be provided|DeviceID must be set for Pod request/,
    ),
    who: 'the sriov plugin',
    meaning: 'the pod got no virtual function of a network card',
    causes: [
      'the NetworkAttachmentDefinition lacks the annotation k8s.v1.cni.cncf.io/resourceName, or the pod does not ' +
        'request that resource',
      'the device plugin does not run on this node, or all functions are taken',
    ],
    look: ["kubectl get node NODE -o jsonpath='{.status.allocatable}'", 'cat /sys/class/net/*/device/sriov_numvfs'],
    cure:
      'let the pod request the resource that the definition names; make functions: echo N ' +
      '>/sys/class/net/DEV/device/sriov_numvfs',
  },
  {
    id: 'sriov-setup',
    pattern: oneOf(
      /failed to find interface with any of the possible names|failed to (?:flock|open) PCI file \[|failed to write used PCI address lock file/,
      /error (?:saving|cleaning|deleting) the pci allocation for vf pci address|failed to get original vf information|failed to restore original (?:administrative|effective netlink) MAC/,
      /failed to (?:move|rename|bring up|reset|lookup) (?:the )?(?:link )?vf\b(?! \d+ to netns: "?file exists| device "[^"]*": Link not)[^\n]{0,80}/,
      /error (?:reseting|resetting|obtaining) VF[^\n]{0,80}|GUID is not valid/,
      /(?:effective|hardware) mac address is different from requested/,
      /error setting up interface in container namespace|SRI-?OV-?\s?CNI failed to configure VF[^\n]{0,100}/,
      /failed to set up (?:VF|IB) [^\n]{1,80}/,
      /failed to set up pod interface "[^"]*" from the device(?![^\n]{0,160}(?:failed to (?:open|Statfs)|vf \d+ to netns: "?file exists))[^\n]{1,160}/,
      /setupVF failed: [^\n]{1,100}/,
      /failed to (?:set|restore|reset) (?:vf \d+|netlink MAC|administrative MAC|\w+ (?:for|of) vf \d+)[^\n]{0,100}/,
      /InfiniBand status "[^"]*" is not "configured"|GUID must be provided by ib-kubernetes/,
      /failed to disable rate limiting for vf|error setting (?:temp IF|container interface) name \S+ for/,
    ),
    who: 'the sriov or ib-sriov plugin',
    meaning: 'the pod got a virtual function, and its settings could not be made',
    causes: [
      'InfiniBand: the function has no GUID yet: ib-kubernetes or the subnet manager has to give it one',
      'the driver of the card refuses the MAC, the VLAN, the rate or `trust`',
    ],
    look: ['ip link show', 'journalctl -k --since "1 hour ago" | grep -i -e vf -e mlx -e ixgbe -e i40e -e ice'],
    cure:
      'do what the quoted words name: give the function a GUID (InfiniBand), or take the setting that is refused ' +
      'out of the definition',
  },
  {
    id: 'host-device-none',
    pattern: /specify either "device", "hwaddr"[^\n]{0,60}|kernel device path "[^"\n]{0,120}" must be absolute/,
    who: 'the host-device plugin',
    meaning: 'host-device was not told which interface to give to the pod',
    causes: [
      'the NetworkAttachmentDefinition names no device, and lacks the annotation k8s.v1.cni.cncf.io/resourceName ' +
        'with which Multus passes one on',
      'a DEL after the file with the device was lost (/var/lib/cni/multus), so each try fails the same way',
    ],
    look: ['kubectl get net-attach-def -A -o yaml', 'ls /var/lib/cni/multus'],
    cure:
      'name the device or the resource in the definition: for a DEL too, which then goes through (the plugin ' +
      'itself forgets nothing on the node)',
  },
  {
    id: 'sriov-in-use',
    pattern: oneOf(/pci address \S+ is already allocated/, /waiting to acquire exclusive lock on \[\S+\.lock\]/),
    who: 'the sriov plugin',
    meaning: 'the virtual function is noted as in use by another pod',
    causes: [
      'the pod of before is not yet gone, or its DEL failed: the note below /var/lib/cni/sriov is left',
      'the device plugin gave one function to two pods: it was restarted, or kubelet lost its checkpoint',
      '"exclusive lock": another call for the same function hangs and holds it',
    ],
    look: ['ls -l /var/lib/cni/sriov/pci', 'ip link show'],
    cure: 'wait for the end of the pod that has it; when its namespace is gone, remove the note of this address there',
  },
  {
    id: 'device-missing',
    pattern: oneOf(
      /no net directory under pci device \S+|\/sys\/bus\/pci\/devices\/\S+\/net: no such file or directory/,
      /failed to get one netdevice interface per \S+/,
      /VF (?:device|interface) (?:\S+ )?(?:sysfs path \S+ )?(?:has no entries|not found)/,
      /failed to read net dir of the device|failed to find netdevice to PCI address/,
      /does not have a interface name or a (?:dpdk|userspace) driver|expected PCI or Auxiliary device name, got/,
      /failed to find (?:network device in path|physical interface)|runtime config DeviceID \S+ not found/,
      /failed to get (?:uplink|VF) representor[^\n]{0,80}|unable to get device with hardware address/,
      /failed to look ?up vf device \S+: "?Link not found|(?:PF network device|shared PF) not found/,
      /Failed to get VF netdevice with name|error getting VF netdevice with name|failed to get devices for PCI address/,
      /could not find vdpa devices assigned|unknown vdpa device type|multiple vdpa devices attached/,
      /\/sys\/bus\/pci\/devices\/\S+\/(?:physfn|virtfn\d+)\S*: no such file or directory/,
      /failed to find (?:device name for pci address|network devices at) \S+/,
    ),
    who: 'host-device, sriov, ovs, antrea, OVN',
    meaning: 'the PCI device that the pod got has no network interface on the node',
    causes: [
      'it is bound to a driver without one (vfio-pci, for DPDK): then the definition has to say so, and gets no IPAM',
      'it is in another pod still, or was not given back by the one before',
      'it is gone: the card was reset, the number of functions changed',
    ],
    look: ['ls -l /sys/bus/pci/devices/ADDRESS/driver /sys/bus/pci/devices/ADDRESS/net', 'ip -br link'],
    cure: 'bind it to the driver of the card again (driverctl unset-override ADDRESS), or end the pod that has it',
  },
  {
    id: 'vrf-conflict',
    pattern:
      /VRF \S+ already exist with different routing table|Netlink \S+ is not a VRF|failed to find \S+ associated to vrf \S+|interface \S+ has already a master set/,
    who: 'the vrf plugin',
    meaning: 'the VRF or the interface is set otherwise already',
    causes: [
      'two networks of the pod name one VRF with different tables',
      'the interface is a port of another VRF, a bridge or a bond in the pod',
    ],
    look: ['ip -n NETNS -d link show', 'trestle lint'],
    cure: 'give the VRF one table in all networks of the pod, and each interface to one VRF',
  },
  {
    id: 'vrf-addresses',
    pattern: oneOf(
      /failed getting (?:local\/host addresses|routes) for \S+ (?:in )?table \d+[^\n]{0,100}/,
      /failed getting global ipv6 addresses (?:before|after) slaving interface[^\n]{0,100}/,
      /could not restore address \S+ to \S+ @ \S+: [^\n]{1,60}|failed getting all routes for \S+/,
    ),
    who: 'the vrf plugin',
    meaning: 'an IPv6 address was lost when the interface went into the VRF, and did not come back in time',
    causes: [
      'the kernel still checks the address for duplicates (DAD), or the interface has no carrier',
      'many pods start at once, and the node is slow',
    ],
    look: ['ip -n NETNS -6 addr; ip -n NETNS -6 route show table all', 'ip -br link'],
    cure:
      'put the tuning plugin before vrf with "net.ipv6.conf.IFNAME.keep_addr_on_down": "1" (and accept_dad 0), ' +
      'bring up the interface below, update the plugins',
  },
  {
    id: 'vlan-taken',
    pattern: /failed to create vlan: file exists/,
    who: 'the vlan plugin',
    meaning: 'the master has this VLAN already: there can be one interface for each number',
    causes: [
      'another pod of this node has it: the vlan plugin gives the VLAN itself to one pod',
      'the node has it: a VLAN interface made by netplan, NetworkManager or networkd',
    ],
    look: ['ip -d link show type vlan', 'for n in /run/netns/*; do nsenter --net=$n ip -d link show type vlan; done'],
    cure: 'for several pods put the VLAN of the node (MASTER.ID) under a bridge or macvlan as `master`',
  },
  {
    id: 'master-not-ethernet',
    pattern:
      /failed to create (?:macvlan|ipvlan|macvtap)[^\n]{0,60}: (?:invalid argument|numerical result out of range)/,
    who: 'the kernel',
    meaning: 'the kernel does not put such an interface on this master, or not with this value',
    causes: [
      'the master is no Ethernet (InfiniBand, a tunnel, lo), or a port that cannot carry it',
      '`mtu` is larger than that of the master',
    ],
    look: ['ip -d link show MASTER', 'ip link add test0 link MASTER type macvlan; ip link del test0'],
    cure: 'use an Ethernet master (for InfiniBand the ipoib or ib-sriov plugin), and leave `mtu` out',
  },
  {
    id: 'rdma-namespace',
    pattern: oneOf(
      /(?:RDMA subsystem namespace awareness|failed to (?:get|set) RDMA subsystem) mode[^\n]{0,120}|failed to move RDMA dev[^\n]{0,120}/,
      /failed to get RDMA devices? for (?:PCI|device ID)[^\n]{0,100}|RDMA-CNI is expected to be called as part/,
      /(?:incorrect|get) RDMA subsystem network namespace|too old kernel to get RDMA subsystem/,
      /missing RDMA device spec for device[^\n]{0,80}|RDMA resources for \S+ not found|RDMA modules are not loaded/,
      /rdma is required in the configuration but|No RDMA devices available for|no Rdma Devices were found for resource/,
      /cannot find RDMA link from name|RDMA device "[^"]*" not found/,
      /(?:rdma|RDMA)[^\n]{0,60}netns[^\n]{0,60}(?:device or resource busy|operation not (?:supported|permitted))/,
      /discovered more than one RDMA device|\bno RDMA devices found|failed to restore RDMA device/,
    ),
    who: 'the rdma or ib-sriov plugin, or a device plugin for RDMA',
    meaning: 'the RDMA device of the card or function could not be given to the pod',
    causes: [
      'the node shares RDMA devices between namespaces (rdma system netns shared): rdma-cni and ib-sriov need ' +
        '"exclusive"',
      'the other way round: k8s-rdma-shared-dev-plugin needs "shared", and the node is set to exclusive',
      'the card has no RDMA device on this function: its driver (mlx5_ib) is not loaded',
    ],
    look: ['rdma system; rdma dev', 'lsmod | grep -e mlx5_ib -e ib_core'],
    cure:
      'rdma system set netns exclusive (for the shared device plugin: shared) before any pod uses it; at boot by ' +
      'options ib_core netns_mode=0 (or 1)',
  },
]
