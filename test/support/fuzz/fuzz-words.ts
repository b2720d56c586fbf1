// SPDX-License-Identifier: Apache-2.0
// What changed calls are filled with: words and JSON texts, plausible and hostile.

/** Words that would mean something to a shell, a batch of ip, nft, sysctl, the kernel or a file system. */
export const hostileWords: readonly string[] = [
  ...[
    '',
    ' ',
    '\n',
    'a\nlink del lo',
    'a\u0000b',
    'a\rb',
    'a\\\nb',
    'a\\',
    '%d',
    'a%b',
    'a#b',
    '#',
    '"',
    "'",
    'a"b\'c',
  ],
  ...[
    'a;b',
    '{}',
    '} ; flush ruleset ; {',
    '$(id)',
    '`id`',
    '../../x',
    '/',
    '/etc/passwd',
    '.',
    '..',
    '-help',
    '--',
    '-1',
  ],
  ...[
    '\u202e',
    '\u0085',
    '\ufeffx',
    '\u{1f4a5}',
    '\ud800',
    'a b',
    'x x'.repeat(2000),
    'y'.repeat(70_000),
    'all',
    'default',
    '*',
    'a*',
    'a+',
  ],
  ...[
    '@x',
    '!x',
    '10.0.0.1;flush',
    '10.0.0.0/24 }',
    '10.0.0.0/08',
    '10.0.0.300',
    '0x7f.1',
    '::ffff:10.0.0.1',
    '::/0',
    'fe80::1%eth0',
  ],
  ...[
    'net.ipv4.conf.all/../../../kernel/core_pattern',
    'kernel.core_pattern',
    'net/../kernel/x',
    'trestle:x',
    '__proto__',
    'constructor',
  ],
]

/** Words that a configuration may well hold. */
export const plausibleWords: readonly string[] = (
  '10.0.0.0/24 10.240.0.0/24 10.9.0.7 10.0.0.1 fd00::/64 fd00::1 0.0.0.0/0 10.250.0.9/24 02:00:00:00:00:01 1.1.0 1.0.0 0.4.0 ' +
  '0.3.1 0.2.0 0.1.0 trestle host-local static dhcp tcp UDP sctp eth0 br-x cni0 auto off bridge ptp chained loopback open ' +
  'same-bridge isolated refuse ip saddr != == ct state new { } , iifname oifname meta mark 0x10 net.core.somaxconn net.ipv4.conf.IFNAME.x'
).split(' ')

/** Numbers at the edges of types and of JSON. */
export const numbers: readonly string[] =
  '0 1 -1 -0 1.5 68 80 255 256 4094 4095 65535 65536 2147483647 4294967295 4294967296 9007199254740993 18446744073709551616 1e308 1e999 -1e999 1E2 1e-400'.split(
    ' ',
  )

/** Other JSON values, and texts that are none. */
export const odd: readonly string[] =
  'null true false {} [] [[]] [{}] [null] {"a":1} {"__proto__":{"polluted":1}} {"constructor":{"prototype":{"polluted":1}}} "" nul +1 01 NaN'.split(
    ' ',
  )
/** Lists and objects that are deeper than is read. */
export const nested: readonly string[] = [65, 5000].flatMap((depth) => [
  '['.repeat(depth) + ']'.repeat(depth),
  `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
])
