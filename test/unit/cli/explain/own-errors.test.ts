// SPDX-License-Identifier: Apache-2.0
// The ids of errors: each is thrown somewhere, each is explained, and each leads from a pasted message to its text.

import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { diagnoses, isKnownError } from '../../../../src/catalogue/diagnosis.ts'
import { CniError, Code, errorDocument, messageWithId } from '../../../../src/cni/errors.ts'
import { ownErrors, recognise } from '../../../../src/commands/explain/recognise.ts'
import { runCli } from '../../../support/collect.ts'

const ids = ownErrors().map(({ id }) => id)
const errorOf = (id: string, message: string) => new CniError(Code.internal, id, message)

/** The sources that make errors: not what only speaks of them. */
const sources = globSync('src/**/*.ts').filter((file) => !/^src\/(?:catalogue|commands\/(?:explain|lint))\//.test(file))

describe('the ids', () => {
  it('are each thrown somewhere', () => {
    const thrown = new Set(
      sources.flatMap((file) => readFileSync(file, 'utf8').match(/(?<=')[a-z][a-z\d-]+(?=')/g) ?? []),
    )
    expect(ids.filter((id) => !thrown.has(id))).toEqual([])
  })

  it('are short and in kebab case, and none is the id of an error of others', () => {
    expect(ids.filter((id) => !/^[a-z\d]+(?:-[a-z\d]+)+$/.test(id) || id.length > 25)).toEqual([])
    const others = [...diagnoses().values()].filter(isKnownError).map(({ id }) => id)
    expect(ids.filter((id) => others.includes(id))).toEqual([])
  })
})

/** A message as kubelet logs it, as an event, as a line of the journal, and quoted twice. */
function formsOf(message: string): readonly string[] {
  const text = `rpc error: code = Unknown desc = plugin type="trestle" failed (add): ${message}; the details`
  return [
    text,
    `  Warning  FailedCreatePodSandBox  3s (x4 over 12s)  kubelet  ${text}`,
    `Nov 22 10:00:01 node kubelet[811]: E1122 10:00:01.123456     811 x.go:1] "Error syncing pod" err=${JSON.stringify(text)}`,
    JSON.stringify({ message: JSON.stringify({ note: text }) }),
  ]
}

describe('a pasted message', () => {
  it.each(ids)('of %s is known by it, whatever its words', (id) => {
    for (const form of formsOf(messageWithId(errorOf(id, 'words that nobody has written down')))) {
      const { own, codes } = recognise(form)
      expect(own.map((each) => each.id)).toEqual([id])
      const [first] = own
      expect(codes.map(({ code }) => code)).toEqual(first?.code === undefined ? [] : [first.code])
    }
  })

  it('of DEL has the same id as that of any other verb', () => {
    const documents = ids.map((id) => errorDocument(errorOf(id, 'cannot run nft: not found'), '1.1.0', true))
    expect(documents.map((text) => recognise(text).own.map(({ id }) => id))).toEqual(ids.map((id) => [id]))
  })

  it('of several failures has all their ids, also where a terminal has broken the line', () => {
    const { own } = recognise('one; two [lock-held,\n   command-failed]')
    expect(own.map(({ id }) => id)).toEqual(['lock-held', 'command-failed'])
  })

  it('that another plugin passes on is ours by its id', () => {
    const text = 'plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses [pool-exhausted]'
    expect(recognise(text).own.map(({ id }) => id)).toEqual(['pool-exhausted'])
  })

  it('of STATUS too', () => {
    const text =
      'reason:NetworkPluginNotReady message:Network plugin returns error: not ready: nft not found [not-ready-tool]'
    expect(recognise(text).codes.map(({ code }) => code)).toEqual([Code.notAvailable])
  })

  it('of a release before ids is known by the code of its JSON', () => {
    const old = 'failed to allocate for range 0: no IP addresses available in range set: 10.9.0.1-10.9.0.6'
    const json = JSON.stringify({ cniVersion: '1.0.0', code: 101, msg: old })
    expect(recognise(`plugin type="trestle" failed: ${json}`).codes.map(({ code }) => code)).toEqual([101])
  })

  it.each([
    'exit code 1',
    'statuscode: 503',
    'image "x" is not present',
    'mode is one of [bridge, none-such]',
    '[not-ours]',
  ])('%s is not ours', (text) => {
    expect(recognise(text)).toMatchObject({ errors: [], codes: [], own: [] })
  })
})

describe('trestle explain', () => {
  it('explains every id', async () => {
    for (const { id, causes, cure } of ownErrors()) {
      const { code, stdout } = await runCli(['explain', id])
      expect(code).toBe(0)
      for (const text of [id, ...causes, cure]) expect(stdout).toContain(text)
    }
  })

  it('says of a code which ids it has, and of a shared id both what the error and what the finding means', async () => {
    expect((await runCli(['explain', '101'])).stdout).toContain('ids: pool-exhausted\n')
    expect((await runCli(['explain', 'chained-twice', '-o', 'json'])).json).toMatchObject({
      diagnoses: [{ id: 'chained-twice', code: 7 }],
    })
  })

  it('of a text with an id prints what the id says, and not the code again', async () => {
    const { stdout } = await runCli(['explain', 'plugin type="trestle" failed (add): x [pool-exhausted]; y'])
    expect(stdout).toContain('pool-exhausted: no free address (an error of trestle, code 101)')
    expect(stdout).not.toContain('(code of trestle)')
  })
})
