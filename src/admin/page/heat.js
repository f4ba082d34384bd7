// The shards: a cell for each now, and their half hour as a picture with a row for each.
import { h } from './dom.js';
import { percent } from './format.js';
import { chart, drawn } from './charts.js';

/// Lines up to so many shards, a picture from there.
const LINES_MAX = 6;
const COLOURS = ['--c0', '--c1', '--c2', '--c3', '--c4', '--c5'];
const DASHES = ['', '7 4', '2 3', '9 3 2 3', '12 4', '4 4'];

const LEVELS = [0.25, 0.5, 0.7, 0.9];

/// 0 to 4, and nothing where nothing is known.
export const level = (cpu) => (cpu == null ? '' : LEVELS.filter((from) => cpu >= from).length);

export const strip = (shards) => h('ul', { class: shards.length > 12 ? 'strip many' : 'strip', 'aria-label': 'CPU of each shard' },
  shards.map((shard) => h('li', { 'data-key': `s${shard.shard}` },
    h('a', { href: `#/shards/${shard.shard}`, class: `cell heat${level(shard.cpu)}${shard.hot ? ' hot' : ''}`, 'aria-label': `Shard ${shard.shard}: CPU ${percent(shard.cpu)}${shard.hot ? ', hot' : ''}` },
      h('span', { class: 'which' }, shard.hot ? '▲ ' : '', shards.length > 12 ? '' : 'shard ', `${shard.shard}`),
      h('span', { class: 'value' }, percent(shard.cpu))))));

/// CPU of all shards over the history; hot ones stand out.
export const shardHistory = (history, shards) => {
  const series = (history.shard_cpu || []).map((ys, at) => {
    const hot = shards[at]?.hot;
    return { name: `shard ${shards[at]?.shard ?? at}`, ys, colour: `var(${COLOURS[at % 6]})`, dash: hot ? '' : DASHES[at % 6], width: hot ? 3 : 1.5 };
  });
  const spec = { id: 'shard-cpu', title: 'CPU by shard', from: history.from, step: history.step, series, show: percent, most: 1.04 };
  if (series.length <= LINES_MAX) return chart({ ...spec, height: 170 });
  drawn.set(spec.id, { ...spec, rows: true, left: 0, right: 0 });
  const longest = Math.max(1, ...series.map(({ ys }) => ys.length));
  return h('figure', { class: 'chart' },
    h('figcaption', {}, 'CPU by shard, a row each', h('span', { class: 'legend scale' }, '0 %', h('i', { class: 'heat0' }), h('i', { class: 'heat1' }), h('i', { class: 'heat2' }), h('i', { class: 'heat3' }), h('i', { class: 'heat4' }), '100 %')),
    h('canvas', { id: 'heat', class: 'heat', 'data-chart': spec.id, 'data-own': true, tabindex: 0, role: 'img', width: longest, height: series.length, 'aria-label': `CPU of ${series.length} shards over the last half hour. Arrow keys read values off.` }));
};

/// Paints the picture anew, when there is one.
export const paint = () => {
  const canvas = document.getElementById('heat');
  const spec = canvas && drawn.get(canvas.dataset.chart);
  if (!spec) return;
  const style = getComputedStyle(canvas);
  const shades = [0, 1, 2, 3, 4].map((at) => rgb(style.getPropertyValue(`--h${at}`)));
  const { width, height } = canvas;
  canvas.style.height = `${Math.min(288, Math.max(96, height * 8))}px`;
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
  spec.series.forEach(({ ys }, row) => ys.forEach((cpu, at) => {
    if (cpu == null) return;
    image.data.set([...shades[level(cpu)], 255], (row * width + at) * 4);
  }));
  context.putImageData(image, 0, 0);
};

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.trim().slice(at, at + 2), 16));
