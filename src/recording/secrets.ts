// SPDX-License-Identifier: Apache-2.0
// Masks secrets in texts of others before they go into an error, a record or a log. The shapes are those that
// programs print: JSON (also inside a JSON string), pairs, YAML, options, URLs, headers, keys and tokens.

import { isDeepStrictEqual } from 'node:util'

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

const mask = '***'

const secretWord = [
  ...[
    'token',
    'secret',
    'passw',
    'passphrase',
    'passcode',
    'passwd',
    'pwd',
    'pass(?:key|(?![a-z]))',
    'cred(?:ential|s?(?![a-z]))',
  ],
  ...['cookie', 'community', '(?<![a-z])(?:pw|pin|otp)(?![a-z])'],
  ...['(?:api|private|client|access|account|encryption|shared|signing)[_-]?key', 'auth(?!or)', 'psk', 'signature'],
  ...['session[_-]?(?:id|key)', 'bearer', '(?<![a-z])sig(?![a-z])', '(?:etcd|tls|fastopen)[_-]?key(?!file)'],
].join('|')

/**
 * Behind a name: the name is none of a setting of the kernel's network, which only sounds like a secret's, like
 * `net.ipv4.tcp_syncookies`, but for two.
 */
const noSetting = '(?:(?<=stable_secret|fastopen_key)|(?<!(?<![\\w.-])net[./][\\w./-]{0,120}))'

/**
 * A name that sounds like that of a secret; authorization is the only such name with `author`. Bounded: without a bound
 * a long text of dots and letters takes quadratic time.
 */
const key = `[\\w.-]{0,60}(?:${secretWord}|authorization)[\\w.-]{0,60}${noSetting}`

type Rule = readonly [pattern: RegExp, replacement: string]

