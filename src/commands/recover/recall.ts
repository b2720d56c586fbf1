// SPDX-License-Identifier: Apache-2.0
// The first ADD of a network may be the first after somebody removed the state directory under live pods. What is
// rediscovered of those is reserved before anything is given out: no live pod loses its address or host port.

import { existsSync } from 'node:fs'
import type { NetConf } from '../../cni/model/net-conf.ts'
import type { AttachmentKey } from '../../plan/model/attachment.ts'
import { type NetworkFiles, networkFiles } from '../../system/files/state.ts'
import type { CallContext } from '../call/context.ts'
import { reserveNeighbours } from './recall-neighbours.ts'
import { rediscover } from './rediscover.ts'
import { reserveFound } from './reserve-found.ts'

/** Reserves what live pods have, of networks that nothing is known of. Once per network and boot. */
export async function recallPods(context: CallContext, files: NetworkFiles, conf: NetConf): Promise<void> {
  if (existsSync(files.network)) return
  const isMeant = ({ network }: AttachmentKey) => !existsSync(networkFiles(network).network)
  await reserveFound(context, (await rediscover(context, { isMeant, remembered: conf })).found)
  reserveNeighbours(context, conf)
}
