// SPDX-License-Identifier: Apache-2.0
// mode `loopback`: ADD, CHECK and DEL of the pod's lo, as the reference loopback plugin. CNI_IFNAME is ignored; nothing is
// on the host, reserved or written down. containerd calls it for each pod.

import { familyOf } from '../cni/addresses.ts'
import type { Call } from '../cni/call.ts'
import { CniError, Code, oneLine } from '../cni/errors.ts'
import type { Result } from '../cni/results.ts'
import type { LoopbackConf } from '../config/network-conf.ts'
import { readDocuments, readLinks } from '../kernel/look.ts'
import { commandError } from '../kernel/messages.ts'
import { closeNetns, type OpenNetns } from '../kernel/netns.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import type { Machine } from '../process/machine.ts'
import type { Context } from './context.ts'

export async function addLoopback(call: Call, { prevResult }: LoopbackConf, { machine }: Context): Promise<Result> {
  const netns = machine.openNetns(call.netns)
  try {
    const lo = await askLo(machine, netns, 'link set dev lo up\naddr show dev lo\n', 'set lo up in the pod')
    const foreign = lo.addresses.find((address) => !address.startsWith('127.') && address !== '::1/128')
    if (foreign !== undefined) {
      const message = `loopback interface found with non-loopback address "${foreign}"`
      throw new CniError(Code.invalidConfig, 'loopback-other-address', message, {
        details: `take it off: nsenter --net=${call.netns} ip addr del ${foreign} dev lo`,
      })
    }
    if (prevResult !== undefined) return prevResult
    const firstOf = (family: 4 | 6) => lo.addresses.find((address) => familyOf(address) === family) ?? []
    const ips = ([4, 6] as const).flatMap(firstOf).map((address) => ({ address, interface: 0 }))
    return { interfaces: [{ name: 'lo', mac: lo.mac, sandbox: call.netns }], ips, routes: [] }
  } finally {
    closeNetns(netns)
  }
}

export async function checkLoopback(call: Call, { machine }: Context): Promise<void> {
  const netns = machine.openNetns(call.netns)
  try {
    if ((await askLo(machine, netns, 'addr show dev lo\n', 'see lo in the pod')).up) return
    throw new CniError(Code.checkFailed, 'loopback-down', 'loopback interface is down', {
      details: `set it up: nsenter --net=${call.netns} ip link set lo up`,
    })
  } finally {
    closeNetns(netns)
  }
}

/** Never throws: a namespace that is gone took lo along. */
export async function delLoopback({ netns: path }: Call, { machine }: Context): Promise<void> {
  const netns = machine.openNetnsIfThere(path)
  if (netns === undefined) return
  try {
    await askLo(machine, netns, 'link set dev lo down\naddr show dev lo\n', 'set lo down in the pod')
  } catch (error) {
    process.stderr.write(`trestle: DEL: ${oneLine((error as Error).message)}\n`)
  } finally {
    closeNetns(netns)
  }
}

async function askLo(machine: Machine, netns: OpenNetns, stdin: string, why: string): Promise<ObservedLink> {
  const args = ['--net=/proc/self/fd/3', '--', 'ip', '-j', '-batch', '-']
  const { code, signal, stdout, stderr } = await machine.ask({ file: 'nsenter', args, stdin, netnsFd: netns.fd })
  const lo = readLinks(readDocuments(stdout)).get('lo')
  if (code === 0 && lo !== undefined) return lo
  throw commandError({ command: 'nsenter ip -batch -', op: undefined, whys: [why], stderr, code, signal })
}
