// SPDX-License-Identifier: Apache-2.0
// What articles, forums and terminals do to an error text, undone: HTML, colours, the punctuation of other languages,
// marks that nobody sees.

/** Where a tag stands for the end of a line; the other ones stand within it. */
const blocks = 'br|p|div|li|ul|ol|tr|td|th|table|tbody|thead|pre|blockquote|h[1-6]|hr'
const inline = 'a|abbr|b|bdi|code|del|em|font|i|img|ins|kbd|mark|s|samp|small|span|strong|sub|sup|tt|u|var|wbr'

const entities: Readonly<Record<string, string>> = {
  quot: '"',
  apos: "'",
  lt: '<',
  gt: '>',
  amp: '&',
  nbsp: ' ',
  ldquo: '"',
  rdquo: '"',
  lsquo: "'",
  rsquo: "'",
  ndash: '\u2013',
  mdash: '\u2014',
  hellip: '...',
  shy: '',
}

/** The text as a program printed it, where an article, a forum or a terminal dressed it up. */
export function withoutTypesetting(text: string): string {
  return plainPunctuation(withoutHtml(withoutColours(text)))
}

/** Colours of a terminal, also where the character before them was lost or written out: ESC[31m, #033[31m, [31m. */
function withoutColours(text: string): string {
  return text.replace(
    /(?:\u001b|\u009b|#033|\^\[|\\033|\\e)\[?[\d;]{0,12}[mK]|\[(?:\d{1,3};){0,4}(?:0m|\d{1,2}m(?!\]))/g,
    '',
  )
}

/** Entities may stand for entities: &amp;quot; is what is left of a quote that was escaped twice. */
function withoutHtml(text: string): string {
  const plain = text.replace(/(?:&amp;){1,3}(?=#?\w{2,6};)/g, '&').replace(/&(#?\w{2,6});/g, entity)
  return plain
    .replace(new RegExp(`<\\/?(?:${blocks})(?:\\s[^<>\\n]{0,200})?\\/?>`, 'gi'), '\n')
    .replace(new RegExp(`<\\/?(?:${inline})(?:\\s[^<>\\n]{0,200})?\\/?>`, 'gi'), '')
}

function entity(whole: string, name: string): string {
  if (!name.startsWith('#')) return entities[name] ?? whole
  const code = /^#[xX]/.test(name) ? Number.parseInt(name.slice(2), 16) : Number.parseInt(name.slice(1), 10)
  return code > 31 && code < 0x1_00_00 ? String.fromCharCode(code) : whole
}

/**
 * Plain quotes, dashes and brackets, and the blanks that go with them; without marks of no width. NFKC makes plain
 * letters of wide ones and of ligatures.
 */
function plainPunctuation(text: string): string {
  return text
    .replace(/[\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]/g, '')
    .replace(/[\u00ab\u00bb\u201c-\u201f\u2033\u300a-\u300f\uff02]/g, '"')
    .replace(/[\u00b4\u02bc\u2018-\u201b\u2032\u2039\u203a\uff07]/g, "'")
    .replace(/[\u2010\u2011\u2212]/g, '-')
    .replace(/(?<=\s)[\u2013\u2014](?=[a-z])/gi, '--')
    .replace(/[\u2013\u2014]/g, '-')
    .replace(/[\uff09\u3011\uff1a\uff0c\uff1b\u3001](?=[^\s\d\uff01-\uff0f\uff1a\uff1b"')\]/])/g, '$& ')
    .replace(/\u3010/g, '[')
    .replace(/\u3011/g, ']')
    .replace(/\u3001/g, ',')
    .replace(/\u3002/g, '. ')
    .replace(/[\ufb00-\ufb06\uff01-\uff5e]+/g, (wide) => wide.normalize('NFKC'))
}
