// Charts over time. Each is a value with `id`, `title`, `from` (ms), `step` (ms), `series` of `name`, `colour`, `ys`, and
// `show`, which writes a value; what was drawn last under an id is what pointer and keys read off (readoff.js).
import { h } from './dom.js';
import { NONE, clock } from './format.js';

/// What was drawn, by id.
export const drawn = new Map();
const widths = new Map();
let redraw = () => {};
const watch = new ResizeObserver((changes) => {
  let changed = false;
  for (const { target, contentRect } of changes) {
    const width = Math.round(contentRect.width);
    if (width && widths.get(target.dataset.chart) !== width) {
      widths.set(target.dataset.chart, width);
      changed = true;
    }
  }
  if (changed) redraw();
});

/// Has `again` called when a chart's width has changed, and forgets charts that are gone.
export const keepWidths = (again) => {
  redraw = again;
  watch.disconnect();
  const shown = new Set();
  for (const plot of document.querySelectorAll('[data-chart]')) {
    shown.add(plot.dataset.chart);
    if (!plot.classList.contains('spark')) watch.observe(plot);
  }
  for (const id of drawn.keys()) if (!shown.has(id)) drawn.delete(id);
};

export const widthOf = (id) => widths.get(id) || Math.min(1200, Math.max(300, innerWidth - 60));

const numbers = (series) => series.flatMap(({ ys }) => ys).filter((y) => y != null);

/// The indices of points that are known, in runs: a gap stays a gap.
const runs = (ys) => {
  const out = [];
  ys.forEach((y, at) => {
    if (y == null) return;
    const last = out[out.length - 1];
    if (last && last[last.length - 1] === at - 1) last.push(at);
    else out.push([at]);
  });
  return out;
};

