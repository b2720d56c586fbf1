// SPDX-License-Identifier: Apache-2.0
// Placeholders that were not replaced: __CNI_MTU__ of Calico's and flannel's installers, {{ }} of helm and Ansible,
// $VAR and ${VAR} of envsubst, @mtu of GKE's installer, <mtu>, and words like SUBNET in place of an address.

import { printable } from '../../cni/error.ts'
import { isObject } from '../../cni/json.ts'
import { type Found, keyPathOf, type Source, type Step, shown } from './finding.ts'

const templates =
  /__[A-Z][A-Z0-9_]*__|\{\{-?\s*[\w.$(][^{}]*\}\}|\$\{[A-Za-z_][^}]*\}|\$\([A-Z_][A-Z0-9_]*\)|\$[A-Z_][A-Z0-9_]{2,}/

/** Placeholders without quotes in the place of a value; within a text they may be literal. */
const unquoted = /<[A-Za-z][\w .-]*>|@[A-Za-z]\w*/

/** Keys whose values are addresses: no word in capitals is an address. */
const addresses = ['subnet', 'rangestart', 'rangeend', 'gateway', 'podcidr', 'address', 'dst', 'gw']

/** The placeholder at the beginning of a text, in the place of a value. */
export function placeholderAt(text: string): string | undefined {
  return new RegExp(`^(?:${templates.source}|${unquoted.source})`).exec(text)?.[0]
}

/** Variables of a plugin's environment by the specification: commands in a file may use them. */
const ofPlugins = /\$\{?CNI_(?:COMMAND|CONTAINERID|NETNS|IFNAME|ARGS|PATH)\b\}?/g

export function placeholders(root: unknown): readonly (Found & { readonly steps: readonly Step[] })[] {
  const found: (Found & { readonly steps: readonly Step[] })[] = []
  const walk = (value: unknown, steps: readonly Step[]): void => {
    if (Array.isArray(value)) for (const [at, each] of value.entries()) walk(each, [...steps, at])
    else if (isObject(value)) for (const [key, each] of Object.entries(value)) walk(each, [...steps, key])
    else if (typeof value === 'string' && isTemplate(value, steps)) {
      const message = `${keyPathOf(steps)}: ${shown(value)} is a placeholder that was not replaced`
      found.push({ id: 'placeholder', message, steps, isAboutValue: true })
    }
  }
  walk(root, [])
  return found
}

function isTemplate(value: string, steps: readonly Step[]): boolean {
  // Commands for a shell (addHooks and the like of the debug plugin): a variable in them is the shell's.
  if (steps.some((step) => /hooks$/i.test(String(step)))) return /\{\{|__[A-Z]/.test(value) && templates.test(value)
  if (templates.test(value.replace(ofPlugins, ''))) return true
  const key = String(steps.at(-1)).toLowerCase()
  return addresses.includes(key) && /^<?[A-Z][A-Z0-9_-]{2,}(?:\/\d+)?>?$/.test(value)
}

/** Values where 0 replaces a placeholder, which is reported already. */
export function standInsOf({ root, places, standIns = [] }: Source): readonly Found[] {
  const walk = (value: unknown, steps: readonly Step[]): readonly Found[] => {
    if (typeof value === 'object' && value !== null) {
      return Object.entries(value).flatMap(([key, each]) => walk(each, [...steps, key]))
    }
    const isStandIn = value === 0 && standIns.includes(places.find(steps).value)
    return isStandIn ? [{ id: 'placeholder', message: '', steps }] : []
  }
  return standIns.length === 0 ? [] : walk(root, [])
}

/** Whether a finding is about the value of a placeholder, or about its container. */
export function isPlaceholder(found: Found, all: readonly Found[]): boolean {
  const steps = found.steps ?? []
  if (found.id === 'unknown-key' || steps.length === 0) return false
  // Keys match without case, as in Go.
  const nameOf = (step: Step | undefined): string => String(step).toLowerCase()
  const isInside = (other: Found): boolean => steps.every((step, at) => nameOf(other.steps?.[at]) === nameOf(step))
  const isWrong = ['wrong-type', 'invalid-value', 'range-invalid', 'name-invalid', 'type-missing', 'plugin-missing']
  return [...isWrong, 'cni-version-unknown', 'gateway-outside-subnet'].includes(found.id) && all.some(isInside)
}

// Directives of templates keep a text from being JSON or YAML before the template is rendered.

/** Directives, which are no values: {{if}} and {{end}} of Go and helm, {% %} and {# #} of Jinja. */
const directives =
  /\{\{-?\s*(?:(?:if|else|end|range|with|define|template|block|include|toYaml)\b[^{}]*|\$\w+\s*:?=[^{}]*|\/\*[^{}]*)\}\}|\{[%#][^\n]*?[%#]\}/

export interface Directive {
  readonly what: string
  readonly offset: number
}

function directiveIn(text: string): Directive | undefined {
  const found = directives.exec(text)
  return found === null ? undefined : { what: found[0], offset: found.index }
}

/** The part of a template that keeps a text from being YAML: a directive, or a value without quotes. */
export function directiveInYaml(text: string): Directive | undefined {
  const bare = /(?<=^[ \t]*(?:[\w./-]+:[ \t]+|-[ \t]+)?)\{\{[^{}\n]*\}\}/m.exec(text)
  return directiveIn(text) ?? (bare === null ? undefined : { what: bare[0], offset: bare.index })
}

/** The directive at a problem of the text: of {{ the first brace opens an object, and the second is the problem. */
export function directiveAt(text: string, offset: number): Directive | undefined {
  const from = text.startsWith('{', offset - 1) && /[{%#]/.test(text[offset] ?? '') ? offset - 1 : offset
  const found = directiveIn(text.slice(from, from + longest))
  return found?.offset === 0 ? { what: found.what, offset: from } : aroundOf(text, offset)
}

/** The pair of braces around an offset: "{{ getenv "DIR" }}" is two texts with a word between them. */
function aroundOf(text: string, offset: number): Directive | undefined {
  const from = text.lastIndexOf('{{', offset)
  const what = from < 0 ? undefined : /^\{\{[^{}\n]*\}\}/.exec(text.slice(from, from + longest))?.[0]
  return what !== undefined && offset > from + 1 && offset < from + what.length ? { what, offset: from } : undefined
}

/** The longest directive. */
const longest = 200

/** The finding about a template that was not rendered. */
export function unrendered({ what, offset }: Directive): Found & { readonly offset: number } {
  const message = `the file is a template that was not rendered: ${printable(what)}`
  const cure = 'render it first (helm template, or the tool of its project), and examine the result'
  return { id: 'placeholder', message, cure, offset }
}
