// SPDX-License-Identifier: Apache-2.0
// Flags of kubelet about CNI. They were Docker's (dockershim) and went with it in Kubernetes 1.24: kubelet then ends
// with "unknown flag"; before, with another runtime, they did nothing (kubernetes/kubernetes pull request 106907).

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { processesOf } from './runtime-processes.ts'

/** A dead flag. `where`: a file, or `kubelet (process PID)`. `isRunning`: a kubelet that was started with it. */
export interface DeadFlag {
  readonly flag: string
  readonly value: string
  readonly where: string
  readonly isRunning: boolean
}

const dead =
  /(?:^|[\s"'=])--(network-plugin-mtu|network-plugin|cni-conf-dir|cni-bin-dir|cni-cache-dir)(?:[=\s]+([^\s"'\\-][^\s"'\\]*))?/g

/** Where kubeadm, packages and people put flags of kubelet; k3s passes its own on with --kubelet-arg. */
const files = ['/var/lib/kubelet/kubeadm-flags.env', '/etc/default/kubelet', '/etc/sysconfig/kubelet']
const units = ['kubelet.service', 'kubelet.service.d', 'k3s.service', 'k3s-agent.service']
const unitDirectories = ['/etc/systemd/system', '/usr/lib/systemd/system']

/** The dead flags of this node's kubelet, each once a place. `root`: what paths of files begin with. */
export function deadKubeletFlags({ root = '', proc = '/proc' } = {}): readonly DeadFlag[] {
  const running = processesOf(['kubelet'], proc).flatMap(({ pid, args }) =>
    flagsIn(args.join(' '), `kubelet (process ${pid})`, true),
  )
  const places = [...files, ...unitDirectories.flatMap((directory) => units.map((name) => join(directory, name)))]
  const written = places
    .flatMap((place) => textsAt(join(root, place)))
    .flatMap(({ file, text }) => {
      return flagsIn(text.replace(/^\s*[#;].*$/gm, ''), file.slice(root.length), false)
    })
  return [...running, ...written]
}

function flagsIn(text: string, where: string, isRunning: boolean): readonly DeadFlag[] {
  return [...text.matchAll(dead)].map(([, flag = '', value = '']) => ({ flag: `--${flag}`, value, where, isRunning }))
}

/** A file, or the files of a directory. What is not there or cannot be read has no flags. */
function textsAt(path: string): readonly { readonly file: string; readonly text: string }[] {
  try {
    return [{ file: path, text: readFileSync(path, 'utf8') }]
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EISDIR') return []
    return readdirSync(path)
      .filter((name) => name.endsWith('.conf'))
      .flatMap((name) => textsAt(join(path, name)))
  }
}
