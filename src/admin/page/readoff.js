// Values of charts under the pointer, a finger, or a place that the arrow keys move.
import { h } from './dom.js';
import { clock, span } from './format.js';
import { drawn, valueAt } from './charts.js';

const SHOWN_MAX = 8;
const tip = document.getElementById('tip');
const cursor = document.getElementById('cursor');
const told = document.getElementById('told');
let reading = null;

const lengthOf = (spec) => Math.max(...spec.series.map(({ ys }) => ys.length));

const hide = () => {
  reading = null;
  tip.hidden = cursor.hidden = true;
};

const draw = (aloud) => {
  const plot = reading && document.querySelector(`[data-chart="${CSS.escape(reading.id)}"]`);
  const spec = plot && drawn.get(reading.id);
  if (!spec || !lengthOf(spec)) return hide();
  const last = lengthOf(spec) - 1;
  const at = Math.max(0, Math.min(last, Math.round(reading.part * last)));
  const bounds = plot.getBoundingClientRect();
  const left = bounds.left + bounds.width * (spec.left + (at / Math.max(1, last)) * (1 - spec.left - spec.right));
  cursor.style.left = `${left}px`;
  cursor.style.top = `${bounds.top}px`;
  cursor.style.height = `${bounds.height}px`;
  cursor.hidden = false;
  const when = `${clock(spec.from + at * spec.step)}, ${at === last ? 'now' : `${span((last - at) * spec.step)} ago`}`;
  const rows = spec.rows ? [spec.series[reading.row]].filter(Boolean)
    : [...spec.series].sort((a, b) => (b.ys[at] ?? -1) - (a.ys[at] ?? -1)).slice(0, SHOWN_MAX);
  tip.replaceChildren(h('b', {}, when), ...rows.map((series) => h('div', {}, h('span', {}, series.name), h('span', {}, valueAt(spec, series, at)))));
  tip.hidden = false;
  const size = tip.getBoundingClientRect();
  const beside = left + 12 + size.width < innerWidth ? left + 12 : left - 12 - size.width;
  tip.style.left = `${Math.max(4, Math.min(innerWidth - size.width - 4, beside))}px`;
  tip.style.top = `${Math.max(4, bounds.top > size.height + 8 ? bounds.top - size.height - 4 : bounds.bottom + 4)}px`;
  if (aloud) told.textContent = `${when}: ${rows.map((series) => `${series.name} ${valueAt(spec, series, at)}`).join(', ')}`;
};

const point = (event) => {
  const plot = event.target.closest?.('[data-chart]');
  const spec = plot && drawn.get(plot.dataset.chart);
  if (!spec) return hide();
  const bounds = plot.getBoundingClientRect();
  const part = ((event.clientX - bounds.left) / bounds.width - spec.left) / (1 - spec.left - spec.right);
  const row = Math.floor(((event.clientY - bounds.top) / bounds.height) * spec.series.length);
  reading = { id: plot.dataset.chart, part: Math.max(0, Math.min(1, part)), row: Math.max(0, Math.min(spec.series.length - 1, row)) };
  draw(false);
};

/// Listens, once for all charts; what it gives is to be called after each redraw.
export const startReading = () => {
  document.addEventListener('pointermove', point);
  document.addEventListener('pointerdown', point);
  document.addEventListener('scroll', hide, { passive: true, capture: true });
  document.addEventListener('focusout', hide);
  document.addEventListener('keydown', (event) => {
    const plot = event.target.closest?.('[data-chart]');
    const spec = plot && drawn.get(plot.dataset.chart);
    if (!spec) return;
    if (event.key === 'Escape') return hide();
    const last = Math.max(1, lengthOf(spec) - 1);
    const before = reading?.id === plot.dataset.chart ? reading : { part: 1, row: 0 };
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12, Home: -last, End: last }[event.key];
    const down = spec.rows ? { ArrowUp: -1, ArrowDown: 1 }[event.key] : 0;
    if (!step && !down) return;
    event.preventDefault();
    reading = {
      id: plot.dataset.chart,
      part: Math.max(0, Math.min(1, before.part + (step || 0) / last)),
      row: Math.max(0, Math.min(spec.series.length - 1, before.row + (down || 0))),
    };
    draw(true);
  });
  return () => reading && draw(false);
};
