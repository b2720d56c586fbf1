// SPDX-License-Identifier: Apache-2.0
// A real API server with etcd on loopback, in the private namespaces of scripts/in-netns.sh, and what is asked of it.
import { execFileSync, spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import * as https from 'node:https'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const peers = join(process.env.TRESTLE_PEERS ?? join(homedir(), '.cache/trestle-peers'), 'bin')
const port = 6443

/** What is missing of the programs, in words; undefined when all are there. */
export function missingPrograms() {
  const missing = ['etcd', 'kube-apiserver'].filter((name) => !existsSync(join(peers, name)))
  if (missing.length > 0) return `${missing.join(' and ')} not in ${peers} (TRESTLE_PEERS names the folder above bin)`
}

/**
 * Starts etcd and kube-apiserver with their files in `scratch`. Returns {url, caFile, ask, end}; `ask` rejects for
 * an answer that is not 2xx. Rejects when the server is not ready within two minutes.
 */
export async function startControlPlane(scratch) {
  const directory = join(scratch, 'control-plane')
  mkdirSync(directory)
  const at = (name) => join(directory, name)
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  writeFileSync(at('sa.key'), privateKey, { mode: 0o600 })
  writeFileSync(at('sa.pub'), publicKey)
  writeFileSync(at('tokens.csv'), 'admin-of-this-run,admin,admin,system:masters\n', { mode: 0o600 })
  const [etcd, peer] = ['http://127.0.0.1:2379', 'http://127.0.0.1:2380']
  const ends = [
    start('etcd', at('etcd.log'), {
      'data-dir': at('etcd'),
      'unsafe-no-fsync': 'true',
      'listen-client-urls': etcd,
      'advertise-client-urls': etcd,
      'listen-peer-urls': peer,
    }),
    start('kube-apiserver', at('apiserver.log'), {
      'etcd-servers': etcd,
      'bind-address': '127.0.0.1',
      'secure-port': `${port}`,
      'cert-dir': at('certs'),
      'token-auth-file': at('tokens.csv'),
      'authorization-mode': 'Node,RBAC',
      'service-cluster-ip-range': '10.96.0.0/16',
      'service-account-issuer': 'https://kubernetes.default.svc',
      'service-account-key-file': at('sa.pub'),
      'service-account-signing-key-file': at('sa.key'),
    }),
  ]
  const url = `https://127.0.0.1:${port}`
  const caFile = at('certs/apiserver.crt')
  const ask = client(caFile)
  const end = () => {
    for (const each of ends) each()
  }
  const limit = performance.now() + 120_000
  for (;;) {
    const answer = await ask('GET', '/readyz').catch((error) => error)
    if (answer === 'ok') return { url, caFile, ask, end }
    if (performance.now() > limit) {
      end()
      throw new Error(`no API server: ${answer}\n${readFileSync(at('apiserver.log'), 'utf8').slice(-2000)}`)
    }
    await sleep(200)
  }
}

function start(name, log, flags) {
  const args = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`)
  const out = openSync(log, 'w')
  const child = spawn(join(peers, name), args, { stdio: ['ignore', out, out] })
  return () => child.kill('SIGKILL')
}

function client(caFile) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 16 })
  return (method, path, { body, type = 'application/json' } = {}) =>
    new Promise((resolve, reject) => {
      const ca = readFileSync(caFile)
      const headers = { Authorization: 'Bearer admin-of-this-run', 'Content-Type': type }
      const request = https.request({ host: '127.0.0.1', port, method, path, agent, ca, headers }, (response) => {
        const chunks = []
        response.on('data', (chunk) => chunks.push(chunk))
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          if (response.statusCode >= 300)
            return reject(new Error(`${method} ${path}: ${response.statusCode} ${text.slice(0, 300)}`))
          resolve(text.startsWith('{') ? JSON.parse(text) : text)
        })
      })
      request.on('error', reject)
      request.end(body === undefined ? undefined : JSON.stringify(body))
    })
}

/** Applies the example's rights, and returns a token of its ServiceAccount. */
export async function agentToken({ url, ask }, caFile) {
  const access = [`--server=${url}`, `--certificate-authority=${caFile}`, '--token=admin-of-this-run']
  execFileSync('kubectl', [...access, 'apply', '-f', 'conf-examples/kubernetes/rbac.yaml'], { stdio: 'pipe' })
  const path = '/api/v1/namespaces/trestle/serviceaccounts/trestle-agent/token'
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 7200 } }
  return (await ask('POST', path, { body })).status.token
}
