// The list of topics, and one topic: its partitions, who reads it, its settings.
import { h, named } from './dom.js';
import { NONE, bytes, bytesPerSecond, count, perSecond, plural, short } from './format.js';
import { facts, finder, groupLink, lagged, pager, section, shardLink, state, table, topicLink } from './parts.js';
import { sorting } from './groups.js';

export const topicsPath = (query) => {
  const to = new URLSearchParams({ limit: '50', sort: query.get('sort') || 'name' });
  for (const name of ['search', 'after']) if (query.get(name)) to.set(name, query.get(name));
  return `api/topics?${to}`;
};

export const topicsPage = (answer, query) => {
  const sort = (by, up) => sorting('topics', query, by, up, 'name');
  const rated = answer.topics.some((row) => row.records_in != null);
  return [
    h('h1', { 'data-key': 'h1' }, 'Topics'),
    finder('topics', query, 'Search by topic'),
    answer.topics.length
      ? h('div', { 'data-key': 'list', class: 'part list' }, table('topics', 'Topics', [
        ['Topic', 'name', (row) => topicLink(row.topic), sort('name', true)],
        ['Partitions', 'num', (row) => count(row.partitions), sort('partitions', false)],
        ['Records', 'num', (row) => count(row.records)],
        rated ? ['Records in', 'num wide', (row) => perSecond(row.records_in), sort('records_in', false)] : null,
        rated && answer.topics.some((row) => row.bytes_in != null) ? ['Bytes in', 'num wide', (row) => bytesPerSecond(row.bytes_in)] : null,
        ['Size', 'num wide', (row) => bytes(row.bytes)],
        ['Groups', 'num wide', (row) => count(row.groups)],
      ].filter(Boolean), answer.topics, (row) => row.topic))
      : h('p', { class: 'calm part', 'data-key': 'none' }, query.get('search') ? 'No topic is like that.' : 'There is no topic yet: one is made by CreateTopics, or when somebody produces to it.'),
    pager('topics', query, answer.topics.length, answer.total, answer.next),
  ];
};

export const topicPage = (answer, name) => {
  const sum = (of) => (answer.partitions.every((row) => of(row) != null) ? answer.partitions.reduce((all, row) => all + of(row), 0) : null);
  const whole = answer.partitions_total === answer.partitions.length;
  return [
    h('p', { class: 'crumbs', 'data-key': 'crumbs' }, h('a', { href: '#/topics' }, 'Topics'), ' / '),
    h('h1', { 'data-key': 'h1' }, named(name)),
    h('ul', { class: 'tiles plain', 'data-key': 'tiles' },
      h('li', { class: 'tile' }, h('h2', {}, 'Partitions'), h('strong', {}, count(answer.partitions_total))),
      h('li', { class: 'tile' }, h('h2', {}, 'Records kept'), h('strong', {}, whole ? count(sum((row) => (row.end == null || row.start == null ? null : row.end - row.start))) : NONE)),
      h('li', { class: 'tile' }, h('h2', {}, 'Size'), h('strong', {}, whole ? bytes(sum((row) => row.bytes)) : NONE)),
      h('li', { class: 'tile' }, h('h2', {}, 'Groups'), h('strong', {}, count(answer.groups.length)))),
    section('readers', 'Groups that read it', answer.groups.length
      ? table('readers', 'Groups that read it', [
        ['Group', 'name', (row) => groupLink(row.group)], ['State', '', (row) => state(row.state)], ['Lag', 'num', (row) => lagged(row.lag)],
      ], answer.groups, (row) => row.group)
      : h('p', { class: 'calm' }, 'No group has committed an offset of it.')),
    section('topic-partitions', 'Partitions',
      whole ? null : h('p', { class: 'soft' }, `The first ${short(answer.partitions.length)} of ${plural(answer.partitions_total, 'partition')}.`),
      table('topic-partitions', 'Partitions', [
        ['Partition', '', (row) => `${row.partition}`],
        ['Shard', 'num', (row) => shardLink(row.shard)],
        ['Start', 'num wide', (row) => exact(row.start)],
        ['End', 'num', (row) => exact(row.end)],
        ['Size', 'num', (row) => bytes(row.bytes)],
        ['Leader epoch', 'num wide', (row) => exact(row.leader_epoch)],
      ], answer.partitions, (row) => row.partition)),
    section('configs', 'Settings', facts([['Topic id', h('code', {}, answer.id ?? NONE)], ...Object.entries(answer.configs || {}).map(([key, value]) => [h('code', {}, named(key)), named(value ?? NONE)])]),
      Object.keys(answer.configs || {}).length ? null : h('p', { class: 'calm' }, 'All else is as the gateway has it for every topic.')),
  ];
};

const exact = (offset) => (offset == null ? NONE : offset.toLocaleString('en-US'));
