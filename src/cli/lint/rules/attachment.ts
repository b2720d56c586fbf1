// SPDX-License-Identifier: Apache-2.0
// The configurations inside of NetworkAttachmentDefinitions: looked at as if each were a file, and shown where they
// stand.

import { type Finding, type Found, findingAt } from '../checks/finding.ts'
import { type Attachment, attachmentsIn, type ConfigText } from '../read/attachments.ts'
import { unrendered } from '../read/directives.ts'
import { type FileLint, lintText } from './file.ts'
import type { Programs } from './programs.ts'

/** Looks at a file that a person names: a configuration, or definitions with configurations in them. */
export function lintFile(file: string, text: string, programs: Programs): readonly FileLint[] {
  const found = attachmentsIn(text)
  if (found === undefined) return [lintText(file, text, programs)]
  const faults = found.problems.map((each) => findingAt(file, text, { id: 'yaml-syntax', ...each }))
  const problems = found.template === undefined ? faults : [findingAt(file, text, unrendered(found.template))]
  const lints = found.attachments.map((each) => lintAttachment(each, { file, text, programs }))
  const [first = { file, findings: [] }, ...more] = lints
  // What is about the directory of the plugins is said once.
  const others = more.map((each) => ({ ...each, findings: each.findings.filter(({ id }) => id !== 'bin-dir-missing') }))
  const unnamed = problems.length > 0 ? [] : found.attachments.filter(({ hasName }) => !hasName)
  const nameless = unnamed.map(({ offset }) => findingAt(file, text, { ...noName, offset }))
  return [{ ...first, findings: [...problems, ...nameless, ...first.findings] }, ...others]
}

const noName: Found = { id: 'attachment-unnamed', message: 'the definition has no metadata.name' }

interface About {
  readonly file: string
  readonly text: string
  readonly programs: Programs
}

function lintAttachment({ name, offset, config }: Attachment, about: About): FileLint {
  const { file, text, programs } = about
  if (config === 'none') {
    const message = `${name ?? 'the definition'} has no spec.config: Multus takes the file of the network of that name`
    const found: Found = { id: 'attachment-config', severity: 'note', message, cure: 'nothing, where that is meant' }
    return { file, findings: [findingAt(file, text, { ...found, offset })] }
  }
  if (config === 'no-text') {
    const message = `spec.config of ${name ?? 'the definition'} is an object, and has to be text with JSON in it`
    return { file, findings: [findingAt(file, text, { id: 'attachment-config', message, offset })] }
  }
  // Its name says which form a file has; of a text its keys do.
  const lint = lintText('-', config.text, programs)
  // Multus gives the definition's name to a configuration without one.
  const own = lint.findings.filter(({ id, message }) => !(id === 'name-missing' && message.endsWith('has no name')))
  return { ...lint, file, findings: own.map((finding) => placedIn(finding, config, about)) }
}

/** The finding at its place in the whole file. */
function placedIn(finding: Finding, config: ConfigText, { file, text }: About): Finding {
  const { id, message, cause, cure, severity, line, column } = finding
  if (line === undefined || column === undefined) return { ...finding, file }
  const lines = config.text.split('\n')
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0)
  const offset = config.offsetOf(before + column - 1)
  return findingAt(file, text, { id, message, cause, cure, severity, offset })
}
