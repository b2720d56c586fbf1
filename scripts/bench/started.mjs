// SPDX-License-Identifier: Apache-2.0
// What a call started, from strace's log of execve.

/** Processes in strace's log but the first; one that executes twice (nsenter, then ip) is one process. */
export function started(log) {
  const lines = log.split('\n')
  const byPid = new Map()
  for (const line of lines) {
    const [, pid, file] = /^(\d+) +execve\("([^"]+)".* = 0$/.exec(line) ?? []
    if (pid) byPid.set(pid, [...(byPid.get(pid) ?? []), file.slice(file.lastIndexOf('/') + 1)])
  }
  return [...byPid.values()].slice(1).map((files) => files.join('+'))
}
