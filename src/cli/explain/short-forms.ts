// SPDX-License-Identifier: Apache-2.0
// How people retell a known error in a few words: the thing that is named, and what is wrong with it, in either order.
// Looked for only where nothing is known by words of a program.

import type { KnownError } from './known/known-error.ts'

/** `id`: the known error that is meant. */
interface ShortForm {
  readonly id: KnownError['id']
  readonly pattern: RegExp
}

/** As much as may stand between two words of one sentence. */
const near = '(?:(?!\\. )[^\\n]){0,50}?'
const notThere = "(?:does not|doesn't|not) exist|not (?:there|found|installed)"
const gone = `(?:missing|empty|absent|${notThere}|(?:cannot|can't) find|no (?:such )?file)`
const off = '(?:missing|unset|disabled|(?:is|=) ?(?:0\\b|off\\b)|not (?:loaded|set|enabled|turned on|there)|turned off)'
const notReached = "(?:cannot|can't|could not|unable to) (?:reach|connect|access|ping)"
const unanswered = `(?:time[sd]? ?out|timeout|refused|unreachable|no route|fail(?:s|ed)?|${notReached})`
const socket = '\\b(?:multus|ovn|cni|calico|flannel|kube-router|antrea)[\\w./-]{0,60}\\.sock\\b'
const builtIn = '(?:loopback|bridge|portmap|host-local|macvlan|ipvlan|ptp|flannel)'

/** The first that a text has counts. The things are hardly spoken of where no pod has a network. */
export const shortForms: readonly ShortForm[] = [
  { id: 'plugin-not-found', pattern: /failed to find plugin\b(?= in (?:the )?path\b|(?! [\w"@]))/ },
  { id: 'plugin-not-found', pattern: new RegExp(`failed to find plugin ["'\`]?${builtIn}["'\`]`) },
  either('flannel-subnet-env', '(?:/run/flannel/)?subnet\\.env\\b', gone),
  either('calico-nodename', '/var/lib/calico/nodename\\b', gone),
  either('plugin-not-found', `(?:/opt/cni/bin\\b|\\bCNI binar\\w+|\\b${builtIn} (?:CNI )?plugin\\b)`, gone),
  either('no-network-config', '/etc/cni/net\\.d\\b', '(?:empty|no (?:files?|configuration|config)\\b)'),
  either('br-netfilter', '\\b(?:br[_-]netfilter|br(?:idge)?-nf-call-\\w+)', off),
  either('forwarding-off', '\\b(?:net\\.ipv[46]\\.\\S{0,20})?(?:ip_forward|(?:IP|IPv[46]) forwarding)\\b', off),
  either('api-unreachable', '\\b(?:10|172)(?:\\.\\d{1,3}){2}\\.1:443\\b', unanswered),
  either('cilium-agent', '\\bcilium\\.sock\\b', gone),
  either('agent-socket', socket, gone),
  either('bridge-other-address', '\\b(?:cni|cbr)0\\b', 'already has an IP address different'),
  either('bridge-other-address', '\\b(?:cni|cbr)0\\b', 'an? (?:different|other|wrong) (?:IP|address|subnet)'),
  either('interface-exists', '\\bveth\\w{0,12}\\b', 'file exists'),
  either('netns-gone', '\\b(?:netns|network namespace)\\b', "(?:(?:does not|doesn't) exist|not found|is gone)"),
  either('kernel-module', '\\b(?:vxlan|geneve|ipvlan|macvlan|veth)\\b', 'operation not supported'),
  {
    id: 'agent-capability-refused',
    pattern: /\b(?:unable to |can't )?apply (?:caps|capabilities): operation not permitted/,
  },
  {
    id: 'dockershim-checkpoint-damaged',
    pattern:
      /\b(?:corrupt\w*|damaged|empty) dockershim (?:sandbox )?checkpoint|\bdockershim (?:sandbox )?checkpoint[^\n]{0,30}(?:corrupt|damaged|empty)/,
  },
  {
    id: 'nomad-network-missing',
    pattern: /CNI config dir is not set or does not exist\b[^\n]{0,80}|\bno CNI plugins found: cni_path=\S{0,80}/,
  },
  {
    id: 'manifest-invalid',
    pattern: /no matches for kind "DaemonSet" in version "(?:extensions\/v1beta1|apps\/v1beta2)"/,
  },
  { id: 'xtables-lock', pattern: /\bxtables[ -]lock\b[^\n]{0,40}\b(?:held|busy|by another)/ },
  { id: 'name-reserved', pattern: /\bsandbox name\b[^\n]{0,60}\breserved\b/ },
  { id: 'hairpin-off', pattern: /\bpod (?:cannot|can't|can not|could not) (?:reach|access|connect to) itself\b/ },
]

/** The thing and what is wrong with it, at most half a sentence apart. */
function either(id: string, thing: string, wrong: string): ShortForm {
  return { id, pattern: new RegExp(`${thing}${near}${wrong}|${wrong}${near}${thing}`) }
}
