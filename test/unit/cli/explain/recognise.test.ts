// SPDX-License-Identifier: Apache-2.0
// Errors as kubelet, the runtimes and the kernel print them, and what `trestle explain` makes of them.

import { describe, expect, it } from 'vitest'
import { diagnoses, isKnownError } from '../../../../src/catalogue/diagnosis.ts'
import { recognise } from '../../../../src/commands/explain/recognise.ts'
import { runCli } from '../../../support/collect.ts'
import { idsOfFamily } from '../../../support/ids.ts'

const sandbox = 'rpc error: code = Unknown desc = failed to setup network for sandbox "3fe3"'

/** Texts and the ids and codes in them. */
const texts: readonly (readonly [text: string, ids: readonly string[], codes?: readonly number[]])[] = [
  [
    'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized',
    ['cni-not-initialized', 'network-not-ready'],
  ],
  [
    `cni config load failed: failed to load CNI config list file /etc/cni/net.d/10-a.conflist: error parsing configuration list: invalid character '}' looking for beginning of object key string: invalid cni config: failed to load cni config`,
    ['config-not-json', 'cni-not-initialized'],
  ],
  ['cni config load failed: no network config found in /etc/cni/net.d', ['no-network-config', 'cni-not-initialized']],
  ['no CNI configuration file in /etc/cni/net.d/. Has your network provider started?', ['no-network-config']],
  ['network type not found in /etc/cni/net.d/10-a.conf: invalid cni config', ['no-type']],
  ['no net configuration with name "pods" in /etc/cni/net.d', ['no-such-network']],
  [
    `${sandbox}: plugin type="bridge" failed (add): failed to find plugin "bridge" in path [/opt/cni/bin]`,
    ['plugin-not-found'],
  ],
  [`${sandbox}: fork/exec /opt/cni/bin/trestle: permission denied`, ['plugin-may-not-run']],
  ['plugin bridge does not support config version "1.1.0"', ['version-not-supported']],
  ['rpc error: code = Unknown desc = failed to find network info for sandbox "3fe3"', ['no-pod-address']],
  ['Startup probe failed: dial tcp 10.244.1.58:7878: i/o timeout', ['probe-times-out']],
  // The same words about an image stand first.
  [
    'Failed to pull image "a": dial tcp 10.96.0.1:443: i/o timeout\nplugin type="calico" failed (add): Get "https://10.96.0.1:443/apis": dial tcp 10.96.0.1:443: i/o timeout',
    ['api-unreachable'],
  ],
  [
    'Liveness probe failed: Get "http://10.240.0.5:8080/healthz": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
    ['probe-times-out'],
  ],
  ['10.1.2.3 has been allocated to 3fe3, duplicate allocation is not allowed', ['host-local-duplicate']],
  [
    'failed to open netns "/var/run/netns/cni-1": failed to Statfs "/var/run/netns/cni-1": no such file or directory',
    ['netns-gone'],
  ],
  ['failed to add IP addr {2001:db8::2/64} to "eth0": permission denied', ['ipv6-disabled']],
  ['failed to connect "veth1" to bridge cni0: exchange full', ['bridge-full']],
  ['Another app is currently holding the xtables lock. Perhaps you want to use the -w option?', ['xtables-lock']],
  [
    `${sandbox}: plugin type="calico" failed (add): error getting ClusterInformation: resource does not exist: ClusterInformation(default)`,
    ['calico-not-installed'],
  ],
  [
    `${sandbox}: plugin type="calico" failed (add): error adding host side routes for interface: cali1a2b, error: route (Ifindex: 9, Dst: 10.1.2.3/32, Scope: link) already exists for an interface other than 'cali1a2b'`,
    ['calico-stale-route'],
  ],
  [
    `${sandbox}: plugin type="cilium-cni" failed (add): unable to create endpoint: Cilium API client timeout exceeded`,
    ['cilium-endpoint'],
  ],
  [
    `${sandbox}: plugin type="cilium-cni" failed (add): unable to allocate IP via local cilium agent: [POST /ipam][502] postIpamFailure range is full`,
    ['cilium-full'],
  ],
  [
    `${sandbox}: plugin type="calico" failed (add): stat /etc/cni/net.d/calico-kubeconfig: no such file or directory`,
    ['kubeconfig-missing'],
  ],
  [
    `${sandbox}: plugin type="multus-shim" failed (add): CmdAdd (shim): failed to send CNI request: Post "http://dummy/cni": dial unix /run/multus/multus.sock: connect: connection refused`,
    ['multus-daemon'],
  ],
  [
    `${sandbox}: plugin type="galaxy" failed (add): dial unix /run/galaxy/galaxy.sock: connect: connection refused`,
    ['agent-socket'],
  ],
  [
    'Multus: [ns/web]: error getting k8s network: cannot find a network-attachment-definition (macvlan-conf) in namespace (ns)',
    ['no-network-attachment'],
  ],
  ["cni: /opt/cni/bin/bridge: /lib64/libc.so.6: version `GLIBC_2.34' not found", ['glibc-too-old']],
  [
    `${sandbox}: plugin type="portmap" failed (add): exec: "conntrack": executable file not found in $PATH`,
    ['program-missing'],
  ],
  [
    'plugin type="firewall" failed (add): failed to add the address 10.88.0.2/32 to trusted zone: INVALID_ZONE',
    ['firewalld-refused'],
  ],
  [
    `${sandbox}: plugin type="host-local" failed (add): invalid range set 0: Network has host bits set. For a subnet mask of length 24 the network address is 10.1.2.0`,
    ['host-local-range'],
  ],
  [
    `${sandbox}: plugin type="bridge" failed (add): failed to set bridge addr: could not add IP address to "cni0": operation not permitted`,
    ['netlink-permission'],
  ],
  ['CNI: open /var/lib/cni/networks/podman/lock: permission denied', ['state-permission']],
  ['Error: open /proc/sys/net/bridge/bridge-nf-call-iptables: no such file or directory', ['br-netfilter']],
  [
    `${sandbox}: plugin type="tuning" failed (add): open /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory`,
    ['sysctl-refused'],
  ],
  ['open /var/lib/cni/networks/cbr0/10.1.2.3: no space left on device', ['disk-full']],
  ['neighbour: arp_cache: neighbor table overflow!', ['neighbours-full']],
  ['nf_conntrack: nf_conntrack: table full, dropping packet', ['conntrack-full']],
  [
    'StopPodSandbox failed: failed to destroy network for sandbox "3fe3": failed to get network "cbr0" cached result: decoding version from network config: unexpected end of JSON input',
    ['cache-damaged'],
  ],
  [
    'plugin type="sriov" failed (add): SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required',
    ['sriov-no-function'],
  ],
  ["CNI: failed to add route '{0.0.0.0 00000000} via 10.1.2.1 dev net1': file exists", ['route-refused']],
  [
    'networkPlugin cni failed to set up pod "a_b" network: netplugin failed but error parsing its diagnostic message "{}{}"',
    ['output-polluted'],
  ],
  [
    'networkPlugin cni failed to set up pod "a_b" network: netplugin failed with no error message',
    ['no-error-message'],
  ],
  [
    'RunPodSandbox from runtime service failed: rpc error: code = DeadlineExceeded desc = context deadline exceeded',
    ['call-too-long'],
  ],
  [
    `${sandbox}: plugin type="trestle" failed (add): no IP addresses available in range set: 10.1.0.1-10.1.0.6 [pool-exhausted]; a`,
    [],
    [101],
  ],
  [
    `${sandbox}: plugin type="trestle" failed (add): container 3fe3 already has eth0 on network pods [already-attached]; a`,
    [],
    [103],
  ],
  [`${sandbox}: plugin type="trestle" failed (add): host port 8080/tcp is taken [port-reserved]; by ns/web`, [], [104]],
  // As `trestle try` prints what it sees.
  ['hint: hairpin_mode of vethb5c0de is 0 [hairpin-off]: add', ['hairpin-off']],
  ['hint: net.ipv4.ip_forward is 0 [forwarding-off]', ['forwarding-off']],
  ['{"cniVersion":"1.1.0","code":108,"msg":"\\"cni0\\" already exists but is not a bridge"}', [], [108]],
  ['msg="{\\"cniVersion\\":\\"1.1.0\\",\\"code\\":109}"', [], [109]],
]

