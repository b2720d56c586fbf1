// SPDX-License-Identifier: Apache-2.0
// Whether this build does what the cases with the whole network measure: a feature left out would look fast.
import { wholeTrestle } from './contenders.mjs'
import { openNode } from './node.mjs'

/** Why trestle's part cannot be measured: a feature that it refuses, or takes and does not do. Undefined when all work. */
export async function notInEffect({ found, scratch }, contender = wholeTrestle(found)) {
  const node = openNode(contender, scratch)
  const pod = node.pod()
  try {
    await node.call('ADD', { pod })
    const { hostPort } = pod.runtimeConfig.portMappings[0]
    const inPod = (...words) => node.exec('nsenter', [`--net=${pod.netns}`, '--', ...words])
    const lacks = [
      node.exec('nft', ['list', 'table', 'inet', 'trestle']).includes(`${hostPort}`) ? '' : 'no host port',
      node.exec('tc', ['qdisc']).includes(' tbf ') ? '' : 'no bandwidth limit',
      inPod('sysctl', '-n', 'net.ipv4.conf.all.log_martians').trim() === '1' ? '' : 'no sysctl',
    ].filter(Boolean)
    return lacks.length === 0 ? undefined : `trestle takes the configuration, but there is ${lacks.join(', ')}`
  } catch (error) {
    return `trestle: ${error.message}`
  } finally {
    await node.close()
  }
}
