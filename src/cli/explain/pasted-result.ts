// SPDX-License-Identifier: Apache-2.0
// A pasted result of ADD: whether a runtime finds the pod's address in it.

/** The keys that are looked at; whoever pasted it may have written anything. */
interface Result {
  readonly cniVersion?: unknown
  readonly code?: unknown
  readonly interfaces?: unknown
  readonly ips?: unknown
}

/**
 * Whether the text is the result of an ADD in which no address is on eth0: containerd then says that it found no
 * network info. An address without `interface` counts as eth0's, as in go-cni.
 */
export function hasNoPodAddress(text: string): boolean {
  const result = resultIn(text)
  if (result === undefined) return false
  const names = list(result.interfaces).map((each) => String((each as { name?: unknown } | null)?.name))
  return !list(result.ips).some((each) => {
    const index = (each as { interface?: unknown } | null)?.interface
    return index === undefined || names[Number(index)] === 'eth0'
  })
}

function resultIn(text: string): Result | undefined {
  const from = text.indexOf('{')
  if (from < 0) return undefined
  try {
    const value = JSON.parse(text.slice(from, text.lastIndexOf('}') + 1)) as Result | null
    const isResult = value !== null && 'cniVersion' in value && ('interfaces' in value || 'ips' in value)
    return isResult && !('plugins' in value) && !('type' in value) && !('code' in value) ? value : undefined
  } catch {
    return undefined
  }
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
