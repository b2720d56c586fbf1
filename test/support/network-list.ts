// SPDX-License-Identifier: Apache-2.0
// A configuration list (.conflist) or a single configuration (.conf) as a runtime reads it: CNI spec 1.1.0, section 1
// "Network configuration format" and section 3 "Deriving request configuration".

/** One plugin of a list, as written. */
export interface PluginConf {
  readonly type: string
  readonly capabilities?: Readonly<Record<string, boolean>>
  readonly [key: string]: unknown
}

/** A network: its plugins in the order of ADD. */
export interface NetworkList {
  readonly name: string
  readonly cniVersion: string
  readonly plugins: readonly PluginConf[]
}

/** The versions that a runtime of these tests speaks, the newest last. */
const versions = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0']

/** A list from its text, which is one. */
export function readNetworkList(text: string): NetworkList {
  const read = JSON.parse(text) as PluginConf & {
    readonly name: string
    readonly cniVersion?: string
    readonly cniVersions?: readonly string[]
    readonly plugins?: readonly PluginConf[]
  }
  const { name, cniVersion, cniVersions, plugins } = read
  const newest = versions.findLast((version) => cniVersion === version || cniVersions?.includes(version))
  if (newest === undefined) throw new Error(`${name}: no CNI version that is known: ${cniVersion}`)
  return { name, cniVersion: newest, plugins: plugins ?? [read] }
}

/** A plugin's stdin (section 3): its entry, with name and version of the list and the runtime's additions. */
export function requestConf(
  network: NetworkList,
  conf: PluginConf,
  injected: { readonly capabilityArgs?: Readonly<Record<string, unknown>>; readonly prevResult?: unknown },
): Record<string, unknown> {
  const wanted = Object.entries(injected.capabilityArgs ?? {}).filter(([name]) => conf.capabilities?.[name] === true)
  return {
    ...conf,
    name: network.name,
    cniVersion: network.cniVersion,
    ...(wanted.length > 0 ? { runtimeConfig: Object.fromEntries(wanted) } : {}),
    ...(injected.prevResult === undefined ? {} : { prevResult: injected.prevResult }),
  }
}
