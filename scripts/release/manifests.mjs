// SPDX-License-Identifier: Apache-2.0
// The manifests of conf-examples with the image by its digest: one file for kubectl apply, a base for kustomize, and a
// Helm chart whose rendered objects are those of the file.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const indented = (text) => text.trimEnd().replace(/^/gm, '    ')

const configMap = (template) => `apiVersion: v1
kind: ConfigMap
metadata:
  name: trestle-agent
  namespace: trestle
data:
  pods.conflist: |
${template}
`

/** `image`: NAME@sha256:DIGEST. `archive`: makes a .tar.gz in the release, of members of a folder. */
export function manifests({ root, out, version, image, archive }) {
  const base = join(root, 'conf-examples/kubernetes')
  const read = (name) => readFileSync(join(base, name), 'utf8')
  const [rbac, policy, daemonSet, conflist] = ['rbac.yaml', 'policy.yaml', 'daemonset.yaml', 'pods.conflist'].map(read)
  const withImage = (name) => replaced(daemonSet, 'image: localhost/trestle\n', `image: ${name}\n`)

  const documents = [rbac, policy, configMap(indented(conflist)), withImage(image)]
  writeFileSync(join(out, 'install.yaml'), documents.join('---\n'))

  const chart = join(out, 'stage/chart/trestle')
  mkdirSync(join(chart, 'templates'), { recursive: true })
  const files = {
    'Chart.yaml': `apiVersion: v2
name: trestle
description: trestle agent on every node
type: application
version: ${version}
appVersion: ${version}
`,
    'values.yaml': `image: ${image}
# Before Kubernetes 1.32: false (docs/kubernetes.md).
policy: true
# Further keys of the configuration: docs/configure.md.
conflist: |
${indented(conflist).replaceAll(/^ {4}/gm, '  ')}
`,
    'templates/rbac.yaml': rbac,
    'templates/policy.yaml': `{{- if .Values.policy }}\n${policy}{{- end }}\n`,
    'templates/configmap.yaml': configMap('{{ .Values.conflist | trimSuffix "\\n" | indent 4 }}'),
    'templates/daemonset.yaml': withImage('{{ .Values.image }}'),
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(chart, name), text)
  archive(`trestle-chart-${version}.tgz`, join(out, 'stage/chart'), 'trestle')

  const kustomize = join(out, 'stage/kustomize')
  const folders = ['kubernetes', 'kubernetes-paths', 'kubernetes-uninstall']
  for (const name of folders) cpSync(join(root, 'conf-examples', name), join(kustomize, name), { recursive: true })
  const [newName, digest] = image.split('@')
  const kustomization = replaced(
    read('kustomization.yaml'),
    `newTag: ${version}\n`,
    `newName: ${newName}\n    digest: ${digest}\n`,
  )
  writeFileSync(join(kustomize, 'kubernetes/kustomization.yaml'), kustomization)
  archive(`trestle-${version}-kustomize.tar.gz`, kustomize, ...folders)
}

function replaced(text, from, to) {
  if (!text.includes(from)) throw new Error(`release: a manifest has no "${from.trim()}"`)
  return text.replace(from, to)
}
