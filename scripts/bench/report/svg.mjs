// SPDX-License-Identifier: Apache-2.0
// What both pictures are made of: a sheet that is readable on light and on dark pages, text, and an axis.

const light = {
  sheet: '#ffffff',
  text: '#1f2328',
  dim: '#59636e',
  grid: '#d1d9e0',
  first: '#0969da',
  second: '#bc4c00',
  third: '#8250df',
  fourth: '#1a7f37',
  fifth: '#9a6700',
  start: '#c5cdd5',
  own: '#54aeff',
  next: '#218bff',
  fork: '#cf222e',
  waits: '#d8c8f5',
  works: '#8250df',
}
const dark = {
  sheet: '#0d1117',
  text: '#e6edf3',
  dim: '#9198a1',
  grid: '#3d444d',
  first: '#4493f8',
  second: '#f0883e',
  third: '#ab7df8',
  fourth: '#3fb950',
  fifth: '#d29922',
  start: '#484f58',
  own: '#388bfd',
  next: '#1f6feb',
  fork: '#ff7b72',
  waits: '#4b3a75',
  works: '#ab7df8',
}

const font = '12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif'

/** A whole picture. `parts`: elements as text; classes `fill-NAME` and `line-NAME` are the colours above. */
export function sheet({ width, height, title }, parts) {
  const style = `text{font:${font}}${rules(light)}@media(prefers-color-scheme:dark){${rules(dark)}}`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<style>${style}</style>`,
    rect({ x: 0, y: 0, width, height, fill: 'sheet' }),
    ...parts,
    '</svg>',
    '',
  ].join('\n')
}

function rules(colours) {
  const each = ([name, colour]) => `.fill-${name}{fill:${colour}}.line-${name}{stroke:${colour};fill:none}`
  return Object.entries(colours).map(each).join('')
}

/** `fill`: a colour's name. Nothing is thinner than half a pixel. */
export function rect({ x, y, width, height, fill, title }) {
  const shape = `<rect class="fill-${fill}" x="${n(x)}" y="${n(y)}" width="${n(Math.max(0.5, width))}" height="${n(height)}"`
  return title === undefined ? `${shape}/>` : `${shape}><title>${escaped(title)}</title></rect>`
}

export function line({ x1, y1, x2, y2, colour = 'grid', width = 1, dash }) {
  const dashes = dash === undefined ? '' : ` stroke-dasharray="${dash}"`
  return `<line class="line-${colour}" x1="${n(x1)}" y1="${n(y1)}" x2="${n(x2)}" y2="${n(y2)}" stroke-width="${width}"${dashes}/>`
}

export function polyline(points, colour) {
  const path = points.map(({ x, y }) => `${n(x)},${n(y)}`).join(' ')
  return `<polyline class="line-${colour}" points="${path}" stroke-width="2" stroke-linejoin="round"/>`
}

/** `anchor`: start, middle or end. */
export function text(words, { x, y, anchor = 'start', colour = 'text', bold = false, turned = false }) {
  const more = `${bold ? ' font-weight="600"' : ''}${turned ? ` transform="rotate(-90 ${n(x)} ${n(y)})"` : ''}`
  return `<text class="fill-${colour}" x="${n(x)}" y="${n(y)}" text-anchor="${anchor}"${more}>${escaped(words)}</text>`
}

/** Round values from 0 to at least `most`, about `count` of them. */
export function ticks(most, count = 6) {
  const rough = most / count
  const size = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((each) => each * size).find((each) => each >= rough)
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, at) => Math.round(at * step * 1000) / 1000)
}

/** How wide a text is about, in pixels. */
export function widthOf(words) {
  return words.length * 6.6
}

function escaped(words) {
  return words.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)
}

function n(value) {
  return String(Math.round(value * 10) / 10)
}
