// SPDX-License-Identifier: Apache-2.0
// Of crictl what operators ask for here: `crictl run CONTAINER.json POD.json`, `crictl info`, `crictl pods -q`,
// `crictl stopp ID`, `crictl rmp -fa`. Real ones cannot be had as a Go module. Errors are the runtime's, in crictl's form.
// CONTAINER_RUNTIME_ENDPOINT: the socket.

import { readFileSync } from 'node:fs'
import { CriError } from '../../support/cri/channel.ts'
import { type Cri, type CriRequest, openCri, Protocol } from '../../support/cri.ts'

interface PodFile {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly uid: string }
  readonly hostname: string
  readonly port_mappings: readonly { readonly container_port: number; readonly host_port: number }[]
}

interface ContainerFile {
  readonly metadata: { readonly name: string }
  readonly image: { readonly image: string }
  readonly command: readonly string[]
}

/** A sandbox, and one container in it; its id. */
async function runPod(cri: Cri, [containerFile = '', podFile = '']: readonly string[]): Promise<string> {
  const { metadata, image, command } = JSON.parse(readFileSync(containerFile, 'utf8')) as ContainerFile
  const { port_mappings: ports, ...pod } = JSON.parse(readFileSync(podFile, 'utf8')) as PodFile
  const config: NonNullable<CriRequest<'RunPodSandbox'>['config']> = {
    ...pod,
    portMappings: ports.map(({ container_port: containerPort, host_port: hostPort }) => {
      return { protocol: Protocol.tcp, containerPort, hostPort }
    }),
  }
  const { podSandboxId } = await cri.call('RunPodSandbox', { config }, { timeoutMs: 60_000 })
  const linux = { securityContext: { privileged: false } }
  const container = { metadata, image, command, linux }
  const request = { podSandboxId, config: container, sandboxConfig: config }
  const { containerId } = await cri.call('CreateContainer', request)
  await cri.call('StartContainer', { containerId })
  return containerId
}

async function answer(cri: Cri, [verb, ...words]: readonly string[]): Promise<string> {
  const line = [verb, ...words].join(' ')
  if (verb === 'run') return `${await runPod(cri, words)}\n`
  if (verb === 'stopp') {
    const [podSandboxId = ''] = words
    await cri.call('StopPodSandbox', { podSandboxId }, { timeoutMs: 60_000 })
    return `Stopped sandbox ${podSandboxId}\n`
  }
  if (line === 'info') return `${(await cri.call('Status', { verbose: true })).info['cniconfig'] ?? ''}\n`
  const { items } = await cri.call('ListPodSandbox', {})
  if (line === 'pods -q') return items.map(({ id }) => `${id}\n`).join('')
  if (line !== 'rmp -fa') throw new Error(`there is no ${line} here`)
  for (const { id } of items) {
    await cri.call('StopPodSandbox', { podSandboxId: id }, { timeoutMs: 60_000 })
    await cri.call('RemovePodSandbox', { podSandboxId: id })
  }
  return items.map(({ id }) => `Removed sandbox ${id}\n`).join('')
}

/** gRPC's code UNKNOWN is Unknown in what Go prints. */
function failure(error: unknown): string {
  if (!(error instanceof CriError)) return String(error)
  const code = error.code.replace(/_?([A-Z])([A-Z]*)/g, (_, first: string, rest: string) => first + rest.toLowerCase())
  const { details } = error.cause as { readonly details?: string }
  const stage = error.method === 'RunPodSandbox' ? 'running container: run pod sandbox: ' : ''
  return `FATA[0000] ${stage}rpc error: code = ${code} desc = ${details}`
}

const cri = openCri(process.env['CONTAINER_RUNTIME_ENDPOINT'] ?? '', { timeoutMs: 30_000 })
try {
  process.stdout.write(await answer(cri, process.argv.slice(2)))
} catch (error) {
  process.stderr.write(`${failure(error)}\n`)
  process.exitCode = 1
} finally {
  cri.close()
}
