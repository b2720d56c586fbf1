// SPDX-License-Identifier: Apache-2.0
// Notices a firewall's reload that removes trestle's accept with its rules: compares deletions that nft reports with
// the accept's present and former chains. iptables-legacy reports no deletions.

import { deletedByOthers, hadAccept } from '../../../plan/agent/kernel-news.ts'
import { type ChainPlace, samePlace } from '../../../plan/rules/host-accept.ts'
import { readMarkAccept } from '../../../system/firewalls/mark-accept.ts'

/** Collects the deletions of one transaction, which come rule by rule. */
const soonMs = 100

/** A reload in several steps may add its drop after the look, so a second look follows after this time of quiet. */
const againMs = 3000

export interface AcceptNews {
  /** Receives a line of `nft monitor`. */
  readonly onLine: (line: string) => void
  /** Records the accept's present chains. */
  readonly learn: () => void
}

/** `ask`: called when the accept may be gone. */
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
    // A network's first pod may have put the accept there since the last round.
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

/** The accept's chains by the state; none while the state is unreadable. */
function acceptPlaces(): readonly ChainPlace[] {
  try {
    return readMarkAccept()?.places ?? []
  } catch {
    return []
  }
}
