// SPDX-License-Identifier: Apache-2.0
// Rules of nft: what they match, who stands in their sets, and how they are said. No word from outside can be read as
// something else by a tool, and a transaction says nothing about what others put there meanwhile.

import type { Mutant } from './mutant.ts'

const nft = 'test/unit/tools/nft.test.ts'
const conditions = 'test/netns/ports/port-conditions.test.ts'
const masquerade = 'test/unit/features/masquerade.property.test.ts'

export const mutants: readonly Mutant[] = [
  {
    name: 'everybody within the subnet is masqueraded, bridged packets included',
    module: 'src/tools/nft.ts',
    wraps: 'nftText',
    by: (original) => (op, kernel) =>
      original(op, kernel).replace('@hairpin4 iifname . oifname @hairpinlink', '@hairpin4'),
    caughtBy: { file: 'test/netns/ports/service-clients.test.ts', test: 'on a bridge, bridge-nf-call-iptables' },
  },
  {
    name: 'a pod on a bridge does not reach itself by its host port',
    module: 'src/drivers/specs.ts',
    wraps: 'buildSpec',
    by: (original) => (input) => {
      const spec = original(input)
      return spec.port === undefined ? spec : { ...spec, selfHairpin: false }
    },
    caughtBy: { file: 'test/unit/features/hairpin.test.ts', test: 'has host ports' },
  },
  {
    name: 'packets to ::1 are looked up among the host ports',
    module: 'src/model/tables.ts',
    wraps: 'declarationsOf',
    by: (original) => (table, mark) => {
      const { sets, chains } = original(table, mark)
      return {
        sets,
        chains: chains.map((each) => ({ ...each, rules: each.rules.filter(({ name }) => name !== 'loopback6') })),
      }
    },
    caughtBy: { file: 'test/netns/ports/host-ports.test.ts', test: 'leave ::1 to the node' },
  },
  {
    name: 'a process of the node on ::1 keeps a pod from its host port',
    module: 'src/system/kernel/listening.ts',
    wraps: 'listensOn',
    by: (original) => (listener, port) =>
      original(listener.address === '::1' ? { ...listener, address: '::' } : listener, port),
    caughtBy: { file: 'test/netns/ports/on-listening.test.ts', test: 'on ::1, which no host port takes' },
  },
  {
    name: 'the accept goes before a conditional drop of the administrator',
    module: 'src/features/accept-place.ts',
    wraps: 'searchSpot',
    by: (original) => (listing, base, mark) => {
      const chains = [...listing.chains].map(([name, rules]) => {
        const all = rules?.map((rule) => (rule.act === 'drop' ? { ...rule, isUnconditional: true } : rule))
        return [name, all] as const
      })
      return original({ ...listing, chains: new Map(chains) }, base, mark)
    },
    caughtBy: { file: 'test/unit/features/accept-place.test.ts', test: 'is behind drops that are named' },
  },
  {
    name: 'whoever is in nonMasqueradeCIDRs or acceptFrom gets new connections with established too',
    module: 'src/features/firewall.ts',
    wraps: 'acceptOf',
    by: (original) => (conf, whose, subnets) => {
      const { firewall } = conf
      const isEstablished = firewall?.hostAccept === 'established'
      const as = isEstablished ? { ...conf, firewall: { ...firewall, hostAccept: 'auto' as const } } : conf
      return original(as, whose, subnets)
    },
    caughtBy: { file: 'test/unit/features/host-accept.test.ts', test: 'is no new connection with established' },
  },
  {
    name: 'a packet that comes with the bit set is let in',
    module: 'src/model/tables.ts',
    wraps: 'declarationsOf',
    by: (original) => (table, mark) => {
      const { sets, chains } = original(table, mark)
      return {
        sets,
        chains: chains.map((each) => ({ ...each, rules: each.rules.filter(({ name }) => name !== 'admit-clear') })),
      }
    },
    caughtBy: { file: 'test/netns/firewall/host-accept-place.test.ts', test: 'is not taken from others' },
  },
  {
    name: 'a flushed rule is not missed',
    module: 'src/model/tables.ts',
    wraps: 'isBaseComplete',
    by:
      () =>
      ({ isDormant }) =>
        !isDormant,
    caughtBy: { file: 'test/netns/firewall/flushed.test.ts', test: 'brings six pods back when' },
  },
  {
    name: 'a chain stays when its last pod goes',
    module: 'src/commands/teardown/remove-attachment.ts',
    wraps: 'removeAttachment',
    by: (original) => (port, removal, hasPod) => {
      const lookAtPresent: typeof port.lookAtPresent = (...args) => ({ ...port.lookAtPresent(...args), unused: [] })
      return original({ ...port, lookAtPresent }, removal, hasPod)
    },
    caughtBy: { file: conditions, test: 'that go with the last pod of theirs, and leave the table as it was' },
  },
  {
    name: 'a chain stays where the record of its pod is lost',
    module: 'src/features/port-conditions.ts',
    wraps: 'chainsBehind',
    by: () => () => [],
    caughtBy: { file: conditions, test: 'that go where the record is lost' },
  },
  {
    name: 'a port of one address and of any are no conflict',
    module: 'src/features/host-ports.ts',
    wraps: 'isPortConflict',
    by: () => (a, b) => a === b,
    caughtBy: { file: 'test/unit/features/host-port-elements.test.ts', test: 'isPortConflict' },
  },
  {
    name: 'a mapping of 0.0.0.0 is one of that address',
    module: 'src/features/host-ports.ts',
    wraps: 'hostPortsOf',
    by: (original) => (mapping, ips) => {
      const { hostIP } = mapping
      return original(mapping, ips).map((port) => (hostIP === undefined ? port : { ...port, hostIp: hostIP }))
    },
    caughtBy: { file: 'test/unit/features/host-ports.test.ts', test: 'IPv4 everywhere for 0.0.0.0' },
  },
  {
    name: 'a subnet inside another one’s is an element of its own',
    module: 'src/features/masquerade.ts',
    wraps: 'subnetElements',
    by: (original) => (name, subnets) => subnets.flatMap((subnet) => original(name, [subnet])),
    caughtBy: { file: masquerade, test: 'gives disjoint elements in every set' },
  },
  {
    name: 'the first network’s exceptions are all',
    module: 'src/features/masquerade.ts',
    wraps: 'masqueradeElements',
    by: (original) => (networks) =>
      original(
        networks.map((each, at) => {
          const { masquerade: rule } = each
          return at === 0 || rule === undefined ? each : { ...each, masquerade: { ...rule, noMasquerade: [] } }
        }),
      ),
    caughtBy: { file: masquerade, test: 'covers exactly the sources and pairs of the networks' },
  },
  {
    name: 'what is gone already fails the whole transaction',
    module: 'src/tools/nft.ts',
    wraps: 'nftText',
    by: (original) => (op, kernel) => {
      const text = original(op, kernel)
      return op.kind === 'nft.del' ? text.slice(text.indexOf('\n') + 1) : text
    },
    caughtBy: { file: nft, test: 'are deleted by key, after they are there for certain' },
  },
  {
    name: 'a base that is said again empties its sets',
    module: 'src/tools/nft.ts',
    wraps: 'nftText',
    by: (original) => (op, kernel) =>
      original(op, kernel).replace(/^add (set|map) (\S+ \S+ \S+) .*$/gm, '$&\nflush $1 $2'),
    caughtBy: { file: nft, test: 'of table %s adds, and flushes its own chains only' },
  },
  {
    name: 'a comment sign reaches a batch',
    module: 'src/tools/batches.ts',
    wraps: 'toBatchLine',
    by: (original) => (words) => words.map((word) => (word.includes('#') ? `"${word}"` : original([word]))).join(' '),
    caughtBy: {
      file: 'test/unit/tools/batch-line.property.test.ts',
      test: 'is read back by iproute2 as the same words, or refuses them',
    },
  },
  {
    name: 'a pattern reaches an nft set',
    module: 'src/tools/nft.ts',
    wraps: 'nftText',
    by: (original) => (op, kernel) => {
      if (op.kind !== 'nft.add') return original(op, kernel)
      const key = op.key.map((field) => field.replace(/\*$/, 'STAR'))
      return original({ ...op, key }, kernel).replaceAll('STAR', '*')
    },
    caughtBy: { file: nft, test: 'are refused when they are not plain: %j' },
  },
  {
    name: 'a commit is believed before its line is whole',
    module: 'src/tools/nft.ts',
    wraps: 'isCommitted',
    by: (original) => (stdout) => original(`${stdout} ()\n`),
    caughtBy: {
      file: 'test/unit/tools/read-nft.test.ts',
      test: 'reads the generation that nft tells, to the end of its line',
    },
  },
]
