// What several pages are made of: signs of health, tables, badges, links to groups and topics.
import { h, named } from './dom.js';
import { NONE, count, lasting, latency, perSecond, span } from './format.js';

export const SIGNS = { ok: '✓', warning: '▲', critical: '✕', stale: '?', starting: '…' };
export const WORDS = { ok: 'Healthy', warning: 'Warning', critical: 'Critical' };

export const sign = (status) => h('span', { class: `sign ${status}`, 'aria-hidden': 'true' }, SIGNS[status] || SIGNS.stale);

/// Where a group's or topic's own page is. No topic is called nothing or dots alone, which are no part of a path.
const linked = (kind, name) => h('a', { href: `#/${kind}/${encodeURIComponent(name.toWellFormed())}` }, named(name));
export const groupLink = (name) => linked('groups', name);
export const topicLink = (name) => (['', '.', '..'].includes(name) ? named(name) : linked('topics', name));
export const shardLink = (shard) => (shard == null ? NONE : h('a', { href: `#/shards/${shard}` }, `${shard}`));

/// What a finding is about, as a link where there is a page for it.
const subjectLink = (subject, shown) => {
  const [, kind, name] = /^(shard|group|topic) ([^]+)$/.exec(subject || '') || [];
  if (kind === 'group') return h('a', { href: `#/groups/${encodeURIComponent(name.toWellFormed())}` }, named(shown));
  if (kind === 'topic') return h('a', { href: `#/topics/${encodeURIComponent(name.toWellFormed())}` }, named(shown));
  if (kind === 'shard' && /^\d+$/.test(name)) return h('a', { href: `#/shards/${name}` }, shown);
  return named(shown);
};

/// What a finding says, with what it is about as a link: where it is named in the sentence, else before it.
export const told = ({ subject, text }) => {
  const spelled = [subject, subject && subject[0].toUpperCase() + subject.slice(1)].find((name) => name && text.includes(name));
  if (!spelled) return subject ? [h('b', {}, subjectLink(subject, subject)), ': ', named(text)] : [named(text)];
  const at = text.indexOf(spelled);
  const rest = text.slice(at + spelled.length);
  return [at ? named(text.slice(0, at)) : null, h('b', {}, subjectLink(subject, spelled)), rest ? named(rest) : null];
};

const MOODS = { Stable: 'good', PreparingRebalance: 'busy', CompletingRebalance: 'busy', Assigning: 'busy', Reconciling: 'busy' };
/// A group's state, by Kafka's name.
export const state = (name) => h('span', { class: `state ${MOODS[name] || ''}` }, name || NONE);

/// Which way a lag goes, and when it is gone at that rate.
export const trend = (lag, rate) => {
  if (rate == null) return NONE;
  if (Math.abs(rate) < 0.05) return h('span', { class: 'soft' }, '→ steady');
  if (rate > 0) return h('span', { class: 'loud' }, `↗ ${perSecond(rate)}`);
  return h('span', {}, `↘ ${perSecond(-rate)}`, lag ? h('span', { class: 'soft' }, `, ${span((lag / -rate) * 1000)} left`) : null);
};

/// A table. Columns are `[title, class, cell]`; class `wide` is not on phones, `num` is to the right.
export const table = (id, caption, columns, rows, key, extra = {}) => h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
  h('table', { class: extra.class },
    h('caption', { class: extra.captioned ? '' : 'unseen' }, caption),
    h('thead', {}, h('tr', {}, columns.map(([title, style, , sort]) => h('th', { scope: 'col', class: style, 'aria-sort': sort?.now ? (sort.up ? 'ascending' : 'descending') : null },
      sort ? h('a', { href: sort.href, class: 'sort' }, title, h('span', { 'aria-hidden': 'true' }, sort.now ? (sort.up ? ' ↑' : ' ↓') : '')) : title)))),
    h('tbody', {}, rows.map((row, at) => h('tr', { 'data-key': `${id}:${key(row, at)}`, class: extra.mark?.(row) },
      columns.map(([, style, cell], column) => h(column ? 'td' : 'th', { class: style, scope: column ? null : 'row' }, cell(row))))))));

/// Names and values below each other.
export const facts = (pairs) => h('dl', { class: 'facts' }, pairs.filter(Boolean).map(([name, ...value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));

export const section = (id, title, ...inside) => h('section', { 'aria-labelledby': `h-${id}`, 'data-key': id, class: `part ${id}` }, h('h2', { id: `h-${id}` }, title), inside);

export const p99s = (row) => h('span', { class: 'n' }, latency(row.p99));
export const lagged = (lag) => h('span', { class: lag ? 'n' : 'n soft' }, count(lag, 'records'));
export const sinceCell = (at, now) => (at == null ? NONE : lasting(at, now));

/// A line of what can be found, and what can be chosen. The form is answered by main.js.
export const finder = (kind, query, label, states) => h('form', { class: 'finder', role: 'search', 'data-kind': kind, 'data-key': 'finder' },
  h('label', {}, h('span', { class: 'unseen' }, label), h('input', { type: 'search', name: 'search', placeholder: label, value: query.get('search') || '', autocomplete: 'off', spellcheck: 'false', enterkeyhint: 'search', maxlength: 249 })),
  states && h('label', {}, h('span', { class: 'unseen' }, 'State'), h('select', { name: 'state' },
    h('option', { value: '' }, 'any state'), states.map((name) => h('option', { value: name, selected: query.get('state') === name }, name)))));

/// What part of a list is shown, and the way on.
export const pager = (kind, query, shown, total, next) => {
  const from = Math.max(0, parseInt(query.get('from') || '0', 10) || 0);
  const link = (changes) => {
    const to = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changes)) if (value == null) to.delete(name); else to.set(name, value);
    return `#/${kind}${to.size ? `?${to}` : ''}`;
  };
  return h('nav', { class: 'pager', 'aria-label': 'Pages of the list', 'data-key': 'pager' },
    h('span', { class: 'soft' }, shown ? [`${from + 1}–${from + shown} of `, count(total)] : 'none'),
    query.get('after') ? h('a', { class: 'button', href: link({ after: null, from: null }) }, 'First') : null,
    next ? h('a', { class: 'button', href: link({ after: next, from: from + shown }) }, 'Next') : null);
};
