// SPDX-License-Identifier: Apache-2.0
// The pod's interface and namespace: names and MACs that derive from the attachment or the pod's address, settings that
// the administrator alone allows, and no namespace but a pod's.

import { fstatSync, openSync } from 'node:fs'
import type { CniError } from '../../src-before/cni/error.ts'
import type { OpenNetns } from '../../src-before/system/kernel/netns.ts'
import type { Mutant } from './mutant.ts'

const names = 'test/unit/model/names.property.test.ts'
const attachments = 'test/netns/interface/attachments.test.ts'

/** Opens what `original` refuses with a message that has `words`. */
function openedThough(words: string, original: (path: string) => OpenNetns): (path: string) => OpenNetns {
  return (path) => {
    try {
      return original(path)
    } catch (error) {
      if (!(error as Error).message.includes(words)) throw error
      const fd = openSync(path, 'r')
      return { fd, identity: { path, inode: fstatSync(fd).ino } }
    }
  }
}

export const mutants: readonly Mutant[] = [
  {
    name: 'an ifb is made without the alias that says whose it is',
    module: 'src/features/bandwidth.ts',
    wraps: 'ifbOps',
    by: (original) => (spec) => original(spec).filter(({ kind }) => kind !== 'link.alias'),
    caughtBy: { file: 'test/unit/features/bandwidth.test.ts', test: 'make the ifb only where it is used' },
  },
  {
    name: 'parts of a key run together',
    module: 'src/model/names.ts',
    wraps: 'hostLinkName',
    by: (original) => (key) => {
      const network = key.network + key.containerId + key.ifName
      return original({ ...key, network, containerId: '', ifName: '' })
    },
    caughtBy: { file: names, test: 'of different attachments are different, also where the parts run together' },
  },
  {
    name: 'a MAC may be a manufacturer’s',
    module: 'src/model/names.ts',
    wraps: 'hostLinkMac',
    by: (original) => (key) => {
      const [first = '', ...others] = original(key).split(':')
      const manufacturers = Number.parseInt(first, 16) & 0xfc
      return [manufacturers.toString(16).padStart(2, '0'), ...others].join(':')
    },
    caughtBy: { file: names, test: 'are locally administered and unicast' },
  },
  {
    name: 'a pod’s MAC follows the attachment, not the address',
    module: 'src/model/names.ts',
    wraps: 'podLinkMac',
    by: (original) => (key) => original(key, undefined),
    caughtBy: { file: names, test: 'of pods follow an IPv4 address one to one' },
  },
  {
    name: 'a macvlan is torn down by the name that it was to have',
    module: 'src/drivers/attach.ts',
    wraps: 'podTeardownOps',
    by: (original) => (spec) => {
      const { ifName } = spec.key
      const removal = { in: 'pod', kind: 'link.del', dev: ifName, why: `remove ${ifName} from the pod` } as const
      return spec.macvlan === undefined ? original(spec) : [removal]
    },
    caughtBy: {
      file: 'test/netns/interface/macvlan.test.ts',
      test: 'a name that the pod has, and that one stays',
    },
  },
  {
    name: 'a passthru has a MAC of its own in result and record',
    module: 'src/drivers/specs.ts',
    wraps: 'buildSpec',
    by: (original) => (input) => {
      const spec = original(input)
      if (spec.macvlan?.mode !== 'passthru' || spec.pod === undefined) return spec
      return { ...spec, pod: { ...spec.pod, mac: '0a:58:0a:01:00:02' } }
    },
    caughtBy: { file: 'test/unit/drivers/macvlan.test.ts', test: 'is not put on Wi-Fi, but for passthru' },
  },
  {
    name: 'a bridge that is made anew gets no port back',
    module: 'src/drivers/bridge.ts',
    wraps: 'portOps',
    by: () => () => [],
    caughtBy: {
      file: 'test/netns/processes/races-network.test.ts',
      test: 'a bridge is made anew though a pod of it goes meanwhile',
    },
  },
  {
    name: 'args.cni switches tuning on where nobody configured it',
    module: 'src/features/tuning.ts',
    wraps: 'withoutUnreadArgs',
    by: (original) => (root) =>
      root['tuning'] === undefined && root['args'] !== undefined ? { ...root, tuning: {} } : original(root),
    caughtBy: {
      file: 'test/netns/chained/args-cni.test.ts',
      test: 'changes no sysctl and no link setting without a tuning key',
    },
  },
  {
    name: 'an empty tuning key does not switch args.cni on',
    module: 'src/features/tuning.ts',
    wraps: 'readTuning',
    by: (original) => (raw, invocation, stdin) =>
      Object.keys(raw.tuning ?? {}).length === 0 ? undefined : original(raw, invocation, stdin),
    caughtBy: { file: 'test/unit/config/config-features.test.ts', test: 'tuning' },
  },
  {
    name: 'the second chained entry of a list is told that the container has had its ADD',
    module: 'src/commands/attach/intent.ts',
    wraps: 'intentFor',
    by: (original) => async (addition, netns) =>
      await original(addition, netns).catch((error: CniError) => {
        if (error.id !== 'chained-twice') throw error
        throw new (error.constructor as typeof CniError)('already-attached', 'the container has had its ADD')
      }),
    caughtBy: {
      file: 'test/netns/chained/chained-twice.test.ts',
      test: 'is refused with the cure, and the pod can be deleted',
    },
  },
  {
    name: 'the namespace that trestle runs in is a pod’s',
    module: 'src/system/kernel/netns.ts',
    wraps: 'openNetns',
    by: (original) => openedThough('trestle itself runs in', original),
    caughtBy: {
      file: attachments,
      test: 'into its own namespace is refused with code 4, whatever the path, and touches nothing',
    },
  },
  {
    name: 'a namespace of another kind is taken for one of the network',
    module: 'src/system/kernel/netns.ts',
    wraps: 'openNetns',
    by: (original) => openedThough('is not a network namespace file', original),
    caughtBy: {
      file: attachments,
      test: 'into what is no network namespace is refused with code 4 and touches nothing',
    },
  },
]
