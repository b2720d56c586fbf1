// SPDX-License-Identifier: Apache-2.0
// trestle's own messages by their words. kubelet and containerd print `msg; details` of an error and not its code:
// these give the code back. A test holds them against every message of the sources.

/** Codes from here on are each plugin's own; those below are the specification's. */
export const codesOfOthers = 100

/** What the message of a code begins with or holds. */
export interface OwnMessage {
  readonly code: number
  readonly pattern: RegExp
  /** Nobody else says so: it counts in a text that does not name the plugin, too. */
  readonly isTelling: boolean
}

/** Codes whose messages nobody else prints. */
const telling: readonly number[] = [50, 103, 104, 106, 107, 109]

const messages: readonly (readonly [code: number, pattern: RegExp])[] = [
  [1, /incompatible CNI versions|(?:config|plugin) version does not allow|cniVersion \\?"[^"]*" is not supported/],
  [2, /unsupported value of \S+: /],
  [
    4,
    /unknown CNI_COMMAND|required env variables \[|cannot be passed to ip -batch|CNI_(?:IFNAME|NETNS) \S+ |CNI_(?:ARGS|CONTAINERID|IFNAME|NETNS|PATH): /,
  ],
  [
    5,
    /(?<!not ready: )the state directory \S+ cannot be used|cannot keep state: |error reading from stdin|stdin did not end in time|the configuration on stdin is longer than|cannot read ipam\.resolvConf|"trestle[^\n]*: cannot read \S|is no regular expression|cannot see network namespaces from here/,
  ],
  [6, /error unmarshall network config/],
  [
    7,
    /missing network name|invalid characters found in network name|no valid IP addresses|needs a prevResult|prevResult missing|could not parse prevResult|cannot be named in a rule|cannot be an nftables set element|cannot be a rule of host ports|Sysctl \S+ |requested address: invalid IP|loopback interface found with|the attachment is too large|is chained twice in its list|(?:bandwidth|ingressPolicy|portMappings): [^\n]*(?:has a qdisc already|veth|has no route)/,
  ],
  // `KEY: …` right behind the plugin's name, and `KEY: VALUE is not WHAT`: cni/model/invalid-config.ts.
  [7, /type=\\?"trestle[\w.-]*\\?"(?: name=\S+)? failed \(\w+\): [a-z][\w.[\]-]*: /],
  [
    7,
    /(?:^|[\s(])[a-zA-Z][\w.[\]-]*: \S.{0,90} is not (?:an? |one of|true or false|at (?:most|least)|the |below|between)/,
  ],
  [
    11,
    /another call is working on|did not finish in time|is held by |cannot write down what is owed|a killed call has started is still at work|cannot see the processes of a killed call/,
  ],
  [
    50,
    /(?:returns error|\(status\)): not ready: |not ready: (?:\S+ not found|nft \S+ is too old|CAP_\S+ |\S+, |no IP addr|the state dir|bridge \S+ has )/,
  ],
  [
    100,
    /cannot run \S+: (?:not.found|E[A-Z]+)|cannot look at the network with|cannot look for chains that drop|printed more than \d+ bytes|still has tentative addresses|is in use by another machine|the sandbox shows no lo|could not [^:\n]+: (?:E[A-Z]+|this kernel has no IPv6)|could not remove rules of the reference/,
  ],
  [101, /no IP addresses available in range set/],
  [
    102,
    /requested address(?!: invalid)|is reserved by|failed to allocate (?:all requested IPs|for range \d+: (?!no IP addresses))/,
  ],
  [103, /container \S+ already has \S+ on network/],
  [104, /host port \S+ .*is taken|is taken: a process of the node/],
  [
    105,
    /cannot find the IPAM plugin|the IPAM plugin \S+ (?:was ended|ended with|returned no|answered|[^\n]*without an error)|printed no error/,
  ],
  [106, /interrupted by a signal while/],
  [107, /is not as it was made/],
  [
    108,
    /already has an IP address different from|already exists but is not a bridge|was made without VLAN filtering|bridge \S+ is full/,
  ],
  [111, /is of another host network namespace/],
  [109, /rules of \S+ of container \S+ may be left/],
  [110, /the range \S+ overlaps \S+ of /],
  [999, /"trestle"[^\n]*internal error: /],
]

/** All messages, of the codes in their order. */
export const ownMessages: readonly OwnMessage[] = messages.map(([code, pattern]) => ({
  code,
  pattern,
  isTelling: telling.includes(code),
}))

/** How an `ip`, `nft` or `tc` that failed is quoted, where the message is the kernel's own word. */
export const failedCommand = /network namespace, input:\s/
