// SPDX-License-Identifier: Apache-2.0
// The callers around an error: kubelet, the runtime, plugins, and the program of the last plugin. Pasted texts are
// wrapped, so a blank of a pattern also matches a line break.

/** A place in a text: [from, to). */
export interface Span {
  readonly from: number
  readonly to: number
}

/** A caller. `words`: the caller's name in the text. */
export interface Layer extends Span {
  readonly who: string
  readonly words: string
}

export function anyOf(parts: readonly RegExp[], flags = ''): RegExp {
  return new RegExp(parts.map(({ source }) => source).join('|'), flags)
}

/** Patterns of callers, each of several parts. A blank stands for any white space. */
const parts: readonly (readonly [who: string, ...parts: readonly RegExp[]])[] = [
  [
    'kubelet',
    /FailedCreatePodSandBox|Failed (?:to )?create pod sandbox|Error syncing pod|error killing pod/,
    /(?:Run|Stop)PodSandbox from runtime service failed|(?:Create|Kill)PodSandbox(?:Error| for pod)?/,
    /networkPlugin \w+ failed to (?:set up|teardown) pod "[^"]*"(?: network)?/,
  ],
  ['the runtime, over CRI', /rpc error: code = \w+ desc =/],
  ['containerd', /failed to (?:setup|destroy) network for sandbox "[^"]*"/],
  [
    'CRI-O or podman',
    /failed to (?:create|destroy) pod network sandbox \S+|error configuring network namespace for container \S+/,
    /error (?:adding|removing|while adding) pod \S*\s?(?:to|from) CNI network "[^"]*"/,
  ],
  ['nerdctl', /failed to call cni\.(?:Setup|Remove)/],
  ['Multus', /error adding container to network "[^"]*"|CNI request failed with status \d+|CmdAdd \(shim\)|Multus:/],
]

const callers = parts.map(([who, ...all]) => [who, new RegExp(anyOf(all).source.replaceAll(' ', '\\s+'), 'i')] as const)

const pluginPattern = /plugin\s+type=["']([^"']+)["'](?:\s+name=["'][^"']*["'])?\s+failed\s+\((\w+)\)/
const programPattern = /running\s+\[(?:\S{0,200}\/)?([\w-]{1,40})[^\]]{0,2000}\](?::\s+exit\s+status\s+\d+)?/

/** The callers that a text names, outermost first, each once. */
export function layersOf(text: string): readonly Layer[] {
  const found = callers.flatMap(([who, pattern]) => {
    const match = pattern.exec(text)
    return match === null ? [] : [layer(who, match)]
  })
  const plugins = all(text, pluginPattern).map((match) => layer(`plugin ${match[1]} (${match[2]})`, match))
  const programs = all(text, programPattern).map((match) => layer(`${match[1]}`, match))
  const order = [...found, ...plugins].sort((a, b) => a.from - b.from)
  return [...order, ...programs].filter(({ who }, at, list) => list.findIndex((other) => other.who === who) === at)
}

/** The name of the innermost plugin in a text; undefined without one. */
export function speakerOf(text: string): string | undefined {
  return all(text, /\btype=["']([^"']+)["']/).at(-1)?.[1]
}

/**
 * The start of the message about the clean-up after a failure (dockershim prints both in one line), else the text's
 * end.
 */
export function aftermathOf(text: string): number {
  const at = text.search(/,\s+failed\s+to\s+(?:clean\s+up\s+sandbox\s+container|teardown\s+pod)/)
  return at < 0 ? text.length : at
}

function all(text: string, pattern: RegExp): readonly RegExpExecArray[] {
  return [...text.matchAll(new RegExp(pattern, 'g'))]
}

function layer(who: string, match: RegExpExecArray): Layer {
  return { who, words: match[0], from: match.index, to: match.index + match[0].length }
}
