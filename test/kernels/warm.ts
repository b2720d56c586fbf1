// SPDX-License-Identifier: Apache-2.0
// One whole ADD and DEL before the tests of a file, whatever comes of them: under emulation the first start of a program,
// whose file comes from the machine by virtiofs, and the first use of a kernel module can take longer than a call may.

import { execaSync } from 'execa'
import { openHost } from '../support/host.ts'
import { netConf } from '../support/traffic/pods.ts'

// Those that are left out, or built in, are no error.
const nft = ['nf_tables', 'nft_chain_nat', 'nft_ct', 'nft_nat', 'nft_masq', 'nft_redir', 'nft_fib_inet', 'nft_limit']
const links = ['veth', 'bridge', '8021q', 'dummy', 'ipvlan', 'ifb', 'sch_tbf', 'sch_ingress', 'act_mirred', 'cls_u32']
for (const module of [...nft, ...links]) execaSync('modprobe', [module], { reject: false })

const host = openHost()
try {
  const portMappings = [{ hostPort: 1, containerPort: 1, protocol: 'udp' }]
  const conf = netConf({ podcidr: ['10.250.0.0/24', 'fd00:250::/64'], runtimeConfig: { portMappings } })
  const netns = host.pod('warm')
  host.cni('ADD', conf, { netns })
  host.cni('DEL', conf, { netns })
} finally {
  host.close()
}
