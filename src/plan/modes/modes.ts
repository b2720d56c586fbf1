// SPDX-License-Identifier: Apache-2.0
// Every mode, by its name in the configuration. A new one that is missing here does not compile.

import type { MacvlanConf, Mode, NetConf } from '../../cni/model/net-conf.ts'
import type { AttachmentSpec } from '../model/attachment.ts'
import { bridge } from './bridge.ts'
import { chained } from './chained.ts'
import { loopback } from './loopback.ts'
import { macvlan } from './macvlan.ts'
import type { InterfaceMaker, ModeRoom } from './mode.ts'
import { ptp } from './ptp.ts'

const modes: Readonly<Record<Mode, ModeRoom>> = { bridge, ptp, macvlan, chained, loopback }

/**
 * The mode of a configuration, or of a record. A record of a later release may have one that this one does not know: it
 * is taken for a bridge's, whose operations are about nothing but what the spec has.
 */
export function modeOf({ mode }: Pick<NetConf | AttachmentSpec, 'mode'>): ModeRoom {
  return modeNamed(mode) ?? bridge
}

/** The mode of that name, where there is one. */
export function modeNamed(name: unknown): ModeRoom | undefined {
  return typeof name === 'string' && Object.hasOwn(modes, name) ? modes[name as Mode] : undefined
}

/** What makes the interface of a main attachment. Throws where the mode makes none: its order never asks. */
export function makerOf({ mode }: Pick<NetConf, 'mode'>): InterfaceMaker {
  const { makes } = modes[mode]
  if (makes === undefined) throw new Error(`mode ${mode} makes no interface`)
  return makes
}

/** The bridge of the configuration, where it has one of its own. */
export function bridgeOf(conf: NetConf): string | undefined {
  return modes[conf.mode].makes?.bridgeOf(conf)
}

/** The link that the configuration's pods are put on, where its mode has one. */
export function masterOf(conf: NetConf): MacvlanConf | undefined {
  return modes[conf.mode].makes?.masterOf(conf)
}

/** The modes whose pods have their gateway on the host. */
export const gatewayModes: readonly Mode[] = (Object.keys(modes) as Mode[]).filter(
  (mode) => modes[mode].makes?.hasHostGateway === true,
)
