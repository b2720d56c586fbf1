// SPDX-License-Identifier: Apache-2.0
// Placeholders that were not replaced: __CNI_MTU__ of Calico's and flannel's installers, {{ }} of helm and Ansible,
// $VAR and ${VAR} of envsubst, @mtu of GKE's installer, <mtu>, and words like SUBNET in place of an address.

import { printable } from '../../cni/errors.ts'
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

/**
 * What keeps a text from being JSON or YAML before its template is rendered: {{if}} and {{end}} of Go and helm, {% %}
 * and {# #} of Jinja, braces with quotes in them, and braces without quotes as a value of YAML.
 */
const directive =
  /\{\{-?\s*(?:(?:if|else|end|range|with|define|template|block|include|toYaml)\b[^{}]*|\$\w+\s*:?=[^{}]*|\/\*[^{}]*)\}\}|\{[%#][^\n]*?[%#]\}|\{\{-?\s*[\w.][^{}"\n]*"[^{}\n]*\}\}|(?<=^[ \t]*[\w./-]+:[ \t]+)\{\{[^{}\n]*\}\}/m

/** The finding about a template that was not rendered; undefined for a text without a directive. */
export function unrendered(text: string): (Found & { readonly offset: number }) | undefined {
  const found = directive.exec(text)
  if (found === null) return undefined
  const message = `the file is a template that was not rendered: ${printable(found[0])}`
  const cure = 'render it first (helm template, or the tool of its project), and examine the result'
  return { id: 'placeholder', message, cure, offset: found.index }
}
