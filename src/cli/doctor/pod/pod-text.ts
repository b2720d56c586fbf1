// SPDX-License-Identifier: Apache-2.0
// What is known of a pod, as people read it: a title for each kind, one line for each thing.

import { oneLine } from '../../../cni/model/error.ts'
import { rowsOf } from '../../shell/rows.ts'
import type { PodAttachment, PodFacts } from './pod-facts.ts'

const titleWidth = 11

/** The part of the report above the groups. `width`: of the screen, in columns. */
export function podText({ asked, sandboxes, attachments }: PodFacts, width: number): string {
  const rows = (title: string, texts: readonly string[]) => rowsBehind(title, texts, width)
  const listed = sandboxes.map(({ id, isReady }) => `${id.slice(0, 13)} (${isReady ? 'ready' : 'not ready'})`)
  const known =
    attachments.length === 0 ? ['no record of trestle, no result of libcni: no ADD of it went well here'] : []
  return [
    `pod ${oneLine(asked)}\n`,
    rows('sandbox', listed),
    rows('network', known),
    ...attachments.map((each) => attachmentText(each, rows)),
  ].join('')
}

type Rows = (title: string, texts: readonly string[]) => string

function attachmentText(attachment: PodAttachment, rows: Rows): string {
  const { containerId, network, ifName, source, createdAt, pod } = attachment
  const since = createdAt === undefined ? '' : `, since ${createdAt}`
  const who = source === 'record' ? 'trestle' : 'another plugin, by the result that libcni keeps'
  const of = pod === undefined ? '' : ` of ${pod}`
  return [
    rows('network', [`${network}: ${ifName} of container ${containerId.slice(0, 13)}${of}, made by ${who}${since}`]),
    rows(
      'namespace',
      [attachment.netns].filter((text) => text !== ''),
    ),
    rows('link', attachment.links),
    rows('address', attachment.addresses),
    rows('route', attachment.routes),
    rows('host port', attachment.hostPorts),
    rows('rule', attachment.rules),
    rows('differs', attachment.differences),
    rows('cleanup', attachment.pendingCleanup),
  ].join('')
}

function rowsBehind(title: string, texts: readonly string[], width: number): string {
  const indent = ' '.repeat(titleWidth + 2)
  const lines = texts.map((text, at) => {
    const broken = rowsOf(oneLine(text), Math.max(40, width - indent.length)).join(`\n${indent}`)
    return `  ${(at === 0 ? title : '').padEnd(titleWidth)}${broken}\n`
  })
  return lines.join('')
}