const path = (points) => points.map(([x, y], at) => `${at ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');

const described = (spec) => {
  const parts = spec.series.slice(0, 6).map(({ name, ys }) => {
    const seen = ys.filter((y) => y != null);
    if (!seen.length) return `${name}: nothing known`;
    return `${name}: now ${spec.show(seen[seen.length - 1])}, from ${spec.show(Math.min(...seen))} to ${spec.show(Math.max(...seen))}`;
  });
  return `${spec.title}. ${parts.join('; ')}`;
};

/// A line without axes, as broad as what it is in.
export const spark = (spec) => {
  drawn.set(spec.id, { ...spec, left: 0, right: 0 });
  const [{ ys, colour }] = spec.series;
  const top = Math.max(...ys.filter((y) => y != null), 0) || 1;
  const place = (at) => [(at / Math.max(1, ys.length - 1)) * 100, 29 - (ys[at] / top) * 27];
  const svg = h('svg', {
    viewBox: '0 0 100 30', preserveAspectRatio: 'none', role: 'img', tabindex: 0, 'aria-label': described(spec), class: 'spark', 'data-chart': spec.id,
  });
  for (const run of runs(ys)) {
    const points = run.map(place);
    const ends = [[points[points.length - 1][0], 30], [points[0][0], 30]];
    svg.append(h('path', { d: `${path(points.concat(ends))}Z`, fill: colour, 'fill-opacity': 0.14 }));
    svg.append(h('path', { d: path(points.length > 1 ? points : [points[0], points[0]]), fill: 'none', stroke: colour, 'stroke-width': 1.75, 'stroke-linejoin': 'round', 'stroke-linecap': 'round', 'vector-effect': 'non-scaling-stroke' }));
  }
  return svg;
};

const niceStep = (span, count) => {
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= raw * 0.999);
};

const linear = (max, count) => {
  const step = niceStep(max, count);
  const ticks = [];
  for (let at = 0; at <= max * 1.0001; at += step) ticks.push({ at, label: true });
  return ticks;
};

const logarithmic = (min, max) => {
  const decades = Math.log10(max / min);
  const labelled = decades < 1.3 ? [1, 2, 5] : decades < 3.2 ? [1, 3] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power += 1) {
    for (let n = 1; n < 10; n += 1) {
      const at = n * 10 ** power;
      if (at >= min * 0.999 && at <= max * 1.001) ticks.push({ at, label: labelled.includes(n) });
    }
  }
  return ticks;
};

const valueAxis = (spec) => {
  const seen = numbers(spec.series);
  const high = Math.max(spec.least || 0, ...seen) || 1;
  const positive = seen.filter((y) => y > 0);
  if (spec.log && positive.length) {
    const low = Math.min(...positive);
    const floor = [5, 2, 1].map((n) => n * 10 ** Math.floor(Math.log10(low))).find((at) => at <= low * 1.0001);
    const min = high / floor < 8 ? floor / 3 : floor;
    return { min, max: high * 1.25, log: true, ticks: logarithmic(min, high * 1.25) };
  }
  const max = spec.most || high * 1.08;
  return { min: 0, max, ticks: linear(max, 4) };
};

const timeTicks = (from, to, count) => {
  const step = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600].map((s) => s * 1000).find((ms) => (to - from) / ms <= count) || to - from || 1;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return { ticks, fine: step >= 60_000 };
};

const tidy = (text) => text.replace(/(\.\d*?)0+(?= |$|\/)/, '$1').replace(/\.(?= |$|\/)/, '');

/// A chart with axes, a legend where there are several series, and values to read off.
export const chart = (spec) => {
  const width = widthOf(spec.id);
  const height = spec.height || 200;
  const axis = valueAxis(spec);
  const labels = axis.ticks.filter((tick) => tick.label).map((tick) => tidy(spec.show(tick.at)));
  const left = Math.max(38, 12 + 6.6 * Math.max(...labels.map((label) => label.length)));
  const box = { left, right: width - 10, top: 8, bottom: height - 24 };
  drawn.set(spec.id, { ...spec, left: box.left / width, right: 1 - box.right / width });
  const last = Math.max(1, ...spec.series.map(({ ys }) => ys.length - 1));
  const to = spec.from + last * spec.step;
  const x = (at) => box.left + (at / last) * (box.right - box.left);
  const y = (value) => {
    const part = axis.log ? Math.log(Math.max(value, axis.min) / axis.min) / Math.log(axis.max / axis.min) : value / axis.max;
    return box.bottom - Math.min(1, part) * (box.bottom - box.top);
  };
  const svg = h('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', tabindex: 0, 'aria-label': `${described(spec)}. Arrow keys read values off.`, class: 'plot', 'data-chart': spec.id });
  for (const tick of axis.ticks) {
    svg.append(h('line', { class: tick.label ? 'grid' : 'grid minor', x1: box.left, x2: box.right, y1: y(tick.at), y2: y(tick.at) }));
    if (tick.label) svg.append(h('text', { x: box.left - 7, y: y(tick.at) + 4, 'text-anchor': 'end' }, tidy(spec.show(tick.at))));
  }
  const times = timeTicks(spec.from, to, width / 90);
  for (const at of times.ticks) {
    const place = x((at - spec.from) / spec.step);
    svg.append(h('line', { class: 'axis', x1: place, x2: place, y1: box.bottom, y2: box.bottom + 4 }));
    if (place > box.left + 16 && place < box.right - 16) svg.append(h('text', { x: place, y: box.bottom + 17, 'text-anchor': 'middle' }, times.fine ? clock(at).slice(0, 5) : clock(at)));
  }
  svg.append(h('line', { class: 'axis', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  const several = spec.series.length > 1;
  for (const { ys, colour, dash, width: thick } of spec.series) {
    for (const run of runs(ys)) {
      const points = run.map((at) => [x(at), y(ys[at])]);
      if (!several && !axis.log) svg.append(h('path', { d: `${path([...points, [points[points.length - 1][0], box.bottom], [points[0][0], box.bottom]])}Z`, fill: colour, 'fill-opacity': 0.1 }));
      svg.append(points.length === 1 ? h('circle', { cx: points[0][0], cy: points[0][1], r: 2.5, fill: colour })
        : h('path', { d: path(points), fill: 'none', stroke: colour, 'stroke-width': thick || 2, 'stroke-dasharray': dash, 'stroke-linejoin': 'round' }));
    }
  }
  if (!numbers(spec.series).length) svg.append(h('text', { x: width / 2, y: height / 2, 'text-anchor': 'middle' }, spec.nothing || 'nothing was measured yet'));
  return h('figure', { class: 'chart' },
    h('figcaption', {}, spec.title, several && h('span', { class: 'legend' }, spec.series.map(({ name, colour, dash }) => h('span', {},
      h('svg', { viewBox: '0 0 22 8', width: 22, height: 8, 'aria-hidden': 'true' }, h('line', { x1: 0, x2: 22, y1: 4, y2: 4, stroke: colour, 'stroke-width': 2.5, 'stroke-dasharray': dash })), name)))),
    svg);
};

/// Where a latency's percentiles lie between `min` and `max`, on a logarithmic scale: a bar from p50 to p99, a line on to
/// the largest. The table beside it has the numbers.
export const spread = ({ p50, p99, p999, max }, from, to) => {
  const place = (ms) => (Math.log(Math.max(ms, from) / from) / Math.log(to / from)) * 196 + 2;
  const svg = h('svg', { viewBox: '0 0 200 16', class: 'spread', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  if (p50 == null || p99 == null) return svg;
  const end = max ?? p999 ?? p99;
  svg.append(h('line', { class: 'all', x1: place(p50), x2: place(end), y1: 8, y2: 8 }));
  svg.append(h('rect', { class: 'most', x: place(p50), y: 4, width: Math.max(3, place(p99) - place(p50)), height: 8, rx: 2 }));
  if (p999 != null) svg.append(h('rect', { class: 'few', x: place(p999) - 1, y: 2, width: 2.5, height: 12 }));
  svg.append(h('rect', { class: 'one', x: place(end) - 1, y: 4, width: 2.5, height: 8 }));
  return svg;
};

export const valueAt = (spec, series, at) => {
  const y = series.ys[at];
  return y == null ? NONE : spec.show(y);
};
