// SPDX-License-Identifier: Apache-2.0
// Leftovers that `try` must not find after DEL: links, state, or rules of its pods. The bridge and the base of the nft
// table stay by design.

import { bareAddress } from '../../cni/model/address.ts'
import { listArguments } from '../../compile/nft.ts'
import { readRulesetWords } from '../../compile/read-foreign-nft.ts'
import { namesIfThere } from '../../system/files/if-there.ts'
import type { Trial } from '../probe/pods.ts'
import { runIn } from '../probe/reach.ts'
import { must } from './lab.ts'

const stateRoot = '/run/trestle/networks'
const perPod = ['attachments', 'addresses', 'pending']

export async function whatIsLeft(trial: Trial): Promise<readonly string[]> {
  return [...(await linksLeft(trial)), ...stateLeft(), ...(await rulesLeft(trial))]
}

async function linksLeft(trial: Trial): Promise<readonly string[]> {
  const { runtime, pods } = trial
  const show = ['ip', '-j', '-d', 'link', 'show']
  const onNode = linksIn(await must(runtime.run, show))
  const veths = onNode.filter(({ linkinfo, ifname }) => linkinfo?.info_kind === 'veth' && ifname !== 'uplink')
  const inPods = await Promise.all(
    pods.map(async ({ label, attachment }) => {
      const links = linksIn((await runIn(trial, attachment.netns, show)).stdout)
      return links.filter(({ ifname }) => ifname === attachment.ifName).map(({ ifname }) => `${ifname} in ${label}`)
    }),
  )
  return [...veths.map(({ ifname }) => `${ifname} on the node`), ...inPods.flat()]
}

function linksIn(json: string) {
  return JSON.parse(json) as readonly { readonly ifname: string; readonly linkinfo?: { readonly info_kind?: string } }[]
}

function stateLeft(): readonly string[] {
  return namesIfThere(stateRoot).flatMap((network) =>
    perPod.flatMap((kind) =>
      namesIfThere(`${stateRoot}/${network}/${kind}`).map((name) => `${stateRoot}/${network}/${kind}/${name}`),
    ),
  )
}

/** Rules and elements that name a pod's address. */
async function rulesLeft({ runtime, pods }: Trial): Promise<readonly string[]> {
  const listed = runtime.run({ file: 'nft', args: listArguments.ofEverything })
  const { code, stdout } = await listed.catch(() => ({ code: 1, stdout: '' }))
  if (code !== 0) return []
  const words = readRulesetWords(stdout)
  const addresses = pods.flatMap((pod) => pod.ips.map(({ address }) => bareAddress(address)))
  return addresses.filter((address) => words.has(address)).map((address) => `${address} in the nft ruleset`)
}
