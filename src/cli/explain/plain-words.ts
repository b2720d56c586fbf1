// SPDX-License-Identifier: Apache-2.0
// What was to be done, and how it failed, in whatever words a program puts the two. Looked for only where nothing is
// known by words of its own.

import type { KnownError } from './known/known-error.ts'

/** `id`: the known error that is meant. */
interface PlainWords {
  readonly id: KnownError['id']
  readonly pattern: RegExp
}

/** As much as may stand between two words of one clause: no end of a sentence. */
const near = '(?:(?!\\. )[^\\n]){0,120}?'
const link =
  '(?:veth\\w{0,12}|bridge|vxlan|geneve|interface|link|device|netdev|vlan|macvlan|ipvlan|macvtap|dummy|tunl0|cbr0|cni0)'
const creating = '(?:creat(?:e|ed|ing)|add(?:ed|ing)?|instantiat(?:e|ing)|renam(?:e|ing)|LinkAdd)'
const ipv6 = '\\b[\\da-f]{1,4}:[\\da-f:]{0,30}:[\\da-f/:]{0,30}'
const unanswered =
  '(?:connection refused|no route to host|(?:i/o|handshake) timeout|deadline exceeded|unreachable|timed out)'

/** The first that a text has counts. */
export const plainWords: readonly PlainWords[] = [
  {
    id: 'plugin-panic',
    pattern: /\bpanic: (?:runtime error|assignment to|close of|send on)|goroutine \d+ \[running\]/,
  },
  clause('sysctl-refused', '(?:/proc/sys/|\\bsysctl\\b)', '(?:read-only file system|permission denied)'),
  clause('ipv6-disabled', '\\badd(?:ing|ress(?:es)?)?\\b', ipv6, 'permission denied'),
  clause('ipv6-disabled', '\\b(?:set|add)(?:ting|ing)? (?:IP )?address(?:es)?\\b', 'permission denied'),
  clause('interface-exists', `\\b${creating}\\b`, `\\b${link}\\b`, 'file exists'),
  clause('link-gone', `\\b${link}\\b`, '(?:link not found|device does not exist|cannot find device)'),
  clause(
    'link-busy',
    '\\brenam(?:e|ing)\\b',
    '\\b(?:veth\\w{0,12}|interface|link|device)\\b',
    'device or resource busy',
  ),
  clause('kernel-module', `\\b${creating}\\b`, `\\b${link}\\b`, '(?:operation|protocol) not supported'),
  clause('netlink-permission', `\\b(?:${link}|address|routes?|netlink|RTNETLINK)\\b`, 'operation not permitted'),
  clause('netns-gone', '(?:/proc/\\d{1,9}/ns/net\\b|network namespace|/run/netns/)', 'no such file or directory'),
  clause('namespace-refused', '\\b(?:net(?:work)? ?(?:ns|namespace)|setns)\\b', 'operation not permitted'),
  clause('route-refused', '\\badd(?:ing)?\\b', '\\broutes?\\b', 'network (?:is )?unreachable'),
  clause('etcd-unreachable', '(?:\\betcd (?:client|cluster|server|endpoint|member)|:2379\\b|:4001\\b)', unanswered),
  clause('etcd-unreachable', unanswered, ':(?:2379|4001)\\b'),
  clause(
    'api-unreachable',
    '(?:https?://\\S{1,80}/(?:apis?|version|healthz|livez)\\b|\\bAPI ?server\\b|:6443\\b)',
    unanswered,
  ),
  {
    id: 'api-forbidden',
    pattern: /\b(?:User|system:serviceaccount:)[^\n]{0,200} cannot \w{1,12} resource|\bRBAC DENY\b/,
  },
  clause('agent-port-taken', '\\b(?:listen|bind)\\b', ':\\d{2,5}\\b', 'address already in use'),
  clause('ipset-refused', '\\bipset\\b', '(?:exit status \\d|kernel error)'),
  clause('bpf-refused', '\\be?(?:BPF|XDP)\\b', '(?:not permitted|resource busy|bad file descriptor|invalid argument)'),
]

/** These words in this order, each at most a clause behind the one before. */
function clause(id: string, ...words: readonly string[]): PlainWords {
  return { id, pattern: new RegExp(words.join(near)) }
}
