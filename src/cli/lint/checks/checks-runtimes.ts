// SPDX-License-Identifier: Apache-2.0
// What `trestle lint` checks of the runtimes of the node: where they look, and whether they know.

import type { CheckTexts } from './check-texts.ts'

export const runtimeChecks = {
  'dir-not-used': {
    severity: 'note',
    meaning: 'no runtime of this node reads the directory',
    cause:
      'the runtime is configured for another one (k3s and rke2 have their own); tools like podman may read this one',
    cure: 'move the file to the directory that the runtime reads',
  },
  'copies-differ': {
    severity: 'warning',
    meaning: 'one network is in two directories that runtimes read, and is not the same there',
    cause: 'each runtime has its own: pods get another network by the runtime that starts them',
    cure: 'keep one of them, and let both runtimes read that directory',
  },
  'settings-not-loaded': {
    severity: 'warning',
    meaning: 'a runtime runs with other directories than its files say',
    cause: 'it reads its settings when it starts, and was not restarted after the change',
    cure: 'restart it',
  },
  'runtime-key-ignored': {
    severity: 'warning',
    meaning: 'a runtime does not read what its file says about CNI',
    cause:
      'a key or table of another version: containerd 2.1 and later has bin_dirs in place of bin_dir, and a file of ' +
      'version 3 has the table io.containerd.cri.v1.runtime',
    cure: '`containerd -c FILE config migrate` prints the file as this version reads it',
  },
  'runtime-config-broken': {
    severity: 'error',
    meaning: 'the settings of a runtime cannot be read',
    cause: 'the file is no TOML, or one of its imports is not there: the runtime does not start again',
    cure: 'correct the file',
  },
  'kubelet-flag-dead': {
    severity: 'warning',
    meaning: "kubelet has flags of Docker's time",
    cause:
      'they went with dockershim in Kubernetes 1.24: kubelet ends with "unknown flag"; before, they did nothing here',
    cure: 'remove them: the runtime has these directories in its own settings',
  },
} as const satisfies CheckTexts