describe('a pasted text', () => {
  it('gets its ids and codes, each of the table', () => {
    const wrong = texts.flatMap(([text, ids, codes = []]) => {
      const { errors, codes: numbers } = recognise(text)
      const found = [errors.map(({ id }) => id), numbers.map(({ code }) => code)]
      return JSON.stringify(found) === JSON.stringify([ids, codes]) ? [] : [{ text, found, right: [ids, codes] }]
    })
    expect(wrong).toEqual([])
  })

  it.each([
    ...[
      'liveness probe failed ',
      'plugin type="a" failed (add): ',
      'running [iptables ',
      '{"code":',
      '\\\\',
      '//',
      '  \n',
    ],
    ...[
      'https://1.2.3.4/api/ ',
      'failed to create netns ',
      'cni RunPodSandbox ',
      'dial unix /a ',
      'could not add address a:b: ',
    ],
  ])('of a million letters is answered at once: %j', (words) => {
    const text = words.repeat(Math.ceil(1_000_000 / words.length))
    // Time of the processor: a loaded machine takes longer, and quadratic patterns took 10 s and more.
    const start = process.cpuUsage()
    recognise(text)
    expect(process.cpuUsage(start).user / 1e6).toBeLessThan(2)
  })
})

describe('the table', () => {
  it('has ids of its own, and names findings that there are', () => {
    const known = [...diagnoses().values()].filter(isKnownError)
    const ours = [...idsOfFamily('lint'), ...idsOfFamily('doctor')]
    expect(known.filter(({ id }) => ours.includes(id)).map(({ id }) => id)).toEqual([])
    expect(known.flatMap(({ findings = [] }) => findings).filter((id) => !ours.includes(id))).toEqual([])
  })
})

