// SPDX-License-Identifier: Apache-2.0
// `trestle map`: a picture of the node's network, as a tree of text or as SVG.

import { writeFileSync } from 'node:fs'
import { openRemovingContext } from '../verbs/context.ts'
import { unwritable } from './bundle.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { lookAtPicture, type NodeLink, type Picture, type PodInterface } from './network-picture.ts'
import { print } from './output.ts'
import { requireRoot } from './self.ts'

export const mapCommand: Command = {
  name: 'map',
  words: '',
  maxWords: 0,
  summary: "draw the node's network: uplinks, bridges, pods, addresses, ports, routes",
  description:
    'Draws uplinks with the routes to pods of other nodes, bridges with their pods, and routed pods by their network.',
  options: { svg: { type: 'string', value: 'FILE', help: 'write an SVG file' } },
  examples: ['trestle map', 'trestle map --svg node.svg'],
  run,
}

/** A box of the picture, with what belongs to it. */
export interface Branch {
  readonly kind: 'uplink' | 'bridge' | 'network'
  readonly title: string
  readonly lines: readonly string[]
  readonly pods: readonly PodInterface[]
}

async function run(input: Input): Promise<number> {
  requireRoot('map', 'it reads the state of the node')
  const picture = await lookAtPicture(openRemovingContext().machine)
  const branches = branchesOf(picture)
  const file = input.values['svg'] as string | undefined
  if (file === undefined) {
    const text = treeText(picture.node, branches)
    return print(input, { command: 'map', document: { ...picture }, text, code: exitCode.fine })
  }
  try {
    writeFileSync(file, svgText(picture.node, branches), { flag: 'wx' })
  } catch (cause) {
    throw unwritable(file, cause)
  }
  return print(input, { command: 'map', document: { file }, text: `wrote ${file}\n`, code: exitCode.fine })
}

function branchesOf({ links, pods, routes }: Picture): readonly Branch[] {
  const branches = links.map((link) => linkBranch(link, routes, pods))
  const routed = pods.filter(({ master }) => !links.some(({ name, kind }) => kind === 'bridge' && name === master))
  for (const network of new Set(routed.map((pod) => pod.network))) {
    const own = routed.filter((pod) => pod.network === network)
    branches.push({ kind: 'network', title: `network ${network}, a link for each pod`, lines: [], pods: own })
  }
  const order = ['uplink', 'bridge', 'network']
  return branches.toSorted((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind))
}

function linkBranch(link: NodeLink, routes: readonly string[], pods: readonly PodInterface[]): Branch {
  const { name, addresses, kind } = link
  const own = routes.filter((route) => route.endsWith(` dev ${name}`))
  return {
    kind: kind === 'bridge' ? 'bridge' : 'uplink',
    title: `${kind === 'other' ? 'link' : kind} ${name}  ${addresses.join('  ')}`.trimEnd(),
    lines: own.map((route) => `to ${route.slice(0, -` dev ${name}`.length)}`),
    pods: kind === 'bridge' ? pods.filter(({ master }) => master === name) : [],
  }
}

function podLines({ pod, ifName, addresses, link, ports }: PodInterface): readonly string[] {
  return [`${pod}  ${ifName}  ${addresses.join('  ')}${link === undefined ? '' : `  by ${link}`}`, ...ports]
}

function treeText(node: string, branches: readonly Branch[]): string {
  const lines = [node]
  for (const [at, branch] of branches.entries()) {
    const isLast = at === branches.length - 1
    const [joint, indent] = isLast ? ['`- ', '   '] : ['|- ', '|  ']
    lines.push(`${joint}${branch.title}`)
    const entries = [...branch.lines.map((line) => [line]), ...branch.pods.map(podLines)]
    for (const [index, [first = '', ...more]] of entries.entries()) {
      const isEnd = index === entries.length - 1
      lines.push(`${indent}${isEnd ? '`- ' : '|- '}${first}`)
      for (const line of more) lines.push(`${indent}${isEnd ? '   ' : '|  '}   port ${line}`)
    }
  }
  return `${lines.join('\n')}\n`
}

const lineHeight = 18
const colours = { uplink: '#dbe9ff', bridge: '#e2f5e1', network: '#fff1d6' } as const

/** Boxes below each other, the node's own name above; each with its pods beside it. */
function svgText(node: string, branches: readonly Branch[]): string {
  const [left, podsAt, width] = [20, 520, 1180]
  let y = 60
  const parts: string[] = []
  for (const branch of branches) {
    const own = [branch.title, ...branch.lines].map((line) => (branch.pods.length > 0 ? cut(line) : line))
    const pods = branch.pods.map(podLines)
    const podRows = pods.reduce((sum, lines) => sum + lines.length + 1, 0)
    const height = Math.max(own.length, podRows) * lineHeight + 14
    parts.push(
      `<rect x="${left}" y="${y}" width="${width - 40}" height="${height}" rx="6" fill="${colours[branch.kind]}"/>`,
    )
    for (const [at, line] of own.entries()) parts.push(textAt(left + 12, y + 22 + at * lineHeight, line, at === 0))
    let podY = y + 22
    for (const lines of pods) {
      const boxHeight = lines.length * lineHeight + 8
      parts.push(
        `<rect x="${podsAt}" y="${podY - 15}" width="620" height="${boxHeight}" rx="4" fill="#fff" stroke="#99a"/>`,
      )
      for (const [at, line] of lines.entries()) parts.push(textAt(podsAt + 8, podY + at * lineHeight, line, false))
      podY += boxHeight + 10
    }
    y += height + 12
  }
  const style = 'text{font:13px ui-monospace,monospace;fill:#223}'
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y}" width="${width}" height="${y}">`
  return `${head}<style>${style}</style><rect width="100%" height="100%" fill="#fff"/>${textAt(left, 36, node, true)}${parts.join('')}</svg>\n`
}

/** What fits beside the pods. */
function cut(line: string): string {
  return line.length <= 58 ? line : `${line.slice(0, 55)}...`
}

function textAt(x: number, y: number, text: string, isBold: boolean): string {
  const safe = text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`).replace(/[\0-\x08\x0b-\x1f]/g, '?')
  return `<text x="${x}" y="${y}"${isBold ? ' font-weight="bold"' : ''} xml:space="preserve">${safe}</text>`
}
