// SPDX-License-Identifier: Apache-2.0
// A TCP connection between pods of two nodes, over which a line goes and comes back every 50 ms, and what became of it.

import type { Cluster } from './cluster.ts'
import { type AppPod, whereIs } from './pods.ts'

/** `isWhole`: each line that was sent came back, on one connection. */
export interface StreamEnd {
  readonly isWhole: boolean
  readonly lines: number
  readonly longestGapMs: number
}

let opened = 0

/** Opens one; `address`: one of `to`'s. Returns when the first line has come back. */
export async function openStream(
  cluster: Cluster,
  { from, to, address }: { readonly from: AppPod; readonly to: AppPod; readonly address: string },
): Promise<{ readonly end: () => Promise<StreamEnd> }> {
  opened += 1
  const [port, file] = [9100 + opened, `${cluster.dir}/stream-${opened}`]
  const family = address.includes(':') ? 6 : 4
  const target = family === 6 ? `TCP6:[${address}]:${port}` : `TCP4:${address}:${port}`
  const [client, server] = [from, to].map(async (pod) => await whereIs(cluster, pod.node, `${pod.addresses[0]}/`))
  const serve = `nsenter --net=${await server} socat TCP${family}-LISTEN:${port},reuseaddr EXEC:cat`
  await cluster.must(to.node, `nohup ${serve} </dev/null >${file}.server 2>&1 &`)
  const send = `i=0; while [ ! -e ${file}.end ]; do i=$((i+1)); echo $i; sleep 0.05; done; echo $i > ${file}.sent`
  const stamp = `while read -r line; do echo "$line $EPOCHREALTIME"; done`
  // When its input has ended socat waits half a second for the rest (-t), which is too short on a busy machine.
  const call = `nsenter --net=${await client} socat -t 20 - ${target},retry=50,interval=0.1`
  await cluster.must(
    from.node,
    `nohup bash -c '(${send}) | ${call} | (${stamp}) > ${file}' </dev/null >${file}.err 2>&1 &`,
  )
  await cluster.must(
    from.node,
    `for i in $(seq 200); do [ -s ${file} ] && exit 0; sleep 0.05; done; cat ${file}.err; exit 1`,
  )
  const end = async (): Promise<StreamEnd> => {
    const done = `touch ${file}.end; for i in $(seq 400); do [ -s ${file}.sent ] && break; sleep 0.05; done`
    await cluster.must(from.node, done)
    const sent = Number(await cluster.must(from.node, `cat ${file}.sent`))
    const arrived = `for i in $(seq 200); do [ "$(wc -l < ${file})" -ge ${sent} ] && break; sleep 0.05; done; cat ${file}`
    const came = (await cluster.must(from.node, arrived)).trim().split('\n')
    const times = came.map((line) => Number(line.split(' ')[1]))
    const gaps = times.slice(1).map((time, at) => time - (times[at] ?? time))
    return { isWhole: came.length === sent, lines: sent, longestGapMs: Math.round(Math.max(...gaps) * 1000) }
  }
  return { end }
}
