// SPDX-License-Identifier: Apache-2.0
// What a program did, counted in strace's log of its whole tree (`strace -f -o`), and whether that is within a band.

/**
 * What is counted. Of the main thread: `forks`; files `opened` and of these `written`; names made, changed or removed
 * (`renamed`); `others`, all calls that neither time nor memory decides. Of the whole tree: `processes` and `programs`.
 */
export interface Counts {
  readonly processes: number
  readonly programs: number
  readonly forks: number
  readonly opened: number
  readonly written: number
  readonly renamed: number
  readonly others: number
}

interface SystemCall {
  readonly pid: string
  readonly name: string
  readonly text: string
}

/** How often these are called is decided by load, by what comes in which piece, or by the memory's state. */
const unsteady =
  /^(p?read(64)?|readv|write|writev|epoll_\w+|e?poll|ppoll|futex|madvise|mmap|munmap|mprotect|mremap|brk|sched_yield|restart_syscall|clock_\w+|getrusage|nanosleep|rt_sig\w+|membarrier|wait4|waitid|exit|exit_group|close)$/
const looks = /^(newfstatat|statx|stat|lstat|access|faccessat2?|readlink|readlinkat)$/
const names = /^(rename|renameat2?|link|linkat|unlink|unlinkat|mkdir|mkdirat|rmdir|symlink|symlinkat)$/
const forking = /^(clone3?|fork|vfork)$/
const opening = /^open(at2?)?$/

/** The counts of a log. A call of which strace wrote beginning and end apart is put together. */
export function readStrace(log: string): Counts {
  const calls = callsOf(log)
  const main = calls[0]?.pid
  const own = calls.filter(({ pid }) => pid === main)
  const isFork = ({ name, text }: SystemCall) => forking.test(name) && !text.includes('CLONE_THREAD')
  const opened = own.filter(({ name, text }) => opening.test(name) && succeeded(text))
  const rest = own.filter(({ name }) => ![unsteady, looks, names, forking, opening].some((kind) => kind.test(name)))
  // Whoever waits for a file to go looks often.
  const looked = new Set(own.filter(({ name }) => looks.test(name)).map(({ name, text }) => `${name} ${text}`))
  return {
    processes: calls.filter((call) => isFork(call) && succeeded(call.text)).length,
    programs: calls.filter(({ name, text }) => name === 'execve' && succeeded(text)).length,
    forks: own.filter(isFork).length,
    opened: opened.length,
    written: opened.filter(({ text }) => /O_WRONLY|O_RDWR|O_CREAT/.test(text)).length,
    renamed: own.filter(({ name, text }) => names.test(name) && succeeded(text)).length,
    others: rest.length + looked.size,
  }
}

/** How many threads were started. */
export function threadsStarted(log: string): number {
  return callsOf(log).filter(({ name, text }) => forking.test(name) && text.includes('CLONE_THREAD')).length
}

/** `counts` without what `base` has already. */
export function countsAbove(counts: Counts, base: Counts): Counts {
  const entries = Object.entries(counts) as [keyof Counts, number][]
  return Object.fromEntries(entries.map(([key, value]) => [key, value - base[key]])) as unknown as Counts
}

/** `within`, or what to do about a figure that is outside of its band. */
export function budgetOf(value: number | undefined, [least, most]: readonly [number, number]): string {
  if (value === undefined) return 'was not measured'
  if (value > most)
    return `${value}, and at most ${most} was the budget: make it cheaper, or give the budget its reason`
  if (value < least) return `${value}, less than ${least}: bring the budget down, or see what is no longer counted`
  return 'within'
}

function callsOf(log: string): readonly SystemCall[] {
  const begun = new Map<string, string>()
  return log.split('\n').flatMap((line) => {
    const [, pid = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? []
    if (rest.endsWith(' <unfinished ...>')) {
      begun.set(pid, rest.slice(0, -' <unfinished ...>'.length))
      return []
    }
    const [, end] = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest) ?? []
    const whole = end === undefined ? rest : `${begun.get(pid) ?? ''}${end}`
    const [, name, text = ''] = /^(\w+)\((.*)$/.exec(whole) ?? []
    return name === undefined ? [] : [{ pid, name, text }]
  })
}

function succeeded(text: string): boolean {
  return / = \d+$| = \d+<| = \d+ \(/.test(text)
}
