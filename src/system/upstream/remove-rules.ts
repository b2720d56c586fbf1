// SPDX-License-Identifier: Apache-2.0
// Takes the upstream plugins' rules for given attachments away: looks once per family and table, then
// one transaction each. A tool that is not installed has left nothing.

import { CniError, oneLine } from '../../cni/error.ts'
import {
  iptablesRemovals,
  nftRemovals,
  type UpstreamNftRules,
  type UpstreamOwner,
  upstreamTables,
} from '../../plan/upstream/upstream-rules.ts'
import { reasonOf } from '../../tools/command-error.ts'
import { readUpstreamNftRules } from '../../tools/foreign-nft.ts'
import { chainRemovalText, listArguments, ruleRemovalText } from '../../tools/nft.ts'
import type { Command, Output, Run } from '../process/runner.ts'

/** What the upstream plugins' rules are now: `iptables-save` of each family, and each nftables table of theirs. */
export interface UpstreamRules {
  readonly iptables: readonly { readonly tool: IptablesTool; readonly saved: string }[]
  readonly nft: readonly UpstreamNftRules[]
}

type IptablesTool = 'iptables' | 'ip6tables'

/** How long the lock of iptables-legacy is waited for, seconds. */
const lockWaitS = '5'

/** Reads the rules of all tables that the upstream plugins write to. Two and four processes. */
export async function readUpstreamRules(run: Run): Promise<UpstreamRules> {
  const [v4, v6, ...nft] = await Promise.all([
    runIfThere(run, { file: 'iptables-save', args: [] }),
    runIfThere(run, { file: 'ip6tables-save', args: [] }),
    ...upstreamTables.map((table) => runIfThere(run, { file: 'nft', args: listArguments.ofTable(table) })),
  ])
  return {
    iptables: [
      { tool: 'iptables', saved: textOf(v4) },
      { tool: 'ip6tables', saved: textOf(v6) },
    ],
    nft: nft.map((output) => readUpstreamNftRules(textOf(output))),
  }
}

/**
 * Removes the rules of these attachments and no other. Returns what failed. A transaction names rules by
 * their text or handle: when someone changed them meanwhile it fails as a whole, so it is tried once more.
 */
export async function removeUpstreamRules(run: Run, owners: readonly UpstreamOwner[]): Promise<readonly Error[]> {
  if (owners.length === 0) return []
  const failures = await removeOnce(run, owners)
  return failures.length === 0 ? [] : await removeOnce(run, owners)
}

async function removeOnce(run: Run, owners: readonly UpstreamOwner[]): Promise<readonly Error[]> {
  const { iptables, nft } = await readUpstreamRules(run)
  const inputs: Command[] = [
    ...iptables.map(({ tool, saved }) => ({
      file: `${tool}-restore`,
      args: ['--noflush', '-w', lockWaitS],
      stdin: iptablesRemovals(saved, owners),
    })),
    { file: 'nft', args: ['-f', '-'], stdin: nft.map((listed) => removalText(nftRemovals(listed, owners))).join('') },
  ]
  const outputs = await Promise.all(inputs.filter(({ stdin }) => stdin !== '').map((command) => runAll(run, command)))
  return outputs.flatMap((failure) => failure ?? [])
}

function removalText({ rules, chains }: UpstreamNftRules): string {
  return rules.map((rule) => ruleRemovalText(rule, rule.handle)).join('') + chainRemovalText(chains)
}

async function runAll(run: Run, command: Command): Promise<Error | undefined> {
  try {
    const output = await run(command)
    if (output.code === 0) return undefined
    return new CniError(
      'upstream-rules-left',
      `could not remove rules of the upstream plugins: ${oneLine(output.stderr)}`,
      { details: `${[command.file, ...command.args].join(' ')}\n${output.stderr}` },
    )
  } catch (error) {
    return error as Error
  }
}

/** The output, or undefined when the program is not installed. */
async function runIfThere(run: Run, command: Command): Promise<Output | undefined> {
  try {
    return await run(command)
  } catch (error) {
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw error
  }
}

/** A table that is not there, or a kernel without iptables, has no rules of theirs. */
function textOf(output: Output | undefined): string {
  if (output === undefined) return ''
  if (output.code !== 0 && reasonOf(output.stderr) === 'other') {
    process.stderr.write(`trestle: rules of the upstream plugins were not seen: ${oneLine(output.stderr)}\n`)
  }
  return output.code === 0 ? output.stdout : ''
}
