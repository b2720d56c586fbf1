// SPDX-License-Identifier: Apache-2.0
// A client for all of CRI that tests need: pods as kubelet makes them. Messages and methods of `runtime.v1`, with the
// field numbers of k8s.io/cri-api pkg/apis/runtime/v1/api.proto, and the names of that file in camel case.
import { WireType } from '@bufbuild/protobuf/wire'
import { openChannel } from './cri/channel.ts'
import {
  bool,
  type Decoded,
  type Encodable,
  type Field,
  int32,
  many,
  one,
  type Shape,
  string,
  stringMap,
} from './cri/wire.ts'

/** bytes */
export const bytes = (no: number): Field<Uint8Array> => ({
  no,
  wireType: WireType.LengthDelimited,
  empty: () => new Uint8Array(),
  read: (reader) => reader.bytes(),
  write: (writer, value) => value.length > 0 && writer.tag(no, WireType.LengthDelimited).bytes(value),
})

/** int64, as a bigint, because times in nanoseconds exceed 2^53. */
export const int64 = (no: number): Field<bigint> => ({
  no,
  wireType: WireType.Varint,
  empty: () => 0n,
  read: (reader) => BigInt(reader.int64()),
  write: (writer, value) => value !== 0n && writer.tag(no, WireType.Varint).int64(value),
})

/** repeated string */
export const strings = (no: number): Field<readonly string[]> => ({
  no,
  wireType: WireType.LengthDelimited,
  empty: () => [],
  read: (reader, before) => [...before, reader.string()],
  write: (writer, values) => {
    for (const value of values) writer.tag(no, WireType.LengthDelimited).string(value)
  },
})

/** PodSandboxState: the values of a sandbox's `state`. */
export const SandboxState = { ready: 0, notReady: 1 } as const
/** Protocol of a PortMapping. */
export const Protocol = { tcp: 0, udp: 1, sctp: 2 } as const

const metadata = { name: string(1), uid: string(2), namespace: string(3), attempt: int32(4) }
const namespaceOption = { network: int32(1), pid: int32(2), ipc: int32(3) }
const condition = { type: string(1), status: bool(2), reason: string(3), message: string(4) }

const podSandbox = {
  id: string(1),
  metadata: one(2, metadata),
  state: int32(3),
  createdAt: int64(4),
  labels: stringMap(5),
  annotations: stringMap(6),
  runtimeHandler: string(7),
}

const podSandboxStatus = {
  id: string(1),
  metadata: one(2, metadata),
  state: int32(3),
  createdAt: int64(4),
  network: one(5, { ip: string(1), additionalIps: many(2, { ip: string(1) }) }),
  linux: one(6, { namespaces: one(1, { options: one(2, namespaceOption) }) }),
  labels: stringMap(7),
  annotations: stringMap(8),
}

const podSandboxConfig = {
  metadata: one(1, metadata),
  hostname: string(2),
  logDirectory: string(3),
  dnsConfig: one(4, { servers: strings(1), searches: strings(2), options: strings(3) }),
  portMappings: many(5, { protocol: int32(1), containerPort: int32(2), hostPort: int32(3), hostIp: string(4) }),
  labels: stringMap(6),
  annotations: stringMap(7),
  linux: one(8, {
    cgroupParent: string(1),
    securityContext: one(2, { namespaceOptions: one(1, namespaceOption) }),
  }),
}

const containerMetadata = { name: string(1), attempt: int32(2) }
const imageSpec = { image: string(1) }

const container = {
  id: string(1),
  podSandboxId: string(2),
  metadata: one(3, containerMetadata),
  image: one(4, imageSpec),
  state: int32(6),
  createdAt: int64(7),
  labels: stringMap(8),
}

const containerConfig = {
  metadata: one(1, containerMetadata),
  image: one(2, imageSpec),
  command: strings(3),
  args: strings(4),
  labels: stringMap(9),
  logPath: string(11),
  linux: one(15, { securityContext: one(2, { privileged: bool(2) }) }),
}

const sandboxId = { podSandboxId: string(1) }
const containerId = { containerId: string(1) }

/** Methods of `runtime.v1.RuntimeService`, with the tables of request and response. */
const methods = {
  Version: {
    request: { version: string(1) },
    response: { version: string(1), runtimeName: string(2), runtimeVersion: string(3), runtimeApiVersion: string(4) },
  },
  Status: {
    request: { verbose: bool(1) },
    response: { status: one(1, { conditions: many(1, condition) }), info: stringMap(2) },
  },
  ListPodSandbox: {
    request: {
      filter: one(1, { id: string(1), state: one(2, { state: int32(1) }), labelSelector: stringMap(3) }),
    },
    response: { items: many(1, podSandbox) },
  },
  PodSandboxStatus: {
    request: { podSandboxId: string(1), verbose: bool(2) },
    response: { status: one(1, podSandboxStatus), info: stringMap(2) },
  },
  RunPodSandbox: {
    request: { config: one(1, podSandboxConfig), runtimeHandler: string(2) },
    response: sandboxId,
  },
  StopPodSandbox: { request: sandboxId, response: {} },
  RemovePodSandbox: { request: sandboxId, response: {} },
  ListContainers: {
    request: {
      filter: one(1, { id: string(1), state: one(2, { state: int32(1) }), podSandboxId: string(3) }),
    },
    response: { containers: many(1, container) },
  },
  CreateContainer: {
    request: { podSandboxId: string(1), config: one(2, containerConfig), sandboxConfig: one(3, podSandboxConfig) },
    response: containerId,
  },
  StartContainer: { request: containerId, response: {} },
  ExecSync: {
    request: { containerId: string(1), cmd: strings(2), timeout: int64(3) },
    response: { stdout: bytes(1), stderr: bytes(2), exitCode: int32(3) },
  },
  StopContainer: { request: { containerId: string(1), timeout: int64(2) }, response: {} },
  RemoveContainer: { request: containerId, response: {} },
} as const satisfies Record<string, { readonly request: Shape; readonly response: Shape }>

type Methods = typeof methods
type CriMethod = keyof Methods
export type CriRequest<M extends CriMethod> = Encodable<Methods[M]['request']>
type CriResponse<M extends CriMethod> = Decoded<Methods[M]['response']>

export interface Cri {
  /** One unary call: `call('RunPodSandbox', { config })`. Throws CriError. */
  call<M extends CriMethod>(
    method: M,
    request: CriRequest<M>,
    options?: { readonly timeoutMs: number },
  ): Promise<CriResponse<M>>
  close(): void
}

/** A client for the runtime at a unix socket. `timeoutMs` is the default deadline of a call. */
export function openCri(socket: string, { timeoutMs }: { readonly timeoutMs: number }): Cri {
  const channel = openChannel(socket)
  return {
    async call(method, request, options = { timeoutMs }) {
      const tables: { readonly request: Shape; readonly response: Shape } = methods[method]
      const target = { path: `/runtime.v1.RuntimeService/${method}`, timeoutMs: options.timeoutMs }
      return (await channel.call(target, tables, request)) as CriResponse<typeof method>
    },
    close: channel.close,
  }
}
