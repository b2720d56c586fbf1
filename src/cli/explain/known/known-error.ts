// SPDX-License-Identifier: Apache-2.0
// What is written down for an error that others print.

import type { ErrorId } from '../../../cni/model/error-code.ts'

/** An error of kubelet, a runtime, a plugin, an agent, a tool or the kernel, and what to make of it. */
export interface KnownError {
  /** Stable, and none of lint's. */
  readonly id: string
  /** Its words. A blank stands for any white space, also the end of a line. */
  readonly pattern: RegExp
  /** Who says it. */
  readonly who: string
  readonly meaning: string
  /** The usual causes, the likely one first. */
  readonly causes: readonly [string, ...string[]]
  /** What to look at: commands to paste. */
  readonly look: readonly string[]
  readonly cure: string
  /** A command that does it, to paste. */
  readonly run?: string
  /** Findings of `trestle lint` that go with it. */
  readonly checks?: readonly string[]
  /** It quotes another's error: the cause only where the text has nothing further in. */
  readonly wraps?: true
  /** Words that programs without any pod network print too: they count only in a text that speaks of one, and not of
   * an image, a volume or a webhook in the same line. */
  readonly needsNetwork?: true
  /** Nothing is further in: where it stands behind another error in a line, the other passed it on. */
  readonly innermost?: true
  /** Words of the upstream plugins that trestle prints as well, where its code says more. */
  readonly alsoOurs?: true
  /** An error of ours with the same words, which says more where the text has its id. */
  readonly sameAs?: ErrorId
  /** A line with these words is about something else. */
  readonly unless?: RegExp
}

/** One of these wordings, a line each where there are many. */
export function oneOf(...wordings: readonly RegExp[]): RegExp {
  return new RegExp(wordings.map(({ source }) => source).join('|'), 'i')
}

/** Of an image that could not be pulled, a volume or a hook of the API server: the same words, another matter. */
export const otherMatters =
  /failed to (?:pull|resolve (?:image|reference))|pulling image|sandbox image|ImagePull|PullImage|registry endpoint|\/v2\/\S*manifests|MountVolume(?![^\n]{0,160}\/sys\/fs\/bpf)|(?<!multus-)webhook(?! "multus|Configuration|s\[\d)/i
