// SPDX-License-Identifier: Apache-2.0
// Firewalls that are reloaded take the accept of trestle away with their rules: what nft says was deleted, against the
// places where the accept stands, or has stood while this agent runs. iptables-legacy tells nobody.

import { deletedByOthers, hadAccept } from '../../../plan/agent/kernel-news.ts'
import { type ChainPlace, samePlace } from '../../../plan/rules/host-accept.ts'
import { readMarkAccept } from '../../../system/firewalls/mark-accept.ts'

/** A transaction deletes rule by rule. */
const soonMs = 100

/** A reload in several steps may add its drop when we have looked: once more, after so long without a deletion. */
const againMs = 3000

export interface AcceptNews {
  /** Takes a line of `nft monitor`. */
  readonly onLine: (line: string) => void
  /** Keeps where the accept stands now. */
  readonly learn: () => void
}

/** `ask`: called where the accept may be gone. */
export function openAcceptNews(signal: AbortSignal, ask: () => void): AcceptNews {
  const deleted = new Set<string>()
  let places: readonly ChainPlace[] = []
  let [soon, again]: (NodeJS.Timeout | undefined)[] = []

  const learn = () => {
    const now = acceptPlaces().filter((place) => !places.some((each) => samePlace(each, place)))
    places = [...places, ...now]
  }
  const look = () => {
    soon = undefined
    const all = [...deleted]
    deleted.clear()
    // The first pod of a network may have put it since the last round.
    learn()
    if (!places.some((place) => all.some((each) => hadAccept(place, each)))) return
    ask()
    clearTimeout(again)
    again = setTimeout(ask, againMs)
  }
  const onLine = (line: string) => {
    const what = deletedByOthers(line)
    if (what === undefined) return
    deleted.add(what)
    soon ??= setTimeout(look, soonMs)
  }
  signal.addEventListener('abort', () => {
    clearTimeout(soon)
    clearTimeout(again)
  })
  return { onLine, learn }
}

/** None where state cannot be read now. */
function acceptPlaces(): readonly ChainPlace[] {
  try {
    return readMarkAccept()?.places ?? []
  } catch {
    return []
  }
}
