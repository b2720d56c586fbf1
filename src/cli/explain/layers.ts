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

/** Patterns of callers. */
const callers: readonly (readonly [who: string, pattern: RegExp])[] = [
  [
    'kubelet',
    /FailedCreatePodSandBox|Failed\s+(?:to\s+)?create\s+pod\s+sandbox|(?:Run|Stop)PodSandbox\s+from\s+runtime\s+service\s+failed|(?:Create|Kill)PodSandbox(?:Error|\s+for\s+pod)?|networkPlugin\s+\w+\s+failed\s+to\s+(?:set\s+up|teardown)\s+pod\s+"[^"]*"(?:\s+network)?|Error\s+syncing\s+pod|error\s+killing\s+pod/i,
  ],
  ['the runtime, over CRI', /rpc\s+error:\s+code\s+=\s+\w+\s+desc\s+=/],
  ['containerd', /failed\s+to\s+(?:setup|destroy)\s+network\s+for\s+sandbox\s+"[^"]*"/],
  [
    'CRI-O or podman',
    /failed\s+to\s+(?:create|destroy)\s+pod\s+network\s+sandbox\s+\S+|error\s+(?:adding|removing|while\s+adding)\s+pod\s+\S* ?(?:to|from)\s+CNI\s+network\s+"[^"]*"|error\s+configuring\s+network\s+namespace\s+for\s+container\s+\S+/i,
  ],
  ['nerdctl', /failed\s+to\s+call\s+cni\.(?:Setup|Remove)/],
  [
    'Multus',
    /error\s+adding\s+container\s+to\s+network\s+"[^"]*"|CNI\s+request\s+failed\s+with\s+status\s+\d+|CmdAdd\s+\(shim\)|Multus:/,
  ],
]

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
