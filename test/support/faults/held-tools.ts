// SPDX-License-Identifier: Apache-2.0
// Tools that have their input and are held up before they act on it, as by a busy rtnl lock: wrappers for a call's PATH.
// A stuck one waits for a lock in the kernel and ends for no signal; so does what stands beside one that is at work.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { until } from './process-identities.ts'

type Tool = 'ip' | 'tc' | 'nft'

/**
 * Holds each of `tools` for so long once it has its input, or until `release`; `beside`: not the tool itself, but a process
 * that it has started, with all its descriptors. One without input ends at once.
 */
export function holdTools(tools: readonly Tool[], held: { seconds: number } | 'stuck' | 'beside') {
  const directory = mkdtempSync(`${tmpdir()}/trestle-held-`)
  const lock = `${directory}/lock`
  const wait = held === 'stuck' || held === 'beside' ? `: < ${lock}` : `sleep ${held.seconds}`
  let holder: ChildProcess | undefined
  for (const tool of tools) {
    const real = execFileSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).trim()
    const lines = [
      '#!/bin/sh',
      `input=${directory}/input.$$`,
      'cat > "$input"',
      `[ -s "$input" ] || exec ${real} "$@" < /dev/null`,
      ...(held === 'beside'
        ? [`sh -c ': > ${directory}/begun.${tool}.$$; ${wait}' &`, 'until grep -qs ") D " /proc/$!/stat; do :; done']
        : [`: > ${directory}/begun.${tool}.$$`, wait]),
      `exec ${real} "$@" < "$input"`,
    ]
    writeFileSync(`${directory}/${tool}`, `${lines.join('\n')}\n`, { mode: 0o755 })
  }
  const pids = (): readonly number[] =>
    readdirSync(directory)
      .filter((name) => name.startsWith('begun.'))
      .map((name) => Number(name.replace(/.*\./, '')))
  const atWork = (): readonly number[] => pids().filter(isAtWork)
  return {
    /** Goes before a call's PATH. */
    path: `${directory}:${process.env['PATH']}`,
    /** Waits until one of the tools is held. */
    begun: async (tool: Tool): Promise<void> => {
      await until(`${tool} is held`, () => readdirSync(directory).some((name) => name.startsWith(`begun.${tool}.`)))
    },
    /** Pids of the held ones that have not ended. */
    atWork,
    /** Waits until they have ended, by themselves or not. */
    ended: async (): Promise<void> => await until('the end of the held tools', () => atWork().length === 0),
    /** Makes the lock that stuck tools wait for. */
    lock: async (): Promise<void> => {
      execFileSync('mkfifo', [lock])
      holder = spawn('perl', ['-e', holdPipe, lock])
      await until('the lock is held', () => /pipe_write/.test(stackOf(holder?.pid)))
    },
    /** Waits until a tool waits in the kernel. */
    stuck: async (): Promise<void> => {
      await until('a tool waits in the kernel', () => atWork().some((pid) => stateOf(pid) === 'D'))
    },
    release: (): void => {
      holder?.kill('SIGKILL')
    },
    close: (): void => {
      holder?.kill('SIGKILL')
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Why no tool can be stuck here; undefined where one can. */
export function missingForStuck(): string | undefined {
  const has = existsSync('/usr/bin/perl') && process.arch === 'x64'
  return has ? undefined : 'holding a lock in the kernel needs perl on x86-64'
}

/**
 * Writes to a pipe from memory that userfaultfd(2) never fills: pipe_write holds the pipe's mutex for as long (fs/pipe.c), and
 * whoever opens it waits without regard to signals. Numbers of x86-64 system calls: userfaultfd, mmap, write.
 */
const holdPipe = `
my $uffd = syscall(323, 0x80000);
die "userfaultfd: $!" if $uffd < 0;
open(my $handle, "+<&=", $uffd) or die $!;
my $api = pack("QQQ", 0xAA, 0, 0);
defined(ioctl($handle, 0xc018aa3f, $api)) or die "UFFDIO_API: $!";
my $page = syscall(9, 0, 4096, 3, 0x22, -1, 0);
my $range = pack("QQQQ", $page, 4096, 1, 0);
defined(ioctl($handle, 0xc020aa00, $range)) or die "UFFDIO_REGISTER: $!";
open(my $pipe, "+<", $ARGV[0]) or die $!;
syscall(1, fileno($pipe), $page, 4096);
`

function isAtWork(pid: number): boolean {
  return !['', 'Z', 'X'].includes(stateOf(pid))
}

/** Third field of /proc/PID/stat (proc(5)); empty without the process. */
function stateOf(pid: number): string {
  const stat = textOf(`/proc/${pid}/stat`)
  return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3)
}

function stackOf(pid: number | undefined): string {
  return textOf(`/proc/${pid}/stack`)
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
