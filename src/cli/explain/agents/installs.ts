// SPDX-License-Identifier: Apache-2.0
// Of the containers that put a plugin and its configuration onto the node.

import { type KnownError, oneOf } from '../known/known-error.ts'

/** Errors of installers. */
export const installErrors: readonly KnownError[] = [
  {
    id: 'install-refused',
    pattern: oneOf(
      /(?:cp|mkdir|mv|install|open|creat|copy|writ|touch|renam|chmod)[^\n]{0,100}\/(?:opt|usr\/lib\w*|libexec)\/cni[^\n]{0,120}(?:read-only file system|permission denied|is not writable|operation not permitted)/,
      /failed to (?:install|copy file: write) \S{0,40}\/opt\/cni\/bin\/(?![^\n]{0,160}text file busy)[^\n]{1,160}/,
      /\bcp: can't create '\/etc\/cni\/net\.d\/[^\n]{1,80}/,
      /\b(?:cp|mv|rm): [^\n]{0,60}\/(?:host\/)?(?:etc\/cni\/net\.d|hostbin)\/[^\n]{0,120}: (?:read-only file system|permission denied)/,
      /\/host\/\S+ is non-writeable, skipping|Failed to (?:copy|mv) [^\n]{1,120}This may be caused by selinux/,
      /(?:calico|install\.go)[^\n]{0,80}Failed to (?:install \w|check if (?:directory|file)|create directory|copy install to|verify installed binary)[^\n]{0,80}/,
      /cp: not writing through dangling symlink [`'"]\/(?:opt\/cni|host)[^\n]{0,60}/,
      /(?:cni|calico)[^\n]{0,60}found no writeable directory|\/host\/(?:opt\/cni\/bin|secondary-bin-dir) is not writeable/,
      /avc: +denied +\{(?! execute)[^}\n]{1,60}\} for [^\n]{0,160}(?:name="(?:host-local|portmap|flannel|calico(?:-ipam)?|cilium-cni|multus\w{0,8}|openshift-sdn|istio-cni|linkerd-cni|weave-\w{3,6}|[\w-]{1,40}\.conflist)"|(?:path|name)="?\/?(?:\S{0,40}\/)?(?:opt\/)?cni\/(?:bin|net\.d)\S{0,60}|comm="install[-_.]?cni\S{0,10}")[^\n]{0,160}/,
      /Location \S*cni\S* does not exist|Failed to install (?:cni config|\S{1,80} to \S*cni\S*)/,
    ),
    who: 'the installer of a plugin (an init container of its DaemonSet)',
    meaning: 'the plugin could not be put into the directory of plugins of the node',
    causes: [
      'the system of the node is read-only there (Talos, Flatcar, Bottlerocket, ostree): it has another directory',
      'SELinux or a security policy forbids the container to write on the host',
    ],
    look: ['findmnt -T /opt/cni/bin; ls -ldZ /opt/cni/bin', 'crictl info | grep -i bindir'],
    cure: 'give the DaemonSet and the runtime a directory that can be written, or the container the right',
  },
]