describe('trestle explain TEXT', () => {
  it('prints cause and cure of each error in it, quoted or as words', async () => {
    const text = 'failed to find plugin "bridge" in path [/opt/cni/bin]'
    for (const args of [[text], text.split(' ')]) {
      const { code, stdout } = await runCli(['explain', ...args])
      expect(code).toBe(0)
      expect(stdout).toMatch(
        /^plugin-not-found: .*\n {2}causes, the likely one first:\n {4}1\. [\s\S]*\n {2}look at:\n {4}trestle lint\n[\s\S]*\n {2}what to do: .*\n {2}findings .*plugin-missing/,
      )
    }
  })

  it('takes the id that it prints', async () => {
    expect((await runCli(['explain', 'no-pod-address'])).stdout).toContain('no address on eth0')
  })

  it('exits 1 for a text with nothing that it knows, in both formats', async () => {
    const { code, stdout } = await runCli(['explain', 'all is well'])
    expect([code, stdout]).toEqual([1, 'not known here\n'])
    const asJson = await runCli(['explain', 'all is well', '-o', 'json'])
    expect(asJson).toMatchObject({
      code: 1,
      json: { diagnoses: [], recognised: [], exitCode: 1 },
    })
  })

  it('as JSON says which words it knew', async () => {
    const { json } = await runCli(['explain', 'E1121 cni plugin not initialized', '-o', 'json'])
    expect(json).toMatchObject({ diagnoses: [{ id: 'cni-not-initialized', said: 'cni plugin not initialized' }] })
    expect(JSON.stringify(json)).not.toContain('pattern')
  })
})

it('says of a version error of ours what is ours alone, and of that of others what it was', () => {
  const ours =
    '{"cniVersion":"1.1.0","code":1,"msg":"incompatible CNI versions [version-unsupported]","details":"config is \\"9.9.9\\", plugin supports [\\"1.0.0\\"]"}'
  const { errors, own } = recognise(ours)
  expect([errors.map(({ id }) => id), own.map(({ id }) => id)]).toEqual([[], ['version-unsupported']])
  expect(recognise(ours.replace(' [version-unsupported]', '')).errors.map(({ id }) => id)).toEqual([
    'version-not-supported',
  ])
})
