// SPDX-License-Identifier: Apache-2.0
// Which capability this process lacks: asked by STATUS, and where a tool or the kernel said no.

import { readFileSync } from 'node:fs'
import { orElse } from '../../cni/error.ts'

/** What a capability is needed for. The kernel looks at it in the user namespace that owns the network namespace. */
interface Capability {
  readonly name: string
  /** Its bit in /proc/self/status (include/uapi/linux/capability.h). */
  readonly bit: bigint
  readonly use: string
}

const netAdmin: Capability = {
  name: 'CAP_NET_ADMIN',
  bit: 12n,
  use: 'ip, tc, bridge, nft and the network sysctls need to change anything',
}
const sysAdmin: Capability = {
  name: 'CAP_SYS_ADMIN',
  bit: 21n,
  use: "nsenter needs to enter the pod's network namespace",
}

/** Bit of CAP_SYS_PTRACE: without it others' /proc/PID/ns cannot be read (fs/proc/namespaces.c, proc_ns_readlink). */
const sysPtraceBit = 19n

/** Whether the kernel lets this process look at the namespaces of all others; a security module may still hide some. */
export function seesNamespaces(): boolean {
  return (((effectiveSet() ?? 0n) >> sysPtraceBit) & 1n) === 1n
}

/** A capability that is not there, and the sentence for an error's `details`. */
interface MissingCapability {
  readonly name: string
  readonly hint: string
}

/** Those of the two that every pod needs which this process has not; none where /proc does not say. */
export function missingCapabilities(): readonly MissingCapability[] {
  const effective = effectiveSet()
  if (effective === undefined) return []
  return [netAdmin, sysAdmin].filter(({ bit }) => ((effective >> bit) & 1n) === 0n).map(missingCapability)
}

/**
 * Why a tool was refused: the capability it needs, when the refusal is one of permission and this process has it not.
 * `told`: its stderr, or the text of a system call's error.
 */
export function refusedFor(stderr: string): MissingCapability | undefined {
  if (!/Operation not permitted|Permission denied|\bEPERM\b|\bEACCES\b/i.test(stderr)) return undefined
  // setns(2) is the only thing that needs CAP_SYS_ADMIN.
  const { name } = stderr.includes('reassociate to namespace') ? sysAdmin : netAdmin
  return missingCapabilities().find((missing) => missing.name === name)
}

/** ` (CAP_NET_ADMIN is missing)` for the end of a message, or nothing. */
export function missingNote(missing: MissingCapability | undefined): string {
  return missing === undefined ? '' : ` (${missing.name} is missing)`
}

function missingCapability({ name, use }: Capability): MissingCapability {
  return { name, hint: `trestle runs without ${name}, which ${use}; give it to the container runtime that calls` }
}

function effectiveSet(): bigint | undefined {
  const status = orElse(() => readFileSync('/proc/self/status', 'latin1'), '')
  const hex = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1]
  return hex === undefined ? undefined : BigInt(`0x${hex}`)
}
