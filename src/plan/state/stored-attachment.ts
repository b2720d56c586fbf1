// SPDX-License-Identifier: Apache-2.0
// What trestle made for an attachment, as records have it on disk. Text and numbers are what compile/ writes into
// batches, which checks them there.

import type { Dns } from '../../cni/model/route.ts'
import type {
  AttachmentKey,
  AttachmentSpec,
  BandwidthSpec,
  BridgePort,
  ChainedSpec,
  HostPort,
  HostPortSpec,
  LinkEnd,
  LinkSettings,
  MacvlanSpec,
  PodAddress,
  PodRoute,
  PortVlans,
  SbrSpec,
  Shaper,
  TuningSpec,
} from '../model/attachment.ts'
import {
  believed,
  flag,
  isTrue,
  listOf,
  number,
  only,
  optional,
  optionalFlag,
  optionalNumber,
  optionalText,
  optionalTexts,
  optionalWord,
  stored,
  text,
  textMap,
  word,
} from './stored.ts'

export const key = stored<AttachmentKey>({
  network: ['network', text],
  containerId: ['containerId', text],
  ifName: ['ifName', text],
  role: ['role', word],
})

/** 4 or 6. */
export const family = only<4 | 6>((value) => value === 4 || value === 6)

const linkEnd = stored<LinkEnd>({ name: ['name', text], mac: ['mac', text], mtu: ['mtu', optionalNumber] })

const vlans = stored<PortVlans>({
  access: ['access', number],
  trunk: ['trunk', listOf(number)],
  keepDefault: ['keepDefault', flag],
})

const port = stored<BridgePort>({
  bridge: ['bridge', text],
  hairpin: ['hairpin', flag],
  isolated: ['isolated', flag],
  vlans: ['vlans', optional(vlans)],
  onlyMac: ['onlyMac', optionalText],
})

const address = stored<PodAddress>({ address: ['address', text], gateway: ['gateway', optionalText] })

const route = stored<PodRoute>({
  dst: ['dst', text],
  gw: ['gw', optionalText],
  mtu: ['mtu', optionalNumber],
  advmss: ['advmss', optionalNumber],
  priority: ['priority', optionalNumber],
  table: ['table', optionalNumber],
  scope: ['scope', optionalNumber],
  src: ['src', optionalText],
  onlink: ['onlink', optional(isTrue)],
  protocol: ['protocol', optionalText],
})

const dns = stored<Dns>({
  nameservers: ['nameservers', optionalTexts],
  domain: ['domain', optionalText],
  search: ['search', optionalTexts],
  options: ['options', optionalTexts],
})

const hostPort = stored<HostPort>({
  family: ['family', family],
  protocol: ['protocol', word],
  hostIp: ['hostIp', optionalText],
  hostPort: ['hostPort', number],
  podIp: ['podIp', text],
  containerPort: ['containerPort', number],
})

const hostPorts = stored<HostPortSpec>({
  link: ['link', text],
  snat: ['snat', flag],
  masqAll: ['masqAll', flag],
  conditionsV4: ['conditionsV4', optionalTexts],
  conditionsV6: ['conditionsV6', optionalTexts],
  ports: ['ports', listOf(hostPort)],
})

const shaper = stored<Shaper>({ rateBits: ['rateBits', number], burstBytes: ['burstBytes', number] })

const egress = stored<NonNullable<BandwidthSpec['egress']>>({
  rateBits: ['rateBits', number],
  burstBytes: ['burstBytes', number],
  ifb: ['ifb', text],
  ifbMac: ['ifbMac', text],
  ifbAlias: ['ifbAlias', optionalText],
})

const bandwidth = stored<BandwidthSpec>({
  link: ['link', text],
  mtu: ['mtu', number],
  ingress: ['ingress', optional(shaper)],
  egress: ['egress', optional(egress)],
})

const settings = stored<LinkSettings>({
  mac: ['mac', optionalText],
  mtu: ['mtu', optionalNumber],
  promisc: ['promisc', optionalFlag],
  allmulti: ['allmulti', optionalFlag],
  txQLen: ['txQLen', optionalNumber],
})

const tuning = stored<TuningSpec>({
  sysctl: ['sysctl', textMap],
  promisc: ['promisc', flag],
  txQLen: ['txQLen', optionalNumber],
  allmulti: ['allmulti', optionalFlag],
  mac: ['mac', optionalText],
  mtu: ['mtu', optionalNumber],
  before: ['before', optional(settings)],
})

const source = stored<SbrSpec['sources'][number]>({
  from: ['from', text],
  table: ['table', number],
  routes: ['routes', listOf(route)],
})

const sbr = stored<SbrSpec>({ sources: ['sources', listOf(source)], moved: ['moved', listOf(route)] })

const chained = stored<ChainedSpec>({
  dev: ['dev', text],
  hostLink: ['hostLink', optionalText],
  isolated: ['isolated', optional(isTrue)],
  ingressPolicy: ['fence', optionalWord],
})

const macvlan = stored<MacvlanSpec>({ master: ['master', text], mode: ['mode', word] })

export const attachment = stored<AttachmentSpec>({
  key: ['key', key],
  mode: ['mode', word],
  mtu: ['mtu', number],
  host: ['host', optional(linkEnd)],
  pod: ['pod', optional(linkEnd)],
  port: ['port', optional(port)],
  ips: ['ips', listOf(address)],
  routes: ['routes', listOf(route)],
  defaultRoutes: ['defaultRoutes', listOf(route)],
  podLinkDown: ['podLinkDown', flag],
  dad: ['dad', flag],
  dns: ['dns', believed(dns)],
  selfHairpin: ['selfHairpin', flag],
  ingressPolicy: ['fence', optionalWord],
  hostPorts: ['hostPorts', optional(hostPorts)],
  bandwidth: ['bandwidth', optional(bandwidth)],
  tuning: ['tuning', optional(tuning)],
  sbr: ['sbr', optional(sbr)],
  chained: ['chained', optional(chained)],
  macvlan: ['macvlan', optional(macvlan)],
  isPool: ['isPool', flag],
  cooldownS: ['cooldownS', number],
})
