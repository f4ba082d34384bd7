// Numbers and times as people read them; what is not known is a dash, never a 0.
import { h } from './dom.js';

export const NONE = '–';

const grouped = (n) => n.toLocaleString('en-US', { maximumFractionDigits: 2 });
const digits = (n) => {
  const size = Math.abs(n);
  return size >= 99.95 || Number.isInteger(n) ? n.toFixed(0) : size >= 9.995 ? n.toFixed(1) : n.toFixed(2);
};
const known = (n) => typeof n === 'number' && Number.isFinite(n);

const STEPS = [[1e12, ' T'], [1e9, ' G'], [1e6, ' M'], [1e3, ' k']];

/// Below 10,000 all of it, from there three digits: `12.3 M`.
export const short = (n) => {
  if (!known(n)) return NONE;
  const size = Math.abs(n);
  if (size < 9_999.5) return Number.isInteger(n) || size >= 99.95 ? grouped(Math.round(n)) : digits(n);
  const [by, name] = STEPS.find(([step]) => size >= step * 0.9995);
  return digits(n / by) + name;
};

/// A count: short, the whole on hover.
export const count = (n, unit) => h('span', { class: 'n', title: known(n) ? `${grouped(n)}${unit ? ` ${unit}` : ''}` : 'not known' }, short(n));

/// `1.2 k/s`.
export const perSecond = (n) => (known(n) ? `${short(n)}/s` : NONE);

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const sizeOf = (n) => (n < 1024 ? 0 : Math.min(4, Math.floor(Math.log(n) / Math.log(1024))));
export const bytes = (n) => {
  if (!known(n)) return NONE;
  const at = sizeOf(n);
  return `${digits(n / 1024 ** at)} ${SIZES[at]}`;
};
/// Two rates in the unit of the larger, short enough for a tile: `0.79 MiB/s in, 59.9 out`. The unit stands at the first
/// one: beside a rate of records `305 in` would be records.
export const bothBytes = (into, out) => {
  if (!known(into) || !known(out)) return `${bytesPerSecond(into)} in, ${bytesPerSecond(out)} out`;
  const at = sizeOf(Math.max(into, out));
  return `${digits(into / 1024 ** at)} ${SIZES[at]}/s in, ${digits(out / 1024 ** at)} out`;
};
export const bytesPerSecond = (n) => (known(n) ? `${bytes(n)}/s` : NONE);

/// A latency, from ms: `120 µs`, `1.20 ms`, `12.0 s`.
export const latency = (ms) => {
  if (!known(ms)) return NONE;
  if (ms === 0) return '0';
  if (ms < 0.9995) return `${digits(ms * 1000)} µs`;
  if (ms < 999.5) return `${digits(ms)} ms`;
  return ms < 120_000 ? `${digits(ms / 1000)} s` : span(ms);
};

/// A length of time, from ms, in two units at most: `12 s`, `3 min`, `2 h 5 min`.
export const span = (ms) => {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 600 && s % 60) return `${Math.floor(s / 60)} min ${s % 60} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const hours = Math.floor(min / 60);
  if (hours < 48) return min % 60 ? `${hours} h ${min % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
};

export const percent = (part) => (known(part) ? `${Math.round(part * 100)} %` : NONE);

export const clock = (at) => new Date(at).toLocaleTimeString('en-GB');
export const moment = (at) => {
  const date = new Date(at);
  const day = `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, '0')}-${String(date.getDate()).padStart(2, '0')}`;
  return `${day} ${clock(at)}`;
};

const timed = (at, text) => {
  if (!known(at)) return NONE;
  return h('time', { datetime: new Date(at).toISOString(), title: moment(at) }, text);
};
/// `3 min ago`, by the gateway's clock; the moment on hover.
export const ago = (at, now) => timed(at, known(at) && now - at < 2_000 ? 'just now' : `${span(now - at)} ago`);
/// How long something lasts: `3 min`.
export const lasting = (at, now) => timed(at, span(now - at));

/// Partition numbers as ranges: `0–3, 7`.
export const ranges = (numbers) => {
  const sorted = [...numbers].sort((a, b) => a - b);
  const out = [];
  for (let at = 0; at < sorted.length; at += 1) {
    const from = sorted[at];
    while (sorted[at + 1] === sorted[at] + 1) at += 1;
    out.push(sorted[at] === from ? `${from}` : sorted[at] === from + 1 ? `${from}, ${sorted[at]}` : `${from}–${sorted[at]}`);
  }
  return out.join(', ');
};

export const plural = (n, one, many) => `${short(n)} ${n === 1 ? one : many || `${one}s`}`;
