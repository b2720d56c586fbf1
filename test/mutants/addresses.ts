// SPDX-License-Identifier: Apache-2.0
// An address has one holder, and none is given out that the node, its router, upstream's pods or another network has. A
// freed address is given out last of all. STATUS counts as free what an ADD can reclaim.

import { readFileSync } from 'node:fs'
import type { Mutant } from './mutant.ts'

const overlap = 'test/netns/ipam/range-overlap.test.ts'
const livePods = 'test/netns/ipam/range-live-pods.test.ts'
const pool = 'test/netns/ipam/pool.test.ts'

export const mutants: readonly Mutant[] = [
  {
    name: 'the first ADD of a network with an overlap only warns',
    module: 'src/plan/ipam/range-overlap.ts',
    wraps: 'judgeRanges',
    by: (original) => (asked, key, sight) => {
      const verdict = original(asked, key, sight)
      const isFirst = asked.pods.every((pod) => pod.key.network !== asked.network.name)
      return isFirst ? { ...verdict, refused: undefined } : verdict
    },
    caughtBy: { file: overlap, test: 'is refused before anything is made' },
  },
  {
    name: 'a network with a live pod takes any range',
    module: 'src/plan/ipam/range-overlap.ts',
    wraps: 'judgeRanges',
    by: (original) => (asked, key, sight) => {
      const verdict = original(asked, key, sight)
      const isFirst = asked.pods.every((pod) => pod.key.network !== asked.network.name)
      return isFirst ? verdict : { ...verdict, refused: undefined }
    },
    caughtBy: { file: livePods, test: 'is refused a new range that an interface or another network has' },
  },
  {
    name: 'an address of another network is given out again',
    module: 'src/system/ipam/ipam.ts',
    wraps: 'ownLease',
    by: (original) => (request) => original({ ...request, elsewhere: () => undefined }),
    caughtBy: { file: livePods, test: 'of two networks with one range, or of a renamed one' },
  },
  {
    name: 'the address of another interface is left out for the first pod only',
    module: 'src/commands/attach/range-overlap.ts',
    wraps: 'requireApart',
    by: (original) => async (context, conf, about) => {
      const ranges = await original(context, conf, about)
      return about.known === undefined ? ranges : { ...ranges, excluded: [] }
    },
    caughtBy: { file: overlap, test: 'is given to no pod, then and later, and counts in STATUS' },
  },
  {
    name: 'a gateway by hand goes when no pod has it',
    module: 'src/plan/ipam/bridge-addresses.ts',
    wraps: 'gatewaysOver',
    by: (original) => (bridge, facts) => {
      const there = facts.host.links.get(bridge.name)?.addresses ?? []
      const formerGateways = there.map((address) => ({ bridge: bridge.name, address }))
      return original(bridge, { ...facts, networks: facts.networks.map((each) => ({ ...each, formerGateways })) })
    },
    caughtBy: { file: 'test/netns/ipam/config-edited.test.ts', test: 'families swapped and swapped again' },
  },
  {
    name: 'a gateway goes that a pod still has',
    module: 'src/plan/ipam/bridge-addresses.ts',
    wraps: 'gatewaysOver',
    by: (original) => (bridge, facts) =>
      original(bridge, { ...facts, pods: facts.pods.map(({ made: _, ...pod }) => ({ ...pod, ips: [] })) }),
    caughtBy: { file: 'test/netns/ipam/config-edited.test.ts', test: 'families swapped and swapped again' },
  },
  {
    name: 'the pool begins again where ranges change places',
    module: 'src/system/store/addresses.ts',
    wraps: 'roundRobin',
    by: (original) => (files, set) => {
      const found = original(files, set)
      const isInPlace =
        found.last !== undefined && readFileSync(`${files.directory}/last.${set.index}`, 'utf8').trim() === found.last
      return isInPlace ? found : { ...found, last: undefined }
    },
    caughtBy: { file: pool, test: 'also where ranges have changed places, gone and come back' },
  },
  {
    name: 'the pool is tried from its start each time: an address that was just freed is given out again',
    module: 'src/plan/ipam/allocate.ts',
    wraps: 'candidates',
    by: (original) => (set, _, exclude) => original(set, undefined, exclude),
    caughtBy: {
      file: 'test/unit/plan/ipam/allocate.test.ts',
      test: 'a freed address is not given out again before the pool has gone around',
    },
  },
  {
    name: 'the gateways of a range set can be given to pods',
    module: 'src/plan/ipam/allocate.ts',
    wraps: 'candidates',
    by: (original) => (set, last, exclude) =>
      original(
        set.map((range) => ({ ...range, gateway: '255.255.255.255' })),
        last,
        exclude,
      ),
    caughtBy: {
      file: 'test/unit/plan/ipam/allocate.property.test.ts',
      test: 'tries each usable address once and nothing else',
    },
  },
  {
    name: 'a freed address has no cooldown',
    module: 'src/system/store/addresses.ts',
    wraps: 'takenAddresses',
    by: (original) => (files, _, names) => original(files, 0, names),
    caughtBy: { file: pool, test: 'a cooldown keeps a freed address back' },
  },
  {
    name: 'a name that link(2) finds taken counts as ours',
    module: 'src/system/files/files.ts',
    wraps: 'linkOnce',
    by: (original) => (existing, path) => original(existing, path) || true,
    caughtBy: { file: pool, test: 'that a live pod holds is refused, naming the pod' },
  },
  {
    name: 'an address that somebody else has is ours too',
    module: 'src/system/store/addresses.ts',
    wraps: 'reserveAddress',
    by: (original) => (files, intentFile, address) => original(files, intentFile, address) || true,
    caughtBy: { file: pool, test: 'that a live pod holds is refused, naming the pod' },
  },
  {
    name: 'addresses of upstream’s pods are free',
    module: 'src/system/upstream/host-local-leases.ts',
    wraps: 'upstreamAddresses',
    by: () => () => [],
    caughtBy: { file: 'test/netns/ipam/upstream-leases.test.ts', test: 'are not given out, nor by request' },
  },
  {
    name: 'a request may have an address of upstream’s pods',
    module: 'src/system/ipam/ipam.ts',
    wraps: 'ownLease',
    by: (original) => (request) => {
      const { ipam } = request.conf
      if (ipam.kind !== 'pool' || ipam.requested.length === 0) return original(request)
      return original({ ...request, conf: { ...request.conf, ipam: { ...ipam, dataDir: '/nonexistent' } } })
    },
    caughtBy: { file: 'test/netns/ipam/upstream-leases.test.ts', test: 'are not given out, nor by request' },
  },
  {
    name: 'STATUS counts addresses of dead pods as used',
    module: 'src/commands/teardown/attachments.ts',
    wraps: 'isDead',
    by: (original) => (stored, context) => process.env['CNI_COMMAND'] !== 'STATUS' && original(stored, context),
    caughtBy: { file: pool, test: 'does take back what a restart of the machine ended' },
  },
  {
    name: 'a full pool is ready',
    module: 'src/plan/ipam/allocate.ts',
    wraps: 'capacity',
    by: (original) => (set, exclude) => {
      const isStatus = process.env['CNI_COMMAND'] === 'STATUS'
      return original(set, exclude) + (isStatus ? 1n : 0n)
    },
    caughtBy: { file: pool, test: 'that is full of live pods refuses ADD with 101 and STATUS with 50' },
  },
  {
    name: 'a path that is no namespace here counts as gone',
    module: 'src/system/kernel/netns.ts',
    wraps: 'netnsState',
    by: (original) => (identity) => {
      const state = original(identity)
      return state === 'unknown' ? 'gone' : state
    },
    caughtBy: { file: pool, test: 'does not take back what a pod holds whose namespace path is no namespace here' },
  },
  {
    name: 'what an earlier boot left holds its address for ever',
    module: 'src/commands/teardown/attachments.ts',
    wraps: 'isDead',
    by: (original) => (stored, context) =>
      original(stored, context) && stored.record.writer.bootId === context.identity.bootId,
    caughtBy: { file: pool, test: 'does take back what a restart of the machine ended' },
  },
]
