// SPDX-License-Identifier: Apache-2.0
// Looks at the runtimes and kubelet of this node.

import { readdirSync } from 'node:fs'
import { deadKubeletFlags } from '../../node/kubelet-flags.ts'
import { nodeRuntimes } from '../../node/runtime-directories.ts'
import { processesOf } from '../../node/runtime-processes.ts'
import { defaultConfDir } from '../../node/runtime-settings.ts'
import { extensionOf } from '../directory/predict.ts'
import type { NodeView } from './runtime-findings.ts'

/** What there is. */
export async function lookAtNode(): Promise<NodeView> {
  const runtimes = await nodeRuntimes()
  return { runtimes, flags: deadKubeletFlags(), hasKubelet: processesOf(['kubelet']).length > 0 }
}

/** The usual directory, where it has configurations besides those of podman and nerdctl, which read it themselves. */
export function usualDirectory(): string | undefined {
  try {
    const names = readdirSync(defaultConfDir).filter((name) => ['.conf', '.conflist'].includes(extensionOf(name)))
    return names.some((name) => !/podman|nerdctl/.test(name)) ? defaultConfDir : undefined
  } catch {
    return undefined
  }
}
