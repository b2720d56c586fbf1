// SPDX-License-Identifier: Apache-2.0
// An API server on loopback, for the tests of what asks it.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach } from 'vitest'
import { type Access, openAccess } from '../../../src/agent/api.ts'

/** Of the test that runs. */
export const here = { scratch: '', end: new AbortController() }
const servers: Server[] = []

/** Each file calls it: hooks are of the file that registers them. */
export function useServers(): void {
  beforeEach(() => {
    here.scratch = mkdtempSync(`${tmpdir()}/trestle-answers-`)
    writeFileSync(`${here.scratch}/token`, 'token\n')
    here.end = new AbortController()
  })
  afterEach(() => {
    here.end.abort()
    for (const server of servers.splice(0)) {
      server.close()
      server.closeAllConnections()
    }
    rmSync(here.scratch, { recursive: true })
  })
}

/** Returns how the server is reached. */
export async function serve(listener: RequestListener): Promise<() => Access> {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const settings = { server: url, tokenFile: `${here.scratch}/token`, kubeconfigs: [], hostRoot: '' }
  return () => openAccess(settings, {})
}

/** Until something holds, or the test is over. */
export async function until(test: () => boolean): Promise<void> {
  while (!test() && !here.end.signal.aborted) await new Promise((resolve) => setImmediate(resolve))
}

export const nodeObject = (name: string) => ({ metadata: { name }, spec: { podCIDR: '10.0.2.0/24' } })

export function nodeList(items: readonly object[], more = {}): string {
  return JSON.stringify({ kind: 'NodeList', metadata: { resourceVersion: '1', ...more }, items })
}
