// SPDX-License-Identifier: Apache-2.0
// What `try` must not find after DEL: links, state, or rules of its pods. What the network's
// attachments share stays by design: the bridge and the base of the nft table.

import { bareAddress } from '../../cni/model/address.ts'
import { listArguments } from '../../compile/nft.ts'
import { readRulesetWords } from '../../compile/read-foreign-nft.ts'
import { namesIfThere } from '../../system/files/if-there.ts'
import { must } from './lab.ts'
import type { Pod, Trial } from './pods.ts'

const stateRoot = '/run/trestle/networks'
const perPod = ['attachments', 'addresses', 'pending']

/** Reports what is left of the pods, or that nothing is. */
export async function orphanSteps(trial: Trial, pods: readonly Pod[]): Promise<void> {
  const left = [...(await linksLeft(trial, pods)), ...stateLeft(), ...(await rulesLeft(trial, pods))]
  const summary = 'nothing is left of the pods: links, state, rules'
  trial.report.add(left.length === 0 ? { status: 'ok', summary } : { status: 'fail', summary, detail: left.join('\n') })
}

async function linksLeft(trial: Trial, pods: readonly Pod[]): Promise<readonly string[]> {
  const onNode = await linkNames(trial, [])
  const veths = onNode.filter(({ kind, name }) => kind === 'veth' && name !== 'uplink')
  const inPods = await Promise.all(
    pods.map(async ({ label, attachment }) => {
      const links = await linkNames(trial, ['-n', attachment.containerId])
      return links.filter(({ name }) => name === attachment.ifName).map(({ name }) => `${name} in ${label}`)
    }),
  )
  return [...veths.map(({ name }) => `${name} on the node`), ...inPods.flat()]
}

async function linkNames(trial: Trial, where: readonly string[]) {
  type Link = { ifname: string; linkinfo?: { info_kind?: string } }
  const links = JSON.parse(await must(trial.run, ['ip', ...where, '-j', '-d', 'link', 'show'])) as Link[]
  return links.map((link) => ({ name: link.ifname, kind: link.linkinfo?.info_kind }))
}

function stateLeft(): readonly string[] {
  return namesIfThere(stateRoot).flatMap((network) =>
    perPod.flatMap((kind) =>
      namesIfThere(`${stateRoot}/${network}/${kind}`).map((name) => `${stateRoot}/${network}/${kind}/${name}`),
    ),
  )
}

/** Rules and elements that name a pod's address. */
async function rulesLeft(trial: Trial, pods: readonly Pod[]): Promise<readonly string[]> {
  const { code, stdout } = await trial
    .run({ file: 'nft', args: listArguments.ofEverything })
    .catch(() => ({ code: 1, stdout: '' }))
  if (code !== 0) return []
  const words = readRulesetWords(stdout)
  const addresses = pods.flatMap((pod) => pod.ips.map(({ address }) => bareAddress(address)))
  return addresses.filter((address) => words.has(address)).map((address) => `${address} in the nft ruleset`)
}
