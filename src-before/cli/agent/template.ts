// SPDX-License-Identifier: Apache-2.0
// The operator's template of the configuration: `trestle lint` and an ADD's reader check the result, and each finding
// has the template's line.

import { readFileSync, statSync } from 'node:fs'
import { oneLine } from '../../cni/error.ts'
import { conflist, decidedKeys, emptyTemplate, type Template, templateOf } from '../../plan/agent/conflist.ts'
import { limitBytes } from '../../system/files/files.ts'
import { lintSource } from '../lint/file.ts'
import { findingAtKey } from '../lint/finding.ts'
import { readSource } from '../lint/source.ts'
import { isOwnType } from '../node/own-type.ts'
import type { Finding } from '../shell/findings.ts'
import type { Settings } from './settings.ts'

/**
 * The result of a look at the template. `good`: the last valid template; `wrong`: the error of the present one, in one
 * line; `remarks`: warnings.
 */
export interface KeptTemplate {
  readonly seen: string
  readonly good: Template | undefined
  readonly wrong: string | undefined
  readonly remarks: readonly string[]
}

type Asked = Pick<Settings, 'template' | 'network' | 'mode' | 'cniVersion'>

/** Ranges for documentation (RFC 5737, RFC 3849), while the Node has none. */
const exampleRanges = ['192.0.2.0/24', '2001:db8::/64']

/** Looks at the template again. `podCidrs`: this node's, because the lowest valid MTU depends on the family. */
export function lookAtTemplate(
  settings: Asked,
  podCidrs: readonly string[],
  before: KeptTemplate | undefined,
): KeptTemplate {
  const { file, isAsked } = settings.template
  const found = textOf(file)
  if (found === undefined && !isAsked) return { seen: '', good: emptyTemplate, wrong: undefined, remarks: [] }
  if (found === undefined || 'problem' in found) {
    const wrong = `${file}: ${found === undefined ? 'there is no such file' : found.problem}`
    return { seen: wrong, good: before?.good, wrong, remarks: [] }
  }
  const seen = JSON.stringify([found.text, podCidrs, settings.mode])
  if (before?.seen === seen) return before
  const findings = checkTemplate(found.text, settings, podCidrs.length === 0 ? exampleRanges : podCidrs)
  const refusals = findings.filter(isRefused)
  const remarks = findings.filter(({ severity }) => severity === 'warning').map(textOfFinding)
  if (refusals.length > 0) return { seen, good: before?.good, wrong: shorten(refusals.map(textOfFinding)), remarks: [] }
  return { seen, good: templateOf(JSON.parse(found.text)), wrong: undefined, remarks }
}

/** The template's text. Follows links, because a ConfigMap's file is one. */
function textOf(file: string): { readonly text: string } | { readonly problem: string } | undefined {
  try {
    const { size } = statSync(file)
    return size > limitBytes ? { problem: 'it is longer than 1 MiB' } : { text: readFileSync(file, 'utf8') }
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return code === 'ENOENT' || code === 'ENOTDIR' ? undefined : { problem: `cannot read it: ${code}` }
  }
}

function checkTemplate(text: string, { template, network, mode, cniVersion }: Asked, podCidrs: readonly string[]) {
  const { source, findings } = readSource(template.file, text)
  if (source === undefined || findings.some(isRefused)) return findings
  const decided = decidedKeys(source.root, network).map(({ steps, message, cure }) =>
    findingAtKey(source, { id: 'unsupported-value', message, cure, steps }),
  )
  // An invalid list was reported with the template itself.
  const plugins = source.root['plugins']
  const isList = Array.isArray(plugins) && plugins.length > 0
  const facts = { name: network, mode, cniVersion, podCidrs, template: templateOf(source.root) }
  const root = { name: network, cniVersion, ...source.root, ...(isList ? conflist(facts) : {}) }
  const { found } = lintSource({ ...source, root }, 'list', programs)
  return [...decided, ...found.map((each) => findingAtKey(source, each)), ...findings]
}

/** Ignores missing programs: other plugins may come and go, so that each round looks for them (files.ts). */
const programs = { hasDirectory: false, problemOf: () => undefined, isOwn: isOwnType }

/** Findings on keys without effect: the operator expects an effect that pods would not get. */
const unread = ['unknown-key', 'duplicate-key', 'capability-unknown', 'runtime-config-in-file']

function isRefused({ severity, id }: Finding): boolean {
  return severity === 'error' || unread.includes(id)
}

function textOfFinding({ file, line, message, cure }: Finding): string {
  const place = line === undefined ? file : `${file}, line ${line}`
  return oneLine(`${place}: ${message} (${cure})`)
}

function shorten(texts: readonly string[]): string {
  const [first = '', ...more] = texts
  return more.length === 0 ? first : `${first}; and ${more.length} more`
}
