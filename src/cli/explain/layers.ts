// SPDX-License-Identifier: Apache-2.0
// The callers around an error: kubelet, the runtime, plugins that call plugins, the program that the last one ran.

import { anySpace } from './plain-text.ts'

/** A place in a text: [from, to). */
export interface Span {
  readonly from: number
  readonly to: number
}

/** One caller. `words`: how the text names it. */
export interface Layer extends Span {
  readonly who: string
  readonly words: string
}

/** Patterns of a caller; `$1` and `$2` stand for what they capture. */
const callers: readonly (readonly [who: string, pattern: RegExp])[] = [
  [
    'kubelet',
    /FailedCreatePodSandBox|Failed (?:to )?create pod sandbox|(?:Run|Stop)PodSandbox from runtime service failed|(?:Create|Kill)PodSandbox(?:Error| for pod)?|networkPlugin \w+ failed to (?:set up|teardown) pod "[^"]*"(?: network)?|Error syncing pod|error killing pod/i,
  ],
  ['the runtime, over CRI', /rpc error: code = \w+ desc =/],
  ['containerd', /failed to (?:setup|destroy) network for sandbox "[^"]*"/],
  [
    'CRI-O or podman',
    /failed to (?:create|destroy) pod network sandbox \S+|error (?:adding|removing|while adding) pod \S* ?(?:to|from) CNI network "[^"]*"|error configuring network namespace for container \S+/i,
  ],
  ['nerdctl', /failed to call cni\.(?:Setup|Remove)/],
  ['Multus', /error adding container to network "[^"]*"|CNI request failed with status \d+|CmdAdd \(shim\)|Multus:/],
]

const pluginPattern = /plugin type=["']([^"']+)["'](?: name=["'][^"']*["'])? failed \((\w+)\)/
const programPattern = /running \[(?:\S{0,200}\/)?([\w-]{1,40})[^\]]{0,2000}\](?:: exit status \d+)?/

/** The callers that a text names, outermost first, each once. */
export function layersOf(text: string): readonly Layer[] {
  const found = callers.flatMap(([who, pattern]) => {
    const match = anySpace(pattern).exec(text)
    return match === null ? [] : [layer(who, match)]
  })
  const plugins = all(text, pluginPattern).map((match) => layer(`plugin ${match[1]} (${match[2]})`, match))
  const programs = all(text, programPattern).map((match) => layer(`${match[1]}`, match))
  const order = [...found, ...plugins].sort((a, b) => a.from - b.from)
  return [...order, ...programs].filter(({ who }, at, list) => list.findIndex((other) => other.who === who) === at)
}

/** The name of the innermost plugin that a text names, undefined where it names none. */
export function speakerOf(text: string): string | undefined {
  return all(text, /\btype=["']([^"']+)["']/).at(-1)?.[1]
}

/**
 * Where what is said of cleaning up after a failure begins: dockershim printed both in one line. The end of the text
 * where there is none.
 */
export function aftermathOf(text: string): number {
  const at = text.search(anySpace(/, failed to (?:clean up sandbox container|teardown pod)/))
  return at < 0 ? text.length : at
}

/** Every match of a pattern in a text, each blank of the pattern standing for any white space. */
export function all(text: string, pattern: RegExp): readonly RegExpExecArray[] {
  const { source, flags } = anySpace(pattern)
  return [...text.matchAll(new RegExp(source, `${flags}g`))]
}

function layer(who: string, match: RegExpExecArray): Layer {
  return { who, words: match[0], from: match.index, to: match.index + match[0].length }
}
