// SPDX-License-Identifier: Apache-2.0
// A client for a container runtime's CRI socket (containerd, CRI-O): gRPC over a unix socket, one deadline per call.
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js'
import { methods } from './runtime-v1.ts'
import { type Decoded, decode, type Encodable, encode } from './wire.ts'

type Methods = typeof methods
export type CriMethod = keyof Methods
export type CriRequest<M extends CriMethod> = Encodable<Methods[M]['request']>
export type CriResponse<M extends CriMethod> = Decoded<Methods[M]['response']>

export interface Cri {
  /**
   * One unary call: `call('RunPodSandbox', { config })`. Units are CRI's: times in nanoseconds since 1970,
   * `timeout` in seconds. Throws CriError when the runtime refuses, cannot be reached, or the deadline passes.
   */
  call<M extends CriMethod>(
    method: M,
    request: CriRequest<M>,
    options?: { readonly timeoutMs: number },
  ): Promise<CriResponse<M>>
  /** Drops the connection; calls under way fail. */
  close(): void
}

/** A call that failed. `code` is gRPC's word, as `NOT_FOUND`, `UNAVAILABLE` or `DEADLINE_EXCEEDED`. */
export class CriError extends Error {
  readonly method: CriMethod
  readonly code: string
  constructor(method: CriMethod, socket: string, cause: ServiceError) {
    const code = status[cause.code] ?? String(cause.code)
    super(`CRI ${method} on ${socket}: ${code}: ${cause.details}`, { cause })
    this.name = 'CriError'
    this.method = method
    this.code = code
  }
}

/**
 * A client for the runtime that listens on the unix socket `socket` (an absolute path). Nothing is sent before the
 * first call. `timeoutMs` is the deadline of calls that give none; kubelet's own default is two minutes.
 */
export function openCri(socket: string, { timeoutMs = 120_000 } = {}): Cri {
  // The channel keeps a failed connection for a while; without this a runtime that starts up is seen seconds late.
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), {
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1000,
    'grpc.max_receive_message_length': 16 * 1024 * 1024, // what kubelet uses, remote_runtime.go maxMsgSize
  })
  return {
    call(method, request, options = { timeoutMs }) {
      const tables: Methods[typeof method] = methods[method]
      return new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          `/runtime.v1.RuntimeService/${method}`,
          (message: typeof request) => Buffer.from(encode(tables.request, message)),
          (data) => decode(tables.response, data) as CriResponse<typeof method>,
          request,
          { deadline: Date.now() + options.timeoutMs },
          (error, response) => {
            if (error) reject(new CriError(method, socket, error))
            else if (response !== undefined) resolve(response)
          },
        )
      })
    },
    close: () => client.close(),
  }
}
