// SPDX-License-Identifier: Apache-2.0
// What articles, forums and terminals of all languages do to an error text, undone.

import { describe, expect, it } from 'vitest'
import { plainText } from '../../../../src/cli/explain/plain-text.ts'
import { causesOf } from './texts.ts'

describe('a text as a program printed it', () => {
  it.each([
    ['wide punctuation', 'error：failed，again；“x”（y）【z】', 'error: failed, again;"x"(y) [z]'],
    ['wide colons of addresses', 'http：//10.0.0.1：443', 'http://10.0.0.1:443'],
    ['quotes of other languages', '「a」 «b» „c“ ＂d＂ it´s', `"a" "b" "c" "d" it's`],
    ['entities', 'plugin &quot;x&quot; &amp;lt;nil&amp;gt; &#39;y&#x27;&nbsp;z', `plugin "x" <nil> 'y' z`],
    ['tags', '<p>a <code class="x">b</code><br/>c</p>', '\na b\nc\n'],
    ['what are no tags', 'add <nil> to <interface>', 'add <nil> to <interface>'],
    ['colours', '\u001b[31merror\u001b[0m [1mb[0m #033[31mc [5m]', 'error b c [5m]'],
    ['marks of no width', 'net\u200bwork\ufeff \u00adx', 'network x'],
    ['dashes', 'ip6tables –wait x\u2011y a – b', 'ip6tables --wait x-y a - b'],
    ['Markdown', '**failed** to \\[find\\] `x` \\_y', 'failed to [find] "x" _y'],
    ['hexadecimal quotes', 'plugin \\x22x\\x22', 'plugin "x"'],
    ['marks of a quoted mail', '> a\n> > b', 'a\nb'],
  ])('%s', (_, pasted, printed) => {
    expect(plainText(pasted)).toBe(printed)
  })
})

describe('what is recognised in prose', () => {
  it.each([
    '容器启动时报错：failed to find plugin “loopback” in path【/opt/cni/bin】，导致Pod无法启动',
    'failed to find plugin &quot;loopback&quot; in path [/opt/cni/bin]',
    '<pre><code>failed to <strong>find</strong> plugin &#34;loopback&#34; in path</code></pre>',
    'failed to find plu\ngin "loopback" in path [/opt/cni/bin]',
    "cni: failed to find plugin 'loopback' in path [/opt/cni/bin]",
    'Le message « failed to find plugin "loopback" in path » apparaît',
  ])('%s', (text) => {
    expect(causesOf(text)).toEqual(['plugin-not-found'])
  })

  it.each([
    ['flannel服务报错：Error registering network：failed to acquire lease：out of subnets', 'flannel-full'],
    ['Error registering network:failed to acquire lease:out of subnets', 'flannel-full'],
    ['Error registering network : failed to acquire lease : out of subnets', 'flannel-full'],
  ])('%s', (text, id) => {
    expect(causesOf(text)).toEqual([id])
  })
})
