// SPDX-License-Identifier: Apache-2.0
// Runs before the bundle while its start-up snapshot is made, so that the same bundle gives the same bytes: the warm-up sees a
// node that is always the same, and what depends on the machine and the moment is set to fixed values right before the heap
// is written. Node sets it again when it starts. Needs --expose-internals.
{
  const fs = require('node:fs')
  const v8 = require('node:v8')
  const { internalBinding } = require('internal/test/binding')
  const { readFileSync, readdirSync } = fs
  const os = internalBinding('os')
  const { getOSInformation } = os
  os.getOSInformation = () => ['Linux', '', '6.1.0', 'x86_64']
  // A node with one link, eth0, with a default route and both families.
  const files = new Map([
    ['/etc/machine-id', `${'0'.repeat(32)}\n`],
    ['/proc/net/route', 'Iface\tDestination\tGateway\neth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n'],
    ['/proc/self/net/fib_trie', 'Local:\n  +-- 0.0.0.0/0 3 0 5\n        |-- 192.0.2.2\n           /32 host LOCAL\n'],
    ['/proc/self/net/if_inet6', `20010db8${'0'.repeat(23)}2 02 40 00 80     eth0\n`],
    ['/proc/sys/kernel/osrelease', '6.1.0\n'],
    ['/proc/sys/net/ipv4/ip_forward', '1\n'],
    ['/proc/sys/net/ipv6/conf/all/forwarding', '1\n'],
    ['/proc/sys/net/ipv6/conf/eth0/mtu', '1500\n'],
  ])
  fs.readFileSync = (file, ...how) => files.get(file) ?? readFileSync(file, ...how)
  fs.readdirSync = (directory, ...how) =>
    directory === '/proc/sys/net/ipv4/conf' ? ['all', 'default', 'eth0', 'lo'] : readdirSync(directory, ...how)
  v8.startupSnapshot.addSerializeCallback(() => {
    Object.assign(fs, { readFileSync, readdirSync })
    Object.assign(os, { getOSInformation })
    // What the last file was like, the time, the process's id, how many asynchronous things there were.
    const { statValues, bigintStatValues, statFsValues, bigintStatFsValues } = internalBinding('fs')
    for (const values of [statValues, statFsValues]) values.fill(0)
    for (const values of [bigintStatValues, bigintStatFsValues]) values.fill(0n)
    internalBinding('process_methods').hrtimeBuffer.fill(0)
    internalBinding('performance').milestones.fill(0)
    Object.defineProperty(process, 'pid', { value: 1 })
    const { async_id_fields: ids, constants } = internalBinding('async_wrap')
    ids[constants.kAsyncIdCounter] = 10_000
    // Small buffers are cut from a large one, which has this machine's boot id: the next large one begins, with zeros.
    let buffer
    do buffer = Buffer.allocUnsafe(8)
    while (buffer.byteOffset > 0)
    new Uint8Array(buffer.buffer).fill(0)
    // RegExp.$1 and the like: where the groups were of the last match that had so many.
    new RegExp('()'.repeat(32)).exec('')
    // V8 writes its table of strings in the order of their places, and a string that was there for a moment, such as a
    // process's number, moves others. In a table far too large every string has the place that its hash says.
    const names = {}
    for (let count = 0; count < 2 ** 18; count++) names[`name ${count}`] = 0
  })
}