/** Compiled when something is masked: a call that goes well masks nothing. */
function rules(): readonly Rule[] {
  const quoted = `"(?:[^"\\\\]|\\\\[\\s\\S])*"?|'(?:[^'\\\\]|\\\\[\\s\\S])*'?`
  const bare = `[^\\s;,&"'}\\])]+`
  return [
    [/-----BEGIN ([A-Z ]*)PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, `$1PRIVATE KEY ${mask}`],
    [/([a-z][a-z\d+.-]{0,30}:\/\/)[^\s/?#"'\\]{1,500}@/gi, `$1${mask}@`],
    [/(hooks\.slack\.com\/services\/)[\w/-]+/gi, `$1${mask}`],
    [
      /\b((?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{0,60}(?:key|token|auth|secret)[\w-]{0,60})(\s*:\s*)[^\n"'\\]+/gi,
      `$1$2${mask}`,
    ],
    [/\b(bearer|basic)(\s+)[\w.~+/=-]{6,}/gi, `$1$2${mask}`],
    [/\beyJ[\w-]{6,2000}\.[\w-]*(?:\.[\w-]*)?/g, mask],
    [/\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|hvs\.|AKIA|ASIA|AIza|npm_|dop_v1_)[\w-]{8,}/g, mask],
    // Pods and networks have names like sk-production.
    [/\bsk-(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Z])[\w-]{20,}/g, mask],
    [/\$(?:apr1|2[abxy]|[156y]|gy|argon2\w*)\$[\w./$,=+-]+/g, mask],
    // JSON inside a JSON string: the quotes are escaped, as often as it is nested.
    [new RegExp(`(\\\\{1,64}"${key}\\\\{1,64}"\\s*:\\s*\\\\{1,64}")[^"\\\\]*`, 'gi'), `$1${mask}`],
    [new RegExp(`("${key}"\\s*:\\s*)(?:${quoted}|(?:true|false|null)\\b)`, 'gi'), `$1"${mask}"`],
    [new RegExp(`("${key}"\\s*:\\s*)(?:\\[[^\\]]*\\]?|\\{[^{}]*\\}?|-?[\\d.]+)`, 'gi'), `$1"${mask}"`],
    [new RegExp(`("name"\\s*:\\s*"${key}"\\s*,\\s*"value"\\s*:\\s*)(?:${quoted})`, 'gi'), `$1"${mask}"`],
    [new RegExp(`('${key}'\\s*:\\s*)(?:${quoted})`, 'gi'), `$1'${mask}'`],
    [new RegExp(`(<${key}>)[^<]*`, 'gi'), `$1${mask}`],
    [new RegExp(`(\\b${key}(?:\\s?=\\s?|%3D))(?:${quoted}|${bare})`, 'gi'), `$1${mask}`],
    [
      new RegExp(
        `(^[ \\t-]{0,200}["']?${key}["']?:[ \\t]+)(?:[|>]-?\\n(?:[ \\t]+\\S.*\\n?)+|[^\\s{["'#].*|${quoted})`,
        'gim',
      ),
      `$1${mask}`,
    ],
    [new RegExp(`([{\\s]${key}:)(?:${quoted}|${bare})`, 'gi'), `$1${mask}`],
    // In a sentence a word alone counts: "token: no such file" is none.
    [new RegExp(`(\\b${key}:[ \\t]+)${bare}(?=[;,\\n]|$)`, 'gi'), `$1${mask}`],
    [/\b((?:mysql|mariadb)\w{0,10}\s[^\n]{0,200}?-p)[^\s-]\S*/g, `$1${mask}`],
    [new RegExp(`((?:^|[\\s"'])--?${key}\\s+)(?!-)(?:${quoted}|${bare})`, 'gi'), `$1${mask}`],
    [new RegExp(`("--?${key}"\\s*,\\s*)(?:${quoted})`, 'gi'), `$1"${mask}"`],
    [/(\s-u\s+[^\s:]+:|\bsshpass\s+-p\s*|\blogin\s+\S+\s+password\s+|\bIDENTIFIED\s+BY\s+)\S+/gi, `$1${mask}`],
    [/\b((?:enc|auth|auth-trunc|aead)\s+\S+\s+)0x\w+/g, `$1${mask}`],
  ]
}

let compiled: readonly Rule[] | undefined

/**
 * One of these is in every text that a rule changes, or an escape that may hide it. Most texts of a call have none, and
 * compiling all rules takes some milliseconds.
 */
const suspicious = new RegExp(
  [
    ...['token', 'community', 'cred', '(?<![a-z])(?:pw|pin|otp)(?![a-z])', 'mysql', 'mariadb', 'secret', 'pass', 'pwd'],
    ...['cookie', 'auth', 'psk', 'session', 'bearer', 'basic', 'signature', '(?<![a-z])sig(?![a-z])'],
    ...['(?:api|private|client|access|account|encryption|shared|signing|etcd|tls|fastopen)[ _-]?key'],
    ...[
      'x-[\\w-]{0,60}key',
      ':\\/\\/',
      'hooks\\.slack',
      'eyJ',
      'gh[pousr]_',
      'github_pat',
      'glpat',
      'xox',
      'sk-',
      'hvs',
    ],
    ...['AKIA', 'ASIA', 'AIza', 'npm_', 'dop_v', '\\$\\w', '-u\\s', 'identified', '\\benc\\b', 'aead', '\\\\[ux]'],
  ].join('|'),
  'i',
)

/** `text` with `***` in the place of each secret. JSON stays JSON. */
export function masked(text: string): string {
  if (!suspicious.test(text)) return text
  const document = /^\s*[[{]/.test(text) ? parsedJson(text) : undefined
  if (document === undefined) return maskedText(text.replace(/^\s*[[{].*[\]}]$/gm, maskedLine))
  const clean = maskedValue(document)
  return isDeepStrictEqual(clean, document) ? text : JSON.stringify(clean)
}

/** A document on a line of its own. */
function maskedLine(line: string): string {
  return parsedJson(line) === undefined ? line : masked(line)
}

/** A value of JSON, with all below a key that sounds like a secret's masked. */
function maskedValue(value: unknown): unknown {
  if (typeof value === 'string') return masked(value)
  if (Array.isArray(value)) return value.map(maskedValue)
  if (typeof value !== 'object' || value === null) return value
  const ofVariable = (value as { name?: unknown }).name
  const isSecretVariable = typeof ofVariable === 'string' && isSecretName(ofVariable)
  const entries = Object.entries(value).map(([name, each]) => {
    const isNamed = isSecretName(name) || (name === 'value' && isSecretVariable)
    const isSecret = isNamed && each !== null && typeof each !== 'boolean'
    return [masked(name), isSecret ? mask : maskedValue(each)]
  })
  return Object.fromEntries(entries)
}

/** The same of text that is not read as JSON: its columns stay up to the first secret. */
export function maskedText(text: string): string {
  // Kept by the process that masks: the warm-up of the build masks nothing.
  compiled ??= rules()
  return compiled.reduce((left, [pattern, replacement]) => left.replace(pattern, replacement), withinStrings(text))
}

/** Masks within JSON strings that have escapes: quotes and line breaks of what they hold are escaped there. */
function withinStrings(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"?/g, (literal) => {
    if (!literal.includes('\\')) return literal
    try {
      const inner = JSON.parse(literal) as string
      const clean = masked(inner)
      return clean === inner ? literal : JSON.stringify(clean)
    } catch {
      return literal
    }
  })
}

/** The words of a command line, masked: the word after an option that sounds like a secret, too. */
export function maskedWords(words: readonly string[]): readonly string[] {
  const isOption = (word = '') => /^--?\w/.test(word) && isSecretName(word.replace(/^--?/, ''))
  return words.map((word, at) => (isOption(words[at - 1]) && !word.startsWith('-') ? mask : masked(word)))
}

let secretName: RegExp | undefined

/** By the part after the last `/`, as in labels. */
export function isSecretName(name: string): boolean {
  secretName ??= new RegExp(`^(?:.*/)?${key}$`, 'i')
  return secretName.test(name)
}
