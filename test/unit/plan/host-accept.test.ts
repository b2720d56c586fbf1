// SPDX-License-Identifier: Apache-2.0
// Where an accept pair goes, from what nft, iptables and firewalld say.

import { describe, expect, it } from 'vitest'
import {
  acceptChained,
  acceptPlaces,
  hostAcceptsText,
  parseHostAccepts,
  placeText,
  readChains,
  type SeenFirewalls,
} from '../../../src/plan/host-accept.ts'

const listing = `table ip filter {
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
	}
	chain DOCKER-USER {
	}
}
table inet trestle {
	chain forward {
		type filter hook forward priority filter; policy accept;
	}
}
table inet fw {
	chain input {
		type filter hook input priority filter; policy drop;
	}
	chain forward {
		type filter hook forward priority filter + 10; policy drop;
	}
}
table bridge b {
	chain forward {
		type filter hook forward priority filter; policy drop;
	}
}
`
const nothing: SeenFirewalls = { chains: [], iptables: [] }
const places = (seen: Partial<SeenFirewalls>) => acceptPlaces({ ...nothing, ...seen }, 'trestle')
const asked = (forward: string, program = 'iptables-nft') => places({ iptables: [{ program, forward }] })

describe('readChains', () => {
  it('tells base chains of the forward hook with policy drop from the others', () => {
    const chains = readChains(listing)
    expect(chains).toHaveLength(6)
    expect(chains.filter((chain) => chain.dropsForwarded).map(({ family, name }) => `${family} ${name}`)).toEqual([
      'ip FORWARD',
      'inet forward',
      'bridge forward',
    ])
  })
  it('finds none in what is no listing', () => {
    expect(readChains('Error: syntax error\nchain x {\n')).toEqual([])
  })
})

describe('an accept pair goes', () => {
  it('nowhere when nothing drops', () => {
    expect(places({})).toEqual([])
    expect(asked('-P FORWARD ACCEPT\n-A FORWARD -i eth0 -j DROP\n')).toEqual([])
    expect(asked('')).toEqual([])
  })
  it.each([
    ['-P FORWARD DROP\n', 'FORWARD'],
    ['-P FORWARD ACCEPT\n-A FORWARD -j REJECT --reject-with icmp-host-prohibited\n', 'FORWARD'],
    ['-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n-A FORWARD -j DOCKER-FORWARD\n', 'DOCKER-USER'],
    ['-P FORWARD ACCEPT\n-A FORWARD -j DOCKER-USER\n', 'DOCKER-USER'],
  ])('%j: into %s', (forward, chain) => {
    expect(asked(forward, 'ip6tables-legacy')).toEqual([{ kind: 'iptables', program: 'ip6tables-legacy', chain }])
  })
  it('into a foreign nft chain that drops, and into one of iptables by its own tool', () => {
    const forward = '-P FORWARD DROP\n'
    const iptables = [{ program: 'iptables-nft', forward }]
    expect(places({ chains: readChains(listing), iptables })).toEqual([
      { kind: 'iptables', program: 'iptables-nft', chain: 'FORWARD' },
      { kind: 'nft', family: 'inet', table: 'fw', chain: 'forward' },
    ])
  })
  it('into the nft chain FORWARD itself where the tool is missing', () => {
    const found = places({ chains: readChains(listing) })
    expect(found).toContainEqual({ kind: 'nft', family: 'ip', table: 'filter', chain: 'FORWARD' })
  })
  it('of a subnet into the chains of its family and of both', () => {
    const iptables = ['iptables-nft', 'ip6tables-legacy'].map((program) => ({ program, forward: '-P FORWARD DROP\n' }))
    const chains = readChains('table ip a {\n\tchain f {\n\t\ttype filter hook forward priority 0; policy drop;\n')
    const seen = { chains: [...readChains(listing), ...chains], iptables }
    const texts = (family?: 4 | 6) => acceptPlaces({ ...nothing, ...seen }, 'trestle', family).map(placeText)
    const [both, ofA] = ['nft chain inet fw forward', 'nft chain ip a f']
    expect(texts(4)).toEqual(['chain FORWARD of iptables-nft', both, ofA])
    expect(texts(6)).toEqual(['chain FORWARD of ip6tables-legacy', both])
    expect(texts()).toEqual(['chain FORWARD of iptables-nft', 'chain FORWARD of ip6tables-legacy', both, ofA])
  })
  it("into firewalld's trusted zone, unless somebody chose a zone for the bridge", () => {
    expect(places({ firewalld: { zone: undefined } })).toEqual([{ kind: 'firewalld', zone: 'trusted' }])
    expect(places({ firewalld: { zone: 'public' } })).toEqual([])
    expect(places({ firewalld: { zone: 'trusted' } })).toEqual([])
  })
})

describe('what was put', () => {
  const bad = ['', '{', 'null', '[null]', '{"bridge":"cni0"}', '{"bridge":1,"places":[]}', '[{"subnet":"10.1.0.0/24"}]']
  it('is not read from a place whose names are no texts', () => {
    const place = { kind: 'iptables', program: ['iptables-nft'], chain: 'FORWARD' }
    expect(parseHostAccepts(JSON.stringify({ bridge: 'cni0', places: [place] }))).toBeUndefined()
    const program = 'iptables-nft'
    expect(parseHostAccepts(JSON.stringify({ bridge: 'cni0', places: [{ ...place, program }] }))).toBeDefined()
  })
  it.each(bad)('is not read from %j', (text) => {
    expect(parseHostAccepts(text)).toBeUndefined()
  })
  it.each([
    ['a bridge', [{ of: 'cni0', places: asked('-P FORWARD DROP\n') }]],
    ['subnets', ['10.1.0.0/24', 'fd00:1::/64'].map((of) => ({ of, places: asked('-P FORWARD DROP\n') }))],
  ])('for %s is read as it was written', (_, accepts) => {
    expect(parseHostAccepts(hostAcceptsText(accepts))).toEqual(accepts)
  })
  it('for a bridge is one object, as versions before read it', () => {
    expect(hostAcceptsText([{ of: 'cni0', places: [] }])).toBe('{"bridge":"cni0","places":[]}')
  })
})

describe('chained', () => {
  const subnets = ['10.1.0.0/24', '10.2.0.9/32', 'fd00:1::/64', 'fd00:2::9/128']
  it.each([
    ['a bridge is accepted', { bridge: 'br0', hostLink: 'veth1' }, { hostAccept: 'br0' }],
    [
      'of a veth on none the subnets',
      { bridge: undefined, hostLink: 'veth1' },
      { acceptSubnets: ['10.1.0.0/24', 'fd00:1::/64'] },
    ],
    ['without a veth nothing', { bridge: undefined, hostLink: undefined }, {}],
  ])('%s', (_, on, accepted) => expect(acceptChained(on, subnets)).toEqual(accepted))
})
