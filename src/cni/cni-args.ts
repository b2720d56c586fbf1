// SPDX-License-Identifier: Apache-2.0
// CNI_ARGS: `K=V;K=V`. Keys are case-sensitive (libcni pkg/types/args.go). More forgiving than the
// upstream in two points: an empty segment is nothing, and a value may contain `=`.

/** CNI_ARGS, split. Known keys are IP, GATEWAY, MAC, IgnoreUnknown and K8S_POD_*. */
export interface CniArgs {
  readonly ip: readonly string[]
  readonly gateway: readonly string[]
  readonly mac?: string
  readonly podNamespace?: string
  readonly podName?: string
  readonly podUid?: string
}

/** What CNI_ARGS holds, and what is wrong with it. Only ADD treats a problem as an error. */
export interface ReadArgs {
  readonly args: CniArgs
  readonly problems: readonly string[]
}

const booleans: Readonly<Record<string, boolean>> = {
  '1': true,
  true: true,
  '0': false,
  false: false,
}

function isKnown(key: string): boolean {
  return key === 'IP' || key === 'GATEWAY' || key === 'MAC' || key === 'IgnoreUnknown' || key.startsWith('K8S_POD_')
}

function listOf(text: string | undefined): readonly string[] {
  return (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}

/** The pairs of `text`; a key that is there twice has its last value, as in upstream. */
function pairsOf(text: string): { readonly pairs: ReadonlyMap<string, string>; readonly problems: readonly string[] } {
  const pairs = new Map<string, string>()
  const problems: string[] = []
  for (const segment of text.split(';')) {
    const equals = segment.indexOf('=')
    if (equals > 0) pairs.set(segment.slice(0, equals), segment.slice(equals + 1))
    else if (segment.trim() !== '') problems.push(`invalid pair ${JSON.stringify(segment.slice(0, 64))}`)
  }
  return { pairs, problems: problems.slice(0, 8) }
}

function unknownProblems(pairs: ReadonlyMap<string, string>): readonly string[] {
  // In any case of letters, as upstream reads it (pkg/types/args.go, UnmarshallableBool).
  const ignore = pairs.get('IgnoreUnknown')?.toLowerCase()
  if (ignore !== undefined && !Object.hasOwn(booleans, ignore)) {
    return [`IgnoreUnknown ${JSON.stringify(ignore.slice(0, 64))} is not 1, 0, true or false`]
  }
  if (ignore !== undefined && booleans[ignore] === true) return []
  // The value may be a secret, and there may be thousands.
  const unknown = [...pairs.keys()].filter((key) => !isKnown(key)).map((key) => key.slice(0, 64))
  return unknown.length === 0 ? [] : [`unknown args ${JSON.stringify(unknown.slice(0, 8))}`]
}

/** CNI_ARGS, split. Throws nothing: `problems` says what is wrong (docs/design.md, "Decisions"). */
export function readArgs(text: string): ReadArgs {
  if (text === '') return { args: { ip: [], gateway: [] }, problems: [] }
  const { pairs, problems } = pairsOf(text)
  const mac = pairs.get('MAC')
  const podNamespace = pairs.get('K8S_POD_NAMESPACE')
  const podName = pairs.get('K8S_POD_NAME')
  const podUid = pairs.get('K8S_POD_UID')
  const args: CniArgs = {
    ip: listOf(pairs.get('IP')),
    gateway: listOf(pairs.get('GATEWAY')),
    ...(mac ? { mac } : {}),
    ...(podNamespace ? { podNamespace } : {}),
    ...(podName ? { podName } : {}),
    ...(podUid ? { podUid } : {}),
  }
  return { args, problems: [...problems, ...unknownProblems(pairs)] }
}
