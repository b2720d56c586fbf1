// SPDX-License-Identifier: Apache-2.0
// containerd's own metadata, which also has containers of ctr and nerdctl; CRI does not list these. Field numbers: see
// github.com/containerd/containerd/api, services/{namespaces,containers,tasks}/v1 and types/task.

import { type CallTarget, CriError, openChannel } from './cri-client.ts'
import { many, string } from './wire.ts'

const listNamespaces = { request: {}, response: { namespaces: many(1, { name: string(1) }) } }
const listContainers = { request: {}, response: { containers: many(1, { id: string(1) }) } }
const listTasks = { request: {}, response: { tasks: many(1, { containerId: string(1) }) } }

/**
 * CNI_CONTAINERID of every container and task of every namespace: ctr and nerdctl call plugins with `NAMESPACE-ID`
 * (containerd cmd/ctr/commands, FullID; nerdctl pkg/ocihook). Undefined when the server is not containerd. Throws
 * CriError when the server does not answer.
 */
export async function listContainerd(socket: string, timeoutMs: number): Promise<ReadonlySet<string> | undefined> {
  const channel = openChannel(socket)
  const target = (path: string, namespace?: string): CallTarget => {
    // pkg/namespaces/grpc.go: the header names the namespace of a call.
    const headers = namespace === undefined ? {} : { 'containerd-namespace': namespace }
    return { path: `/containerd.services.${path}/List`, timeoutMs, headers }
  }
  const idsIn = async (namespace: string): Promise<readonly string[]> => {
    const [{ containers }, { tasks }] = await Promise.all([
      channel.call(target('containers.v1.Containers', namespace), listContainers, {}),
      channel.call(target('tasks.v1.Tasks', namespace), listTasks, {}),
    ])
    const ids = [...containers.map(({ id }) => id), ...tasks.map(({ containerId }) => containerId)]
    return ids.map((id) => `${namespace}-${id}`)
  }
  try {
    const { namespaces } = await channel.call(target('namespaces.v1.Namespaces'), listNamespaces, {})
    return new Set((await Promise.all(namespaces.map(({ name }) => idsIn(name)))).flat())
  } catch (error) {
    if (error instanceof CriError && error.code === 'UNIMPLEMENTED') return undefined
    throw error
  } finally {
    channel.close()
  }
}
