// SPDX-License-Identifier: Apache-2.0
// Services of IPVS from /proc/net/ip_vs (net/netfilter/ipvs/ip_vs_ctl.c, ip_vs_info_seq_show). kube-proxy in mode ipvs
// gives each service's address to the node (kube-ipvs0): a host port on every address of the node has it, too.

import { formatAddress } from '../../cni/address.ts'
import type { HostPort } from '../../model/attachment.ts'

/** `protocol` and `family` as those of a host port. */
interface IpvsService {
  readonly protocol: string
  readonly family: 4 | 6
  readonly address: string
  readonly port: number
}

/** The services of the file, in its order; other lines name the servers behind them. */
export function readIpvsServices(text: string): readonly IpvsService[] {
  return text.split('\n').flatMap((line) => {
    const [, protocol = '', v4, v6, port = ''] =
      /^(TCP|UDP|SCTP) +(?:([0-9A-F]{8})|\[([0-9A-Fa-f:]+)\]):([0-9A-F]{4}) /.exec(line) ?? []
    const hex = v4 ?? v6?.replaceAll(':', '') ?? ''
    if (hex.length !== 8 && hex.length !== 32) return []
    const family = v4 === undefined ? 6 : 4
    const address = formatAddress({ family, value: BigInt(`0x${hex}`) })
    return [{ protocol: protocol.toLowerCase(), family, address, port: Number.parseInt(port, 16) }]
  })
}

/** Whether the host port takes what is for the service. */
export function catches({ protocol, family, hostPort, hostIp }: HostPort, service: IpvsService): boolean {
  const isSame = protocol === service.protocol && family === service.family && hostPort === service.port
  return isSame && (hostIp === undefined || hostIp === service.address)
}
