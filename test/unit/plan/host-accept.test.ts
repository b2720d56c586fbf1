// SPDX-License-Identifier: Apache-2.0
// Where an accept pair goes, from what nft, iptables and firewalld say.

import { describe, expect, it } from 'vitest'
import { acceptPlaces, parseHostAccept, readChains, type SeenFirewalls } from '../../../src/plan/host-accept.ts'

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
  it("into firewalld's trusted zone, unless somebody chose a zone for the bridge", () => {
    expect(places({ firewalld: { zone: undefined } })).toEqual([{ kind: 'firewalld', zone: 'trusted' }])
    expect(places({ firewalld: { zone: 'public' } })).toEqual([])
    expect(places({ firewalld: { zone: 'trusted' } })).toEqual([])
  })
})

describe('what was put', () => {
  it.each(['', '{', 'null', '[]', '{"bridge":"cni0"}', '{"bridge":1,"places":[]}'])('is not read from %j', (text) => {
    expect(parseHostAccept(text)).toBeUndefined()
  })
})
