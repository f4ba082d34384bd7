(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const several = data.runs.length > 1;
  const state = { log: true, series: data.series.includes(data.primary) ? data.primary : data.series[0] || '', percentile: 'p99' };
  const dashes = ['', '7 4', '2 3', '9 3 2 3'];
  const colour = (index) => `var(--c${index % 8})`;
  const dash = (run) => dashes[(run.side == null ? Math.floor(run.colour / 8) : run.side) % 4];
  let ids = 0;

  const make = (name, attributes, parent, text) => {
    const svg = ['svg', 'g', 'path', 'line', 'rect', 'text', 'title', 'desc', 'circle'].includes(name);
    const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== '' && value != null) node.setAttribute(key, value);
    if (text != null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };

  // Numbers as the tables of the page have them: three digits and the unit that fits.
  const digits = (n) => (Math.abs(n) >= 99.95 ? n.toFixed(0) : Math.abs(n) >= 9.995 ? n.toFixed(1) : n.toFixed(2));
  const scaled = (n, units) => {
    if (!n) return `0 ${units.zero}`;
    let best = units.steps[0];
    for (const step of units.steps) if (Math.abs(n) >= step[1] * 0.9995) best = step;
    return `${digits(n / best[1])} ${best[0]}`;
  };
  const time = (ns) => scaled(ns, { zero: 's', steps: [['ns', 1], ['µs', 1e3], ['ms', 1e6], ['s', 1e9]] });
  const bytes = (n) => scaled(n, { zero: 'B', steps: [['B', 1], ['KiB', 1024], ['MiB', 1048576], ['GiB', 1073741824]] });
  const grouped = (n) => (Number.isInteger(n) || Math.abs(n) >= 99.95 ? Math.round(n).toLocaleString('en-US') : digits(n));
  const perSecond = (n) => `${grouped(n)} /s`;
  const cores = (n) => `${n.toFixed(2)} cores`;
  const tidy = (text) => text.replace(/(\.\d*?)0+(?= |$)/, '$1').replace(/\.(?= |$)/, '');
  const clock = (s) => (s >= 119.5 ? `${Math.floor(s / 60)}:${String(Math.round(s % 60)).padStart(2, '0')} min` : `${+s.toFixed(2)} s`);
  const share = (x) => {
    if (x <= 1.0005) return 'fastest';
    const percent = 100 * (1 - 1 / x);
    return `${+percent.toFixed(Math.min(7, Math.max(1, Math.ceil(Math.log10(x)) + 1)))} %`;
  };
  const oneOf = (x) => (x <= 1.0005 ? 'The fastest' : `${share(x)}, all but one of ${x < 10 ? +x.toFixed(1) : grouped(Math.round(x))}`);

  // Axes.
  const niceStep = (span, count) => {
    const raw = span / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= raw * 0.999);
  };
  const linearTicks = (min, max, count) => {
    const step = niceStep(max - min || 1, count);
    const ticks = [];
    for (let at = Math.ceil(min / step - 1e-9) * step || 0; at <= max * 1.000001; at += step) ticks.push({ at, label: true });
    return ticks;
  };
  const timeTicks = (max, count) => {
    const step = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 36000, 86400].find((s) => max / s <= count) || niceStep(max, count);
    const ticks = [];
    for (let at = 0; at <= max * 1.000001; at += step) ticks.push({ at, label: true });
    return ticks;
  };
  const logTicks = (min, max) => {
    const decades = Math.log10(max / min);
    const labelled = decades < 1.3 ? [1, 2, 3, 5, 7] : decades < 3.2 ? [1, 2, 5] : decades < 5 ? [1, 3] : [1];
    const ticks = [];
    for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power += 1) {
      for (let n = 1; n < 10; n += 1) {
        const at = n * 10 ** power;
        if (at >= min * 0.999 && at <= max * 1.001) ticks.push({ at, label: labelled.includes(n) });
      }
    }
    return ticks;
  };
  const yAxis = (layers, log, show, bits) => {
    let low = Infinity;
    let high = 0;
    for (const layer of layers) {
      for (const list of [layer.ys, layer.lows]) {
        for (const y of list || []) if (y != null) { if (y > 0) low = Math.min(low, y); high = Math.max(high, y); }
      }
    }
    if (!high) { high = 1; low = 1; }
    if (log) {
      const floor = (v) => { const p = 10 ** Math.floor(Math.log10(v)); return [5, 2, 1].map((n) => n * p).find((n) => n <= v * 1.0001); };
      let min = floor(low);
      let max = high * 1.12;
      if (max / min < 8) { min = floor(min / 1.5); max *= 1.3; }
      return { min, max, log: true, show, ticks: logTicks(min, max) };
    }
    const max = high * 1.08;
    if (!bits) return { min: 0, max, show, ticks: linearTicks(0, max, 5) };
    const unit = 1024 ** Math.floor(Math.log(max) / Math.log(1024));
    return { min: 0, max, show, ticks: linearTicks(0, max / unit, 5).map((tick) => ({ at: tick.at * unit, label: true })) };
  };

  // Charts: each gives its axes and layers; drawing, reading off and the table are the same for all.
  const longest = Math.max(1, ...data.runs.map((run) => run.at[run.at.length - 1] || 0));
  const warmup = Math.max(0, ...data.runs.map((run) => run.warmup_s));
  const ended = Math.max(0, ...data.runs.map((run) => run.end_s));
  const overTime = (width) => ({
    min: 0, max: longest, ticks: timeTicks(longest, width / 75), show: clock, label: 'time since the schedule began',
    tick: (s) => (longest >= 240 ? `${+(s / 60).toFixed(1)} min` : `${s} s`),
  });
  const kinds = { rt: 'response time', st: 'service time', wt: 'waiting time' };
  const named = (series) => {
    const kind = series.slice(series.lastIndexOf('.') + 1);
    return kinds[kind] ? `${series} (${kinds[kind]})` : series;
  };

  const charts = {
    tail: (width) => {
      const layers = [];
      if (!several) {
        // The kinds of one operation beside each other: what a user waits, and what the server took of it.
        const operation = state.series.replace(/\.(rt|st|wt)$/, '');
        const of = data.series.filter((series) => series === state.series || (/\.(rt|st)$/.test(series) && series.replace(/\.(rt|st)$/, '') === operation));
        of.forEach((series) => {
          const tail = data.runs[0].tails[series];
          const first = series === state.series;
          if (tail) layers.push({ kind: 'line', name: named(series), tag: series.split('.').pop(), colour: colour(first ? 0 : 1), width: first ? 2.5 : 1.5, dash: first ? '' : '6 4', xs: tail.x, ys: tail.ns });
        });
      } else {
        for (const run of data.runs) {
          const tail = run.tails[state.series];
          const compared = run.side != null && data.sides.length;
          if (tail) layers.push({ kind: 'line', name: run.name, quiet: compared, colour: colour(run.colour), width: compared ? 1 : 2.25, opacity: compared ? 0.4 : 1, dash: dash(run), xs: tail.x, ys: tail.ns });
        }
        for (const side of data.sides) {
          const tail = side.tails[state.series];
          if (tail && tail.x.length) layers.push({ kind: 'line', name: `${side.name}, all runs merged`, tag: side.name.slice(0, 1), colour: colour(side.colour), width: 3, dash: side.colour ? '8 4' : '', xs: tail.x, ys: tail.ns });
        }
      }
      const max = Math.max(10, ...layers.map((layer) => layer.xs[layer.xs.length - 1] || 1));
      const ticks = [{ at: 1, label: true }, { at: 2, label: width > 520 }];
      for (let at = 10; at <= max * 1.001; at *= 10) ticks.push({ at, label: true });
      return {
        title: `Latency by percentile, ${state.series}`, layers, tall: true,
        x: { min: 1, max, log: true, ticks, show: oneOf, tick: (x) => (x === 1 ? '0 %' : share(x)), label: 'share of requests at least as fast', head: 'Share' },
        y: yAxis(layers, state.log, time),
      };
    },
    time: (width) => {
      const layers = [];
      const bands = [['max', 'largest', 0.1, 1, '2 3'], ['p999', '99.9 %', 0.16, 1.25, '6 3'], ['p99', '99 %', 0.24, 1.75, ''], ['p50', '50 %', 0, 2.5, '']];
      if (!several) {
        const run = data.runs[0];
        const of = run.over_time[state.series];
        if (of) {
          bands.forEach(([key, name, opacity, thick, dashed], at) => {
            if (opacity) layers.push({ kind: 'band', colour: colour(0), opacity, xs: run.at, ys: of[key], lows: of[bands[at + 1][0]] });
            layers.push({ kind: 'line', name, tag: name, colour: colour(0), width: thick, dash: dashed, xs: run.at, ys: of[key] });
          });
        }
      } else {
        for (const run of data.runs) {
          const of = run.over_time[state.series];
          if (of) layers.push({ kind: 'line', name: run.name, side: run.side, colour: colour(run.colour), width: run.side != null ? 1.25 : 2, opacity: run.side != null ? 0.75 : 1, dash: dash(run), xs: run.at, ys: of[state.percentile] });
        }
      }
      return { title: `Latency over time, ${state.series}`, layers, x: overTime(width), y: yAxis(layers, state.log, time), shaded: true };
    },
    rate: (width) => {
      const layers = [];
      const offers = new Set();
      for (const run of data.runs) {
        const of = run.over_time[data.primary];
        if (of) layers.push({ kind: 'line', name: several ? run.name : 'answered', side: run.side, colour: colour(run.colour), width: 2, dash: dash(run), xs: run.at, ys: of.count.map((n, at) => (run.length[at] ? n / run.length[at] : 0)) });
        if (run.offered != null && !offers.has(run.offered)) {
          offers.add(run.offered);
          layers.push({ kind: 'line', name: several ? `offered, ${perSecond(run.offered)}` : 'offered', colour: 'var(--ink)', width: 1.25, dash: '5 4', xs: [0, longest], ys: [run.offered, run.offered], quiet: several });
        }
      }
      return { title: 'Throughput', layers, x: overTime(width), y: yAxis(layers, false, perSecond), shaded: true };
    },
    errors: (width) => {
      const layers = data.runs.map((run) => ({ kind: several ? 'line' : 'bars', name: several ? run.name : 'errors', side: run.side, colour: several ? colour(run.colour) : 'var(--bad)', width: 2, dash: dash(run), xs: run.at, spans: run.length, ys: run.errors }));
      return { title: 'Errors over time', layers, x: overTime(width), y: yAxis(layers, false, grouped), shaded: true };
    },
    cpu: (width) => {
      const layers = [];
      for (const run of data.runs) {
        if (!run.server) continue;
        layers.push({ kind: 'line', name: several ? run.name : 'whole process', side: run.side, colour: several ? colour(run.colour) : 'var(--ink)', width: 2.25, dash: dash(run), xs: run.at, ys: run.server.cpu });
        if (!several) {
          Object.entries(run.server.threads).forEach(([name, ys], at) => {
            layers.push({ kind: 'line', name, colour: colour(at), width: 1.25, dash: dashes[Math.floor(at / 8) % 4], xs: run.at, ys });
          });
        }
      }
      return { title: 'CPU of the server', layers, x: overTime(width), y: yAxis(layers, false, cores), shaded: true };
    },
    metrics: (width) => {
      const layers = data.runs[0].metrics.map((metric, at) => ({ kind: 'line', name: metric.name, colour: colour(at), width: 1.75, dash: dashes[at % 4], xs: data.runs[0].at, ys: metric.rate }));
      return { title: 'What the server counted', layers, x: overTime(width), y: yAxis(layers, false, perSecond), shaded: true };
    },
    rss: (width) => {
      const layers = data.runs.filter((run) => run.server).flatMap((run) => {
        const line = { kind: 'line', name: several ? run.name : 'resident memory', side: run.side, colour: colour(run.colour), width: 2, dash: dash(run), xs: run.at, ys: run.server.rss };
        return several ? [line] : [{ kind: 'band', colour: colour(0), opacity: 0.15, xs: run.at, ys: run.server.rss, lows: run.server.rss.map(() => 0) }, line];
      });
      return { title: 'Memory of the server', layers, x: overTime(width), y: yAxis(layers, false, bytes, true), shaded: true };
    },
  };

  const path = (points) => points.map((p, at) => `${at ? 'L' : 'M'}${p[0].toFixed(1)} ${p[1].toFixed(1)}`).join('');
  /// Runs of points that were seen: a gap stays a gap.
  const pieces = (layer) => {
    const out = [];
    let piece = [];
    layer.xs.forEach((x, at) => {
      if (layer.ys[at] == null) { if (piece.length) out.push(piece); piece = []; } else piece.push(at);
    });
    if (piece.length) out.push(piece);
    return out;
  };

  const draw = (figure) => {
    const plot = figure.querySelector('.plot');
    const width = Math.max(280, Math.round(plot.clientWidth || 700));
    const spec = charts[figure.dataset.chart](width);
    const { x, y, layers } = spec;
    const shown = layers.filter((layer) => layer.name);
    const tagged = width > 560 && shown.some((layer) => layer.tag);
    const height = Math.round(Math.min(spec.tall ? 400 : 300, Math.max(220, width * 0.62)));
    const ticks = (y.ticks || []).filter((tick) => tick.label).map((tick) => tidy(y.show(tick.at)));
    const left = Math.max(46, 14 + 7 * Math.max(0, ...ticks.map((label) => label.length)));
    const box = { left, right: width - (tagged ? 62 : 16), top: 10, bottom: height - 42 };
    const place = (axis, from, to) => (value) => {
      const part = axis.log ? Math.log(Math.max(value, axis.min) / axis.min) / Math.log(axis.max / axis.min) : (value - axis.min) / (axis.max - axis.min);
      return from + part * (to - from);
    };
    const px = place(x, box.left, box.right);
    const py = place(y, box.bottom, box.top);
    const id = `chart${(ids += 1)}`;
    const svg = make('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', tabindex: 0, 'aria-labelledby': `${id}-t ${id}-d` });
    make('title', { id: `${id}-t` }, svg, spec.title);
    make('desc', { id: `${id}-d` }, svg, describe(spec, shown));

    // What is in no figure: the warm-up, and what was only waited for when the schedule had ended.
    const shades = spec.shaded ? [[0, warmup, 'warm-up'], [ended, longest, 'awaited']].filter(([from, to]) => to - from > longest * 0.004) : [];
    for (const [from, to] of shades) {
      make('rect', { class: 'shade', x: px(from), y: box.top, width: px(Math.min(to, x.max)) - px(from), height: box.bottom - box.top }, svg);
    }
    for (const tick of y.ticks) {
      make('line', { class: tick.label ? 'grid' : 'grid minor', x1: box.left, x2: box.right, y1: py(tick.at), y2: py(tick.at) }, svg);
      if (tick.label) make('text', { x: box.left - 8, y: py(tick.at) + 4, 'text-anchor': 'end' }, svg, tidy(y.show(tick.at)));
    }
    let freeFrom = -Infinity;
    for (const tick of x.ticks) {
      const at = px(tick.at);
      make('line', { class: 'grid', x1: at, x2: at, y1: box.top, y2: box.bottom }, svg);
      const label = (x.tick || x.show)(tick.at);
      const half = label.length * 3.4;
      if (tick.label && at - half > freeFrom && at + half < width) {
        make('text', { x: at, y: box.bottom + 17, 'text-anchor': 'middle' }, svg, label);
        freeFrom = at + half + 6;
      }
    }
    make('text', { x: (box.left + box.right) / 2, y: height - 6, 'text-anchor': 'middle' }, svg, x.label);

    for (const layer of layers) {
      const style = { fill: 'none', stroke: layer.colour, 'stroke-width': layer.width, 'stroke-dasharray': layer.dash, 'stroke-opacity': layer.opacity, 'stroke-linejoin': 'round', 'data-layer': layer.name };
      if (layer.kind === 'bars') {
        layer.xs.forEach((to, at) => {
          if (!layer.ys[at]) return;
          const from = px(to - layer.spans[at]);
          make('rect', { x: from, y: py(layer.ys[at]), width: Math.max(1, px(to) - from - 0.5), height: box.bottom - py(layer.ys[at]), fill: layer.colour }, svg);
        });
        continue;
      }
      for (const piece of pieces(layer)) {
        const points = piece.map((at) => [px(layer.xs[at]), py(layer.ys[at])]);
        if (layer.kind === 'band') {
          const below = piece.map((at) => [px(layer.xs[at]), py(layer.lows[at] == null ? y.min : layer.lows[at])]).reverse();
          make('path', { d: `${path(points.concat(below))}Z`, fill: layer.colour, 'fill-opacity': layer.opacity }, svg);
        } else if (points.length === 1) {
          make('circle', { cx: points[0][0], cy: points[0][1], r: 2.5, fill: layer.colour }, svg);
        } else make('path', { d: path(points), ...style }, svg);
      }
    }
    for (const [from, to, name] of shades) {
      if (px(to) - px(from) > 58) make('text', { class: 'tag', x: px(from) + 6, y: box.top + 14 }, svg, name);
    }
    make('line', { class: 'axis', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);

    if (tagged) {
      // Names at the lines' ends, pushed apart where they would touch.
      const ends = shown.filter((layer) => layer.tag).map((layer) => {
        let at = layer.ys.length - 1;
        while (at >= 0 && layer.ys[at] == null) at -= 1;
        return at < 0 ? null : { layer, x: px(layer.xs[at]) + 6, y: py(layer.ys[at]) + 4 };
      }).filter(Boolean).sort((a, b) => a.y - b.y);
      ends.forEach((end, at) => { if (at && end.y < ends[at - 1].y + 14) end.y = ends[at - 1].y + 14; });
      const over = ends.length ? ends[ends.length - 1].y - box.bottom : 0;
      ends.forEach((end) => {
        if (over > 0) end.y -= over;
        make('text', { class: 'tag', x: end.x, y: end.y, style: `fill:${end.layer.colour}` }, svg, end.layer.tag);
      });
    }

    legend(figure, shown);
    if (!shown.length) make('text', { x: width / 2, y: height / 2, 'text-anchor': 'middle' }, svg, 'nothing was measured');
    plot.replaceChildren(svg);
    readOff(plot, svg, spec, shown, px, box, width);
    const details = figure.querySelector('.data');
    details.ontoggle = () => { if (details.open) table(details.lastElementChild, spec, shown); };
    if (details.open) table(details.lastElementChild, spec, shown);
  };

  const describe = (spec, shown) => {
    const parts = shown.slice(0, 8).map((layer) => {
      const seen = layer.ys.filter((v) => v != null);
      return seen.length ? `${layer.name}: from ${spec.y.show(Math.min(...seen))} to ${spec.y.show(Math.max(...seen))}` : `${layer.name}: nothing`;
    });
    return `${parts.join('; ')}. Arrow keys read values off; a table follows.`;
  };

  const legend = (figure, shown) => {
    const place = figure.querySelector('.legend');
    place.replaceChildren();
    const sides = new Set();
    for (const layer of shown) {
      if (layer.quiet && data.sides.length) continue;
      // Runs of one side look the same and are told once.
      if (layer.side != null && sides.has(layer.side)) continue;
      sides.add(layer.side);
      const item = make('span', {}, place);
      const key = make('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true' }, item);
      if (layer.kind === 'bars') make('rect', { x: 8, y: 0, width: 10, height: 10, fill: layer.colour }, key);
      else make('line', { x1: 0, x2: 26, y1: 5, y2: 5, stroke: layer.colour, 'stroke-width': Math.max(1.5, layer.width), 'stroke-dasharray': layer.dash, 'stroke-opacity': layer.opacity }, key);
      item.append(layer.side != null && data.sides[layer.side] ? `${data.sides[layer.side].name}, each run` : layer.name);
    }
  };

  const nearest = (xs, wanted, log) => {
    let best = 0;
    const away = (at) => Math.abs(log ? Math.log(xs[at] / wanted) : xs[at] - wanted);
    for (let at = 1; at < xs.length; at += 1) if (away(at) < away(best)) best = at;
    return best;
  };

  /// Values under the pointer, or under a cursor that the arrow keys move.
  const readOff = (plot, svg, spec, shown, px, box, width) => {
    const guide = shown.reduce((most, layer) => (layer.xs.length > (most ? most.xs.length : 0) ? layer : most), null);
    if (!guide) return;
    const tip = make('div', { class: 'tip', hidden: 'hidden' }, plot);
    const told = make('div', { class: 'unseen', 'aria-live': 'polite' }, plot);
    const cursor = make('line', { class: 'cursor', y1: box.top, y2: box.bottom, visibility: 'hidden' }, svg);
    let at = -1;
    const hide = () => { tip.hidden = true; cursor.setAttribute('visibility', 'hidden'); at = -1; };
    const show = (index, aloud) => {
      at = Math.max(0, Math.min(guide.xs.length - 1, index));
      const value = guide.xs[at];
      const position = px(value);
      cursor.setAttribute('x1', position);
      cursor.setAttribute('x2', position);
      cursor.setAttribute('visibility', 'visible');
      tip.replaceChildren();
      make('b', {}, tip, spec.x.show(value));
      const rows = shown.map((layer) => {
        const last = layer.xs[layer.xs.length - 1];
        if (spec.x.log && value > last * 1.001) return null;
        const y = layer.ys[layer.xs.length === 2 ? 0 : nearest(layer.xs, value, spec.x.log)];
        return y == null ? null : { layer, text: spec.y.show(y) };
      }).filter(Boolean).slice(0, 14);
      for (const row of rows) {
        const line = make('div', {}, tip);
        const name = make('span', {}, line);
        make('i', { class: 'swatch', style: `color:${row.layer.colour}` }, name);
        name.append(` ${row.layer.name}`);
        make('span', {}, line, row.text);
      }
      tip.hidden = false;
      const scale = plot.clientWidth / width;
      const right = position > width / 2;
      tip.style.left = right ? '' : `${(position + 12) * scale}px`;
      tip.style.right = right ? `${(width - position + 12) * scale}px` : '';
      if (aloud) told.textContent = `${spec.x.show(value)}: ${rows.map((row) => `${row.layer.name} ${row.text}`).join(', ')}`;
    };
    const point = (event) => {
      const bounds = svg.getBoundingClientRect();
      const position = ((event.clientX - bounds.left) / bounds.width) * width;
      const part = (position - box.left) / (box.right - box.left);
      const { min, max, log } = spec.x;
      show(nearest(guide.xs, log ? min * (max / min) ** part : min + part * (max - min), log), false);
    };
    svg.addEventListener('pointermove', point);
    svg.addEventListener('pointerdown', point);
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10 }[event.key];
      if (event.key === 'Escape') hide();
      else if (event.key === 'Home') show(0, true);
      else if (event.key === 'End') show(guide.xs.length - 1, true);
      else if (step) show(at < 0 ? 0 : at + step, true);
      else return;
      event.preventDefault();
    });
  };

  const table = (place, spec, shown) => {
    const scroll = make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': spec.title });
    const element = make('table', { class: 'numbers' }, scroll);
    make('caption', {}, element, spec.title);
    const head = make('tr', {}, make('thead', {}, element));
    make('th', { scope: 'col' }, head, spec.x.head || 'Until');
    shown.forEach((layer) => make('th', { scope: 'col' }, head, layer.name));
    const body = make('tbody', {}, element);
    const guide = shown.reduce((most, layer) => (layer.xs.length > (most ? most.xs.length : 0) ? layer : most), null);
    (guide ? guide.xs : []).forEach((value, at) => {
      const row = make('tr', {}, body);
      make('th', { scope: 'row' }, row, spec.x.show(value));
      shown.forEach((layer) => {
        const index = layer.xs.length === 2 ? 0 : layer === guide ? at : layer.xs.indexOf(value);
        const y = index < 0 ? null : layer.ys[index];
        make('td', {}, row, y == null ? '–' : spec.y.show(y));
      });
    });
    place.replaceChildren(scroll);
  };

  // Choices.
  const figures = [...document.querySelectorAll('.chart')];
  const controls = document.querySelector('.controls');
  const choice = controls.elements.series;
  for (const series of data.series) make('option', { value: series }, choice, named(series));
  choice.value = state.series || '';
  document.getElementById('series-choice').hidden = data.series.length < 2;
  document.getElementById('percentile-choice').hidden = !several;
  controls.addEventListener('submit', (event) => event.preventDefault());
  controls.addEventListener('change', () => {
    state.log = controls.elements.scale.value === 'log';
    state.series = choice.value;
    state.percentile = controls.elements.percentile.value;
    figures.filter((figure) => ['tail', 'time'].includes(figure.dataset.chart)).forEach(draw);
  });
  const widths = new Map();
  const watch = new ResizeObserver((changes) => {
    for (const change of changes) {
      const width = Math.round(change.contentRect.width);
      if (width && widths.get(change.target) !== width) { widths.set(change.target, width); draw(change.target.parentElement); }
    }
  });
  for (const figure of figures) {
    const plot = figure.querySelector('.plot');
    draw(figure);
    widths.set(plot, Math.round(plot.clientWidth));
    watch.observe(plot);
  }
  addEventListener('beforeprint', () => document.querySelectorAll('.fold').forEach((fold) => { fold.open = true; }));
})();
