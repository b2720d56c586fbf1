// SPDX-License-Identifier: Apache-2.0
// A control group of its own for what is measured: memory and CPU of all its processes, also of those that have ended.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'

let opened = 0

/**
 * Opens a group below `scratch`, in version 2 or 1 of control groups (the machine's). `join`: the words that start a program in it.
 * `cpuMs`: CPU time since the start. `memory`: MB; `peak` has page cache in it, `anonymous` and `mapped` are of now.
 * `files`: for a process that reads the same itself (`readCpuMs`). `remove` throws while somebody is in the group.
 */
export function openControlGroup(scratch) {
  opened += 1
  const name = `trestle-bench-${process.pid}-${opened}`
  const isTwo = !/\bmemory\b/.test(readFileSync('/proc/cgroups', 'utf8')) || hasMemoryInTwo()
  const groups = []
  try {
    for (const controllers of isTwo ? [['']] : [['memory'], ['cpuacct', 'cpu,cpuacct']]) {
      const at = join(scratch, `cgroup-${controllers[0]}`)
      mkdirSync(at)
      mountOneOf(controllers, at)
      mkdirSync(join(at, name))
      groups.push(join(at, name))
    }
  } catch (error) {
    removeAll(groups)
    throw error
  }
  const [memory, cpu = memory] = groups
  const files = { cpu: join(cpu, isTwo ? 'cpu.stat' : 'cpuacct.usage'), processes: join(cpu, 'cgroup.procs') }
  const read = (group, file) => readFileSync(join(group, file), 'utf8')
  const mb = (bytes) => Number(bytes) / 1e6
  const now = () => {
    const text = read(memory, 'memory.stat')
    return isTwo
      ? { anonymous: mb(stat(text, 'anon')), mapped: mb(stat(text, 'file_mapped')), cached: mb(stat(text, 'file')) }
      : {
          anonymous: mb(stat(text, 'total_rss')),
          mapped: mb(stat(text, 'total_mapped_file')),
          cached: mb(stat(text, 'total_cache')),
        }
  }
  return {
    join: ['sh', '-c', `for g in ${groups.join(' ')}; do echo $$ >$g/cgroup.procs; done; exec "$@"`, 'sh'],
    cpuMs: () => readCpuMs(files),
    files,
    memory: () => ({ peak: mb(read(memory, isTwo ? 'memory.peak' : 'memory.max_usage_in_bytes')), ...now() }),
    isEmpty: () => groups.every((group) => readFileSync(join(group, 'cgroup.procs'), 'utf8') === ''),
    remove: () => removeAll(groups),
  }
}

/** Mounts the tree of the first that the machine has: many have cpu and cpuacct in one. Empty: that of version 2. */
function mountOneOf([controller, ...others], at) {
  const options = controller === '' ? ['-t', 'cgroup2'] : ['-t', 'cgroup', '-o', controller]
  try {
    execFileSync('mount', [...options, 'none', at], { stdio: 'pipe' })
  } catch (error) {
    if (others.length === 0) throw error
    mountOneOf(others, at)
  }
}

/** It may have to be asked again: what is gone already is passed over. */
function removeAll(groups) {
  for (const group of groups.filter((each) => existsSync(each))) {
    rmdirSync(group)
    execFileSync('umount', [join(group, '..')])
  }
}

/** CPU time of a group since its start, in ms. `files`: of `openControlGroup`. */
export function readCpuMs({ cpu }) {
  const text = readFileSync(cpu, 'utf8')
  return cpu.endsWith('cpu.stat') ? stat(text, 'usage_usec') / 1000 : Number(text) / 1e6
}

function stat(text, key) {
  return Number(new RegExp(`^${key} (\\d+)$`, 'm').exec(text)?.[1] ?? 0)
}

function hasMemoryInTwo() {
  const controllers = '/sys/fs/cgroup/cgroup.controllers'
  return existsSync(controllers) && /\bmemory\b/.test(readFileSync(controllers, 'utf8'))
}
