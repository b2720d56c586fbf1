// SPDX-License-Identifier: Apache-2.0
// The counts of test/netns/processes/budgets.test.ts, on a log as strace writes it.

import { describe, expect, it } from 'vitest'
import { budgetOf, openedAgain, readStrace } from '../support/budgets.ts'

const log = `10    execve("/opt/cni/bin/trestle", ["trestle"], 0x7ffd /* 9 vars */) = 0
10    clone3({flags=CLONE_VM|CLONE_FS|CLONE_THREAD, child_tid=0x7f}, 88) = 11
10    openat(AT_FDCWD, "/run/trestle/networks/net/network.json", O_RDONLY|O_NONBLOCK|O_NOFOLLOW) = 17
10    openat(AT_FDCWD, "/run/trestle/none", O_RDONLY) = -1 ENOENT (No such file or directory)
10    openat(AT_FDCWD, "/run/trestle/networks/net/.1.2.3", O_WRONLY|O_CREAT|O_EXCL, 0600) = 17
10    rename("/run/trestle/networks/net/.1.2.3", "/run/trestle/networks/net/record") = 0
10    unlink("/run/trestle/gone") = -1 ENOENT (No such file or directory)
10    clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD <unfinished ...>
12    execve("/usr/sbin/ip", ["ip"], 0x47 /* 2 vars */) = -1 ENOENT (No such file or directory)
12    execve("/usr/bin/ip", ["ip"], 0x47 /* 2 vars */ <unfinished ...>
10    <... clone resumed>, child_tidptr=0x7f) = 12
12    <... execve resumed>)             = 0
12    openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3
10    statx(AT_FDCWD, "/sys/class/net/veth1", AT_STATX_SYNC_AS_STAT, STATX_ALL, {}) = 0
10    statx(AT_FDCWD, "/sys/class/net/veth1", AT_STATX_SYNC_AS_STAT, STATX_ALL, {}) = 0
10    socketpair(AF_UNIX, SOCK_STREAM, 0, [18, 19]) = 0
10    futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 1
10    epoll_pwait(13, [], 1024, 0, NULL, 8) = 0
10    +++ exited with 0 +++
`

describe('a log of strace', () => {
  it('is counted by what was done, on the main thread and in the whole tree', () => {
    expect(readStrace(log)).toEqual({
      processes: 1,
      programs: 2,
      forks: 1,
      opened: 2,
      written: 1,
      renamed: 1,
      // Two execve of others are not of the main thread; a look that is repeated is one.
      others: ['execve', 'statx', 'socketpair'].length,
    })
  })

  it('counts neither what load decides nor threads', () => {
    const more = log.replace(
      '10    +++',
      '10    futex(0x7f, FUTEX_WAIT_PRIVATE, 1) = 0\n10    read(13, "", 8) = 8\n10    +++',
    )
    expect(readStrace(more)).toEqual(readStrace(log))
  })
})

describe('what is opened again', () => {
  it('is what the main thread did open, by path and number', () => {
    const again = log.replace(
      '10    socketpair',
      `10    openat(AT_FDCWD, "/run/trestle/networks/net/network.json", O_RDONLY) = 18
10    openat(AT_FDCWD, "/run/trestle/none", O_RDONLY) = -1 ENOENT (No such file or directory)
10    openat(AT_FDCWD, "/run/trestle", O_RDWR|O_TMPFILE, 0600) = 18
10    openat(AT_FDCWD, "/run/trestle", O_RDWR|O_TMPFILE, 0600) = 19
12    openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3
10    socketpair`,
    )
    expect([...openedAgain(log)]).toEqual([])
    expect([...openedAgain(again)]).toEqual([['/run/trestle/networks/net/network.json', 2]])
  })
})

describe('a budget', () => {
  it.each<[number | undefined, string | RegExp]>([
    [3, 'within'],
    [5, 'within'],
    [6, /^6, and at most 5/],
    [2, /^2, less than 3/],
    [undefined, 'was not measured'],
  ])('of 3 to 5 says of %s: %s', (value, said) => {
    expect(budgetOf(value, [3, 5])).toMatch(said)
  })
})
