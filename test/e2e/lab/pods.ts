// SPDX-License-Identifier: Apache-2.0
// Pods through a container runtime's CRI socket, as kubelet makes them: a sandbox, then one busybox container.
import { type Cri, type CriRequest, Protocol } from '../../support/cri.ts'

export interface Pod {
  /** The sandbox's id: CNI_CONTAINERID. */
  readonly id: string
  readonly address: string
  readonly container: string
}

interface PodOptions {
  readonly name: string
  /** TCP host port to port 80 of the pod. */
  readonly hostPort?: number
  readonly annotations?: Readonly<Record<string, string>>
}

/** Runs a sandbox and a busybox in it that serves /www on port 80; throws CriError. */
export async function runPod(cri: Cri, { name, hostPort, annotations }: PodOptions): Promise<Pod> {
  const config: NonNullable<CriRequest<'RunPodSandbox'>['config']> = {
    metadata: { name, uid: `${name}-uid`, namespace: 'default' },
    hostname: name,
    ...(annotations === undefined ? {} : { annotations }),
    portMappings: hostPort === undefined ? [] : [{ protocol: Protocol.tcp, containerPort: 80, hostPort }],
  }
  const { podSandboxId: id } = await cri.call('RunPodSandbox', { config }, { timeoutMs: 60_000 })
  const { status } = await cri.call('PodSandboxStatus', { podSandboxId: id })
  const { containerId: container } = await cri.call('CreateContainer', {
    podSandboxId: id,
    config: {
      metadata: { name: 'busybox' },
      image: { image: 'lab.local/busybox:1' },
      command: ['/bin/httpd', '-f', '-p', '80', '-h', '/www'],
      linux: { securityContext: { privileged: false } },
    },
    sandboxConfig: config,
  })
  await cri.call('StartContainer', { containerId: container })
  return { id, address: status?.network?.ip ?? '', container }
}

/** Runs a command in the pod's container: stdout and stderr together, and the exit code. */
export async function inPod(cri: Cri, pod: Pod, cmd: readonly string[]): Promise<{ text: string; exitCode: number }> {
  const done = await cri.call('ExecSync', { containerId: pod.container, cmd, timeout: 10n })
  return { text: Buffer.concat([done.stdout, done.stderr]).toString(), exitCode: done.exitCode }
}

/** Stops and removes the pod, as kubelet does; throws CriError. */
export async function removePod(cri: Cri, pod: Pod): Promise<void> {
  await cri.call('StopContainer', { containerId: pod.container, timeout: 0n })
  await cri.call('StopPodSandbox', { podSandboxId: pod.id }, { timeoutMs: 60_000 })
  await cri.call('RemoveContainer', { containerId: pod.container })
  await cri.call('RemovePodSandbox', { podSandboxId: pod.id })
}
