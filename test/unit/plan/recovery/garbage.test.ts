// SPDX-License-Identifier: Apache-2.0
// gc without the runtime: what goes, what is reported, what stays (plugins#1047).

import { describe, expect, it } from 'vitest'
import { type AttachmentFacts, judgeAttachment } from '../../../../src-before/plan/recovery/verdicts.ts'
import { intent as record } from '../../model/intent-record.ts'

const dead: AttachmentFacts = { record, netns: 'gone', host: 'here', isListed: false, isOld: true }

describe('judge', () => {
  it.each<[string, Partial<AttachmentFacts>, string]>([
    ['unlisted, namespace gone, old', {}, 'collect'],
    ['no runtime to ask, namespace gone, old', { isListed: undefined }, 'collect'],
    ['of an earlier boot, whatever else is said', { host: 'ended', netns: 'live', isListed: true }, 'collect'],
    ['of another host, whatever else is said', { host: 'elsewhere' }, 'report'],
    ['listed, namespace gone', { isListed: true }, 'keep'],
    ['unlisted, namespace there', { netns: 'live' }, 'report'],
    ['no runtime to ask, namespace there', { netns: 'live', isListed: undefined }, 'keep'],
    ['namespace not to be seen', { netns: 'unknown' }, 'report'],
    ['not older than five minutes', { isOld: false }, 'keep'],
  ])('%s', (_, changes, verdict) => {
    expect(judgeAttachment({ ...dead, ...changes }).verdict).toBe(verdict)
  })

  it.each<Partial<AttachmentFacts>>([{}, { host: 'ended' }])(
    'tells what another plugin keeps of what is collected %j',
    (changes) => {
      const { verdict, why } = judgeAttachment({ ...dead, ...changes, record: { ...record, delegatedIpam: 'dhcp' } })
      expect({ verdict, why }).toEqual({ verdict: 'collect', why: expect.stringMatching(/; its lease stays .* dhcp$/) })
    },
  )
})
